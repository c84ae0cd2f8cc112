"""Tables, bars and the live display; the only module that imports rich.

Texts are shown unchanged, so the caller makes them printable (`text`). Colours appear on a terminal
only, and never with NO_COLOR.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TextIO, TypeAlias

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from taskq.model.words import end_before_command

Picture: TypeAlias = RenderableType
Line: TypeAlias = Text

BAR_WIDTH: Final = 60
MIN_WIDTH: Final = 12  # of a column that has given way
FIRST_WIDTH: Final = 28  # of the first column, if others would have no room next to it

_GAP: Final = 2
_BETWEEN: Final = "   "
_UNBOUNDED: Final = 100_000  # readers of pipes want nothing cut or folded, unless COLUMNS is set

#: The space between a number and its unit, and the character in its place while a text is folded.
_UNIT: Final = re.compile(r"(?<=\d) (?=(?:%|ms|s|min|h|d|[KMGT]iB|bytes)(?!\w))")
_COMMAND: Final = re.compile(r"`[^`]+`")
_HELD: Final = "\ufdd0"  # no character

# By status, in the order of the bar: the colour, and the mark that distinguishes it without colour.
_LOOKS: Final = {
    "done": ("green", "█"),
    "failed": ("red", "▚"),
    "cancelled": ("magenta", "▞"),
    "working": ("yellow", "▒"),
    "delayed": ("cyan", "░"),
    "waiting": ("bright_black", "·"),
}


def can_redraw(stream: TextIO) -> bool:
    """Return whether a stream is a terminal that can move its cursor."""
    return stream.isatty() and not Console(file=stream).is_dumb_terminal


@dataclass(frozen=True, slots=True)
class Fitted:
    """A table that fits the terminal. dropped: the titles of the columns left out.

    alike: by title, the texts of columns that are left out since all their rows have that text.
    """

    titles: list[str]
    rows: list[list[str]]
    widths: list[int]
    dropped: list[str]
    alike: dict[str, str]


def fit(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    stream: TextIO,
    *,
    gives_way: Collection[str] = (),
    yields: Sequence[int] = (),
    sparse: Collection[str] = (),
) -> Fitted:
    """Make a table fit a terminal: narrow columns, and leave columns out.

    First, columns go that have the same text in all of several rows, the widest first; empty
    cells of `sparse` columns do not count. Then columns that give way are narrowed. Then the first
    column is shortened, so that a long path leaves room for the others. Then columns are dropped,
    those with the highest `yields` first, and of equal ones the last. Room that they leave goes
    back to the rest. A stream that is not a terminal has unlimited width, unless COLUMNS is set.
    """
    room = _console(stream).width
    wished = [max(map(cell_len, column)) for column in zip(titles, *rows, strict=True)]
    places = list(range(len(titles)))
    giving = {place for place in places if titles[place] in gives_way}

    def excess(widths: Mapping[int, int]) -> int:
        return sum(widths[place] for place in places) + _GAP * (len(places) - 1) - room

    widths = dict(enumerate(wished))
    alike: dict[str, str] = {}
    for place in sorted(range(1, len(titles)), key=lambda place: -wished[place]):
        texts = {row[place] for row in rows if row[place] or titles[place] not in sparse}
        if excess(widths) > 0 and len(rows) > 1 and len(texts) == 1 and place not in giving:
            places.remove(place)
            alike[titles[place]] = texts.pop()
    for place in list(places):
        if place in giving and (over := excess(widths)) > 0:
            widths[place] = max(widths[place] - over, min(widths[place], MIN_WIDTH))
    if (over := excess(widths)) > 0:
        widths[0] = max(widths[0] - over, min(widths[0], FIRST_WIDTH))
    dropped = []
    while len(places) > 1 and excess(widths) > 0:
        last = max(places[1:], key=lambda place: (yields[place] if yields else 0, place))
        places.remove(last)
        dropped.append(last)
    for place in places:
        widths[place] += max(0, min(wished[place] - widths[place], -excess(widths)))
    return Fitted(
        titles=[titles[place] for place in places],
        rows=[
            [shortened(row[place], widths[place]) if not place else row[place] for place in places]
            for row in rows
        ],
        widths=[widths[place] for place in places],
        dropped=[titles[place] for place in sorted(dropped)],
        alike={title: alike[title] for title in titles if title in alike},
    )


def table(fitted: Fitted) -> Picture:
    """Return a table; columns of numbers are aligned to the right."""
    grid = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for place, title in enumerate(fitted.titles):
        numbers = all(is_number(row[place]) for row in fitted.rows)
        grid.add_column(
            Text(title.upper()),
            justify="right" if numbers else "left",
            overflow="ellipsis",
            no_wrap=True,
            width=fitted.widths[place],
        )
    for row in fitted.rows:
        grid.add_row(*map(_cell, row, fitted.widths))
    return grid


def _cell(text: str, width: int) -> Text:
    """Return a cell; its text ends before a command in backticks that has no room."""
    if cell_len(text) > width:
        room = len(set_cell_size(text, width - 1))
        end = end_before_command(text, room)
        text = text if end == room else f"{text[:end]}…"
    return Text(text)


def folded(text: str, width: int) -> list[str]:
    """Return the lines of a text, broken at spaces, but not between a number and its unit.

    A word that is wider than a line is a line of its own. A command in backticks is broken only if
    it is wider than a line.
    """

    def held(found: re.Match[str]) -> str:
        return found[0].replace(" ", _HELD) if cell_len(found[0]) <= width else found[0]

    text = _COMMAND.sub(held, _UNIT.sub(_HELD, text))
    lines = [""]
    for word in re.findall(r"\s*\S+", text.rstrip()):
        if lines[-1] and cell_len(lines[-1] + word.replace(_HELD, " ")) > width:
            lines.append(word.lstrip())
        else:
            lines[-1] += word
    return [folded.replace(_HELD, " ") for folded in lines]


def campaign(
    title: str, counts: Mapping[str, int], lines: Sequence[str], *below: Picture
) -> Picture:
    """Return the picture of a campaign: a bar of its tasks by status, counts, further lines."""
    return Group(Text(title, "bold"), _Bar(counts), _Counts(counts), *map(Text, lines), *below)


def progress(fraction: float | None, text: str) -> Picture:
    """Return a progress line; fraction: the share done, 0 to 1; None if unknown."""
    if fraction is None:
        return Text(text)
    counts = {"done": round(fraction * 1_000), "waiting": 1_000 - round(fraction * 1_000)}
    return Group(Text(text), _Bar(counts))


def line(text: str, *, right: bool = False) -> Line:
    """Return a text that is not folded. right: whether it is aligned to the right."""
    return Text(text, no_wrap=True, overflow="ellipsis", justify="right" if right else None)


def stack(pictures: Sequence[Picture]) -> Picture:
    """Return pictures as one, each below the other."""
    return Group(*pictures)


def as_text(what: Picture, stream: TextIO | None = None) -> str:
    """Return a picture as text for `stream`, by default standard output."""
    screen = _console(sys.stdout if stream is None else stream)
    with screen.capture() as captured:
        screen.print(what)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


@contextmanager
def live(stream: TextIO, *, keep: bool) -> Iterator[Callable[[Picture], None]]:
    """Yield a function that replaces the picture on the screen.

    keep: whether the last picture stays on the screen.
    """
    screen = _console(stream)
    display = Live(console=screen, auto_refresh=False, transient=not keep)

    def draw(what: Picture) -> None:
        if not display.is_started:
            display.start()  # not earlier: without a picture it would leave an empty line
        display.update(what, refresh=True)

    try:
        yield draw
    finally:
        display.stop()


def _console(stream: TextIO) -> Console:
    return Console(
        file=stream,
        width=None if stream.isatty() else _columns_setting(),
        markup=False,
        emoji=False,
        highlight=False,
    )


def _columns_setting() -> int:
    """Return the width in COLUMNS, for streams that are not terminals; else `_UNBOUNDED`."""
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) else _UNBOUNDED


def shortened(text: str, width: int) -> str:
    """Cut the middle out of a text: paths and keys differ at both ends."""
    if cell_len(text) <= width:
        return text
    return f"{text[: (width - 1) // 2]}…{text[len(text) - width // 2 :]}"


def cells(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return cell_len(text)


def is_number(cell: str) -> bool:
    """Return whether a cell of a table has a number or is empty."""
    text = cell.removesuffix(" %").replace(",", "").replace(".", "", 1).lstrip("-")
    return not cell or text.isdecimal()


class Paragraph:
    """A text behind `first`, folded at the width of the terminal."""

    def __init__(self, first: str, text: str) -> None:
        self._first, self._text = first, text

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[Text]:
        margin = cell_len(self._first)
        width = max(options.max_width - margin, 1)
        # A word that is wider than a line is broken, too, and continues behind the margin.
        lines = folded(self._text, width)
        lines = [part for line in lines for part in chop_cells(line, width) or [line]]
        for number, line in enumerate(lines):
            yield Text((" " * margin if number else self._first) + line, overflow="fold")


class _Bar:
    """A bar with a part for each status, proportional to its count; every count above 0 shows."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = {status: counts.get(status, 0) for status in _LOOKS}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width = min(BAR_WIDTH, options.max_width)
        lengths = _lengths(self._counts, width)
        bar = Text(no_wrap=True)
        for status, length in lengths.items():
            colour, mark = _LOOKS[status]
            bar.append(mark * length, colour)
        yield bar if lengths else Text("·" * width, "dim")


def bar(counts: Mapping[str, int], width: int) -> str:
    """Return a bar without colours; empty without tasks."""
    lengths = _lengths({status: counts.get(status, 0) for status in _LOOKS}, width)
    return "".join(_LOOKS[status][1] * length for status, length in lengths.items())


def _lengths(counts: Mapping[str, int], width: int) -> dict[str, int]:
    """Return the length of each part of a bar; none without tasks."""
    total = sum(counts.values())
    if not total:
        return {}
    lengths = {
        status: max(1, round(count * width / total)) if count else 0
        for status, count in counts.items()
    }
    longest = max(lengths, key=lengths.__getitem__)
    lengths[longest] += width - sum(lengths.values())
    return lengths


class _Counts:
    """Counts by status with the marks of the bar, as many on each line as fit."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = counts
        # Width of the sum, so that the layout stays when a count grows.
        self._digits = len(f"{sum(counts.values()):,}")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        cells = [self._cell(status) for status in _LOOKS]
        width = cells[0].cell_len + len(_BETWEEN)
        in_line = next((n for n in (3, 2) if n * width <= options.max_width + len(_BETWEEN)), 1)
        for first in range(0, len(cells), in_line):
            yield Text(_BETWEEN).join(cells[first : first + in_line])

    def _cell(self, status: str) -> Text:
        colour, mark = _LOOKS[status]
        count = self._counts[status]
        return Text.assemble(
            (f"{mark} ", colour),
            f"{status:<{max(map(len, _LOOKS))}} ",
            (f"{count:>{self._digits},}", "" if count else "dim"),
        )
