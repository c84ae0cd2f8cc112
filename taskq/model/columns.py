"""Columns of tables as data: commands, the full screen, pages and notebooks draw the same ones.

A view chooses columns, fits them to its room, and makes their texts safe for where it shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from taskq.model.words import as_text, duration, instant, percent, rate
from taskq_agent.units import in_bytes

#: What the values of a column are; "text" goes by the type of each value.
Kind: TypeAlias = Literal["text", "count", "share", "seconds", "rate", "times", "bytes", "marks"]

Row = TypeVar("Row")

_NUMBERS: Final[Mapping[Kind, Callable[[Any], str]]] = {
    "count": "{:,}".format,
    "share": percent,
    "seconds": duration,
    "rate": rate,
    "times": "{:.2f}".format,
    "bytes": in_bytes,
}


@dataclass(frozen=True, slots=True)
class Mark:
    """A state that deserves a look.

    why: the reason; empty if none is known. short: what a table shows, by default the word.
    """

    word: str
    why: str = ""
    short: str = ""

    def __str__(self) -> str:
        """In words: `banned: its scratch disk is full`."""
        return f"{self.word}: {self.why}" if self.why else self.word


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column of a table.

    value: returns the value of a row; None: the field with the column's name. means: what the
    column shows, in a sentence; empty if its title says it. gives_way: whether a narrow terminal
    shortens this column first. yields: where the room is not enough, columns with the highest
    number are left out first, and of equal ones the last. sparse: whether empty cells and zeros do
    not count: a column without any other cell is left out, and so is one whose other cells are
    alike, where the room is not enough. is_bad: returns whether the cell of a row shows something
    that is wrong.
    """

    title: str
    value: Callable[[Row], object] | None = None
    kind: Kind = "text"
    means: str = ""
    gives_way: bool = False
    yields: int = 0
    sparse: bool = False
    is_bad: Callable[[Row], object] | None = None

    @property
    def is_number(self) -> bool:
        """Whether its values are numbers, which are aligned to the right."""
        return self.kind in _NUMBERS

    def of(self, row: Row) -> object:
        """Return the value of a row; None if it has none."""
        if self.value is not None:
            return self.value(row)
        if isinstance(row, Mapping):
            return row.get(self.title)
        return getattr(row, self.title)

    def text(self, row: Row) -> str:
        """Return the cell of a row; of marks, the words only."""
        value = self.of(row)
        if self.kind == "marks":
            marks: Iterable[Mark] = value  # type: ignore[assignment]  # the kind says so
            return ", ".join(mark.short or mark.word for mark in marks)
        if value is None or value == "":
            return ""
        return _NUMBERS[self.kind](value) if self.kind in _NUMBERS else shown(value)

    def full_text(self, row: Row) -> str:
        """Return the cell of a row where there is room: of marks, the reasons too."""
        if self.kind != "marks":
            return self.text(row)
        marks: Iterable[Mark] = self.of(row)  # type: ignore[assignment]  # the kind says so
        return "; ".join(map(str, marks))

    def is_filled(self, rows: Iterable[Row]) -> bool:
        """Return whether a row has a text here that says something."""
        return any(text and not (self.sparse and text == "0") for text in map(self.text, rows))


def filled(columns: Iterable[Column[Row]], rows: Sequence[Row]) -> list[Column[Row]]:
    """Return the columns that say something of any row; the first one always."""
    return [column for place, column in enumerate(columns) if not place or column.is_filled(rows)]


def without(columns: Iterable[Column[Row]], *titles: str) -> list[Column[Row]]:
    """Return the columns that have none of these titles."""
    return [column for column in columns if column.title not in titles]


def texts(columns: Iterable[Column[Row]], row: Row) -> dict[str, str]:
    """Return the texts of a row by the titles of columns."""
    return {column.title: column.text(row) for column in columns}


def shown(value: object) -> str:
    """Return a value as a cell: instants in ISO 8601, six digits of a number, lists with commas."""
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return str(value) if isinstance(value, Path) else as_text(value)
