"""Screens on top of the tree: panels and questions, with their tables and texts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.coordinate import Coordinate
from textual.screen import ModalScreen, Screen
from textual.widgets import DataTable, Footer, Input, Static

from taskq.diagnosis.shared_readings import Readings
from taskq.model.errors import TaskqError
from taskq_cli.display import render
from taskq_cli.display.text import one_line
from taskq_cli.top.panel import Opening, Panel, Row, Subject

#: Characters that a column keeps when it gives way: a shorter text says nothing.
LEAST_WIDTH: Final = 16

#: Seconds after which an open panel is read again.
FRESH_S: Final = 5.0
#: All keys, as the help screen has them.
KEYS: Final = (
    ("Enter", "open the row: a campaign, task, host or agent"),
    ("Esc", "go back"),
    ("Tab", "the other part of the screen, to scroll it"),
    ("Left Right", "move a table that is wider than the screen"),
    ("+ -", "more or fewer levels of the tree"),
    ("w", "what is wrong now, and who knows of it"),
    ("e", "explain why the campaign or task does not run"),
    ("p", "pause the campaign, or resume it"),
    ("r", "retry failed tasks of the campaign, or the open task"),
    ("f", "failures, and whose fault they are"),
    ("h s a", "hosts, sites, agents"),
    ("t", "a task by its key"),
    ("g", "gateways and the database"),
    ("o", "owners and their quotas"),
    ("?", "these keys"),
    ("q", "quit"),
)


class TextBox(Static):
    """A text of a few lines. It avoids the layout of the screen, its slowest step."""

    _text = ""

    def show_text(self, text: str, *, folded: bool = False, fixed: bool = True) -> None:
        """Show a text. fixed: whether its room depends only on whether it is empty."""
        if text != self._text:
            layout = not (fixed and text and self._text)
            self._text = text
            shown = render.Paragraph("", text) if folded else render.line(text)
            self.update(shown, layout=layout)


class Rows(DataTable[render.Line]):
    """A table; Enter opens a row."""

    def __init__(self, name: str) -> None:
        super().__init__(id=name, cursor_type="row", zebra_stripes=False)
        self._shown: list[Row] = []
        self._titles: Sequence[str] = ()
        self._numbers: list[bool] = []
        self._fitted: list[int] = []

    @property
    def chosen(self) -> Row | None:
        """The row that the cursor is on."""
        place = self.cursor_row
        return self._shown[place] if 0 <= place < len(self._shown) else None

    def fill(self, titles: Sequence[str], rows: Sequence[Row]) -> None:
        """Show these rows: change only what differs, and keep the cursor on its row."""
        names = [row.name for row in rows]
        widths = [_widths(found) for found in (rows, self._shown)]
        same = names == [row.name for row in self._shown] and widths[0] == widths[1]
        if same and titles == self._titles:
            for line, (row, old) in enumerate(zip(rows, self._shown, strict=True)):
                for place, (text, before) in enumerate(zip(row.cells, old.cells, strict=True)):
                    if text != before:
                        self.update_cell_at(Coordinate(line, place), self._cell(place, text))
        else:
            self._renew(titles, rows)
        self._shown, self._titles = list(rows), titles

    def _renew(self, titles: Sequence[str], rows: Sequence[Row]) -> None:
        chosen, before = self.chosen, self.cursor_row
        self.clear(columns=True)
        columns = zip(*(row.cells for row in rows), strict=True)
        self._numbers = [all(map(render.is_number, column)) for column in columns]
        wished = [
            max(map(render.cells, column))
            for column in zip(titles, *(row.cells for row in rows), strict=True)
        ]
        self._fitted = self._fitting(wished)
        for place, title in enumerate(titles if rows else ()):
            width = None if self._fitted[place] == wished[place] else self._fitted[place]
            self.add_column(self._cell(place, title.upper()), width=width)
        for row in rows:
            self.add_row(*(self._cell(place, text) for place, text in enumerate(row.cells)))
        names = [row.name for row in rows]
        if chosen is not None and chosen.name in names:
            before = names.index(chosen.name)
        self.move_cursor(row=min(before, len(names) - 1), animate=False)

    def _fitting(self, widths: Sequence[int]) -> list[int]:
        """Return widths at which all columns show: texts give way, the widest first."""
        fitting = list(widths)
        for place in sorted(range(len(widths)), key=lambda place: -widths[place]):
            excess = sum(fitting) + 2 * self.cell_padding * len(fitting) - self.app.size.width
            if excess > 0 and not self._numbers[place]:
                least = LEAST_WIDTH if place else render.FIRST_WIDTH
                fitting[place] = max(fitting[place] - excess, min(fitting[place], least))
        return fitting

    def on_resize(self) -> None:
        """Fit the columns again."""
        if self._shown:
            self._renew(self._titles, self._shown)

    def _cell(self, place: int, text: str) -> render.Line:
        if not place and self._fitted:
            text = render.shortened(text, self._fitted[place])
        return render.line(text, right=self._numbers[place])


def _widths(rows: Sequence[Row]) -> list[int]:
    return [max(map(len, column)) for column in zip(*(row.cells for row in rows), strict=True)]


class OpenedScreen(Screen[None]):
    """An open panel, read again while it is shown."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "app.leave", "Back", key_display="esc"),
        Binding("tab", "app.focus_next", "Other part", show=False),
        Binding("a", "app.open('agents')", "Agents", show=False),  # its name has no room
    ]

    def __init__(self, opening: Opening, readings: Readings) -> None:
        super().__init__()
        self._opening = opening
        self._readings = readings

    @property
    def subject(self) -> Subject:
        """What keys act on."""
        return self._opening.subject

    def compose(self) -> ComposeResult:
        """Return the parts: a title, pictures, a table."""
        yield Static(render.line(one_line(self._opening.title)), classes="title")
        with VerticalScroll(id="text"):
            yield Static("reading ...", id="pictures", markup=False)
        yield Rows("rows")
        yield TextBox("", classes="message", markup=False)
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Begin to follow."""
        self.query_one(Rows).display = False
        self.run_worker(self._follow())

    async def _follow(self) -> None:
        while True:
            if self.is_current:
                opening = self._opening
                found: Panel | TaskqError
                try:
                    key = opening.title, opening.subject
                    found = await self._readings.get(key, FRESH_S, opening.read)
                except TaskqError as error:
                    found = error
                if self.is_current:  # otherwise its parts may be gone
                    self._show(found)
            await asyncio.sleep(FRESH_S)

    def _show(self, found: Panel | TaskqError) -> None:
        pictures = self.query_one("#pictures", Static)
        if isinstance(found, TaskqError):
            pictures.update(render.Paragraph("", one_line(str(found))))
            return
        pictures.update(render.stack(found.pictures))
        table = self.query_one(Rows)
        table.fill(found.titles, found.rows)
        first = not table.display and found.rows
        table.display = bool(found.rows)
        if first:
            table.focus()


class KeysScreen(ModalScreen[None]):
    """Shows all keys; each key that ends something closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace,enter,q,question_mark", "dismiss", "Back"),
    ]

    def compose(self) -> ComposeResult:
        """Return the keys, each with its meaning."""
        with Vertical(classes="asked"):
            lines = (f"{key:<10}  {what}" for key, what in KEYS)
            yield Static("\n".join(lines) + "\n\nesc: back", markup=False)


class QuestionScreen(ModalScreen[bool]):
    """Asks for a yes; anything else is a no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes"),
        Binding("n,escape,enter,q", "dismiss(False)", "No"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Return the question."""
        with Vertical(classes="asked"):
            yield Static(f"{one_line(self._question)}\n\ny: yes   n: no", markup=False)


class LineScreen(ModalScreen[str]):
    """Asks for a line of text; the answer is empty if the user gives none."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss('')", "Cancel")]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Return the question and a place for the answer."""
        with Vertical(classes="asked"):
            yield Static(one_line(self._question), markup=False)
            yield Input(compact=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the answer."""
        self.dismiss(event.value)
