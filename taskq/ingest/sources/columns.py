"""Columns of tables: their names, and whether their values are numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from taskq.ingest.sources.records import (
    Notes,
    excerpt,
    number_or_text,
    numbered,
    same_number_or_text,
)

#: Texts of fewer characters that are whole numbers have at most 15 digits.
_MOST_WHOLE_CHARS: Final = 16
#: Rows that are looked at together.
_ROWS: Final = 1_000
#: Values that are enough to see that a column is text.
_SOME: Final = 10
_OF_NUMBERS: Final = frozenset("0123456789.-e")


def names_of(titles: Sequence[str]) -> list[str]:
    """Return a name for each column, none twice: `columnN` without a title, `TITLE_2` for a second.

    N counts columns from 1.
    """
    titles = [title.strip() for title in titles]
    taken = set(titles)
    names: list[str] = []
    for place, title in enumerate(titles, 1):
        name = title or f"column{place}"
        if name in names or not title:
            name = numbered(name, taken)
        taken.add(name)
        names.append(name)
    return names


class NumberColumns:
    """The columns whose values are all numbers with the same text, empty values apart.

    White space around numbers does not matter if all of a column have the same.
    """

    def __init__(self, names: Sequence[str], notes: Notes) -> None:
        self._names = names
        self._notes = notes
        #: For each column that may be one, what is around its numbers; None before the first.
        self._around: dict[int, tuple[str, str] | None] = dict.fromkeys(range(len(names)))
        self._rows: list[list[str]] = []  # that are not yet looked at
        self._lines: list[int] = []

    @property
    def left(self) -> bool:
        """Return whether there may be such a column."""
        return bool(self._around)

    def see(self, row: list[str], line: int) -> None:
        """Look at a further row, in this line, with a value for each column."""
        self._rows.append(row)
        self._lines.append(line)
        if len(self._rows) == _ROWS:
            self._look()

    def _look(self) -> None:
        columns = list(zip(*self._rows, strict=True))
        for place, before in [*self._around.items()]:
            values = list(filter(None, columns[place]))
            if not values:
                continue
            around = before or _around(values[0])
            if _are_numbers(values, around):
                self._around[place] = around
            else:
                self._drop(place, around, columns[place])
        self._rows, self._lines = [], []

    def found(self) -> frozenset[int]:
        """Return the places of the columns."""
        if self._rows:
            self._look()
        return frozenset(place for place, around in self._around.items() if around is not None)

    def _drop(self, place: int, around: tuple[str, str], column: Sequence[str]) -> None:
        """Make it a column of text, with a note if it had numbers before, or a number is why."""
        began = self._around.pop(place) is not None
        for line, value in zip(self._lines, column, strict=True):
            if not value or _is_number(value, around):
                began = began or bool(value)
                continue
            found, text = number_or_text(value), excerpt(value)
            if _around(value) != around and str(found) == value.strip():
                why = f"{text!r} has other white space around it than values before"
            elif not isinstance(found, str):
                why = f"as a number, {text!r} would be {found}; `--types number` makes it one"
            elif began:
                why = f"{text!r} is not a number"
            else:
                return
            name = excerpt(self._names[place])
            self._notes.add(line, f"the column {name!r} stays text: {why}")
            return


class SingleNumbers:
    """Values of a table that can be read only once: each is a number or text by itself."""

    def __init__(self, names: Sequence[str], notes: Notes) -> None:
        self._names = names
        self._notes = notes
        self._around: dict[int, tuple[str, str]] = {}
        self._numbers: dict[int, bool] = {}  # for each column, whether the last value was one

    def value(self, place: int, text: str, line: int) -> int | float | str:
        """Return a value of a column; note if the column has both numbers and text."""
        if not text:
            return text
        around = self._around.setdefault(place, _around(text))
        is_number = _is_number(text, around)
        if self._numbers.setdefault(place, is_number) != is_number:
            self._notes.add(
                line,
                f"the column {excerpt(self._names[place])!r} has numbers and text, as each value "
                "of a pipe is judged by itself: see `--types`, or seed a regular file",
            )
        return number(text) if is_number else text


def number(text: str) -> int | float | str:
    """Return a value of a column of numbers; text if it is empty, or is none after all."""
    if not text:
        return text
    try:
        return float(text) if "." in text or "e" in text else int(text)
    except ValueError:  # a file that has changed since it was looked through
        return text


def _around(text: str) -> tuple[str, str]:
    """Return the white space before and behind the rest of a text."""
    rest = text.lstrip()
    return text[: len(text) - len(rest)], rest[len(rest.rstrip()) :]


def _is_number(text: str, around: tuple[str, str]) -> bool:
    return _around(text) == around and not isinstance(same_number_or_text(text.strip()), str)


def _are_numbers(values: list[str], around: tuple[str, str]) -> bool:
    """Return whether all are numbers with the same text; most often at the cost of C."""
    if any(around):
        return all(_is_number(value, around) for value in values)
    try:
        if list(map(str, map(int, values))) == values and max(map(len, values)) < _MOST_WHOLE_CHARS:
            return True
    except ValueError:  # text, a decimal number, or thousands of digits
        pass
    if not _OF_NUMBERS.issuperset("".join(values[:_SOME])):
        return False
    try:
        texts = list(map(repr, map(float, values)))
        if texts == values and _OF_NUMBERS.issuperset("".join(values)):
            return True
    except ValueError:
        return False
    return all(not isinstance(same_number_or_text(value), str) for value in values)
