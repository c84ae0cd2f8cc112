"""What a view of the full screen is made of: pictures, a table of rows, and what rows open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from taskq.model.columns import Column, filled
from taskq_cli.display import render
from taskq_cli.display.text import one_line

#: Most rows that are shown.
MOST_ROWS: Final = 500

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Subject:
    """What keys act on: a campaign, or a task of it."""

    path: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table. name: what it is about. opens: what Enter opens."""

    name: str
    cells: Sequence[str]
    opens: Opening | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    """What a screen shows: pictures above, a table below."""

    pictures: Sequence[render.Picture] = ()
    titles: Sequence[str] = ()
    rows: Sequence[Row] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Opening:
    """What can be opened. read: called in a thread, repeatedly while it is shown."""

    title: str
    subject: Subject
    read: Callable[[], Panel]


def table(
    pictures: Sequence[render.Picture],
    columns: Iterable[Column[T]],
    rows: Sequence[T],
    name: Callable[[T], str] = lambda _: "",
    opens: Callable[[T], Opening] | None = None,
) -> Panel:
    """Return a panel with a table of rows; what may be beyond the edge of the screen comes last.

    name: returns what a row is about, by default its number; opens: what Enter opens.
    """
    rows = rows[:MOST_ROWS]
    shown = sorted(filled(columns, rows), key=lambda column: column.yields) if rows else []
    return Panel(
        pictures,
        [column.title for column in shown],
        [
            Row(
                name(row) or f"{number}",
                [one_line(column.text(row)) for column in shown],
                None if opens is None else opens(row),
            )
            for number, row in enumerate(rows)
        ],
    )
