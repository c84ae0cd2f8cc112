"""Records as a table for people, JSON or JSON Lines for programs.

A record is a view of the queue, whose fields are the names in JSON, or a mapping. Instants are
ISO 8601 in UTC, durations seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

import click

from taskq.model.words import as_json, as_text, instant, plain
from taskq_cli.display import render
from taskq_cli.display.text import one_line, safe_json

TABLE_ROWS: Final = 1_000
"""Most rows of a table, which keeps them in memory to know how wide its columns are."""

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    cell: returns the value to show for a record; None: the field with the column's name. gives_way:
    whether a narrow terminal shortens this column first. yields: if that is not enough, columns
    with the highest number are left out first, and of equal ones the last. sparse: whether empty
    cells do not count when the column is left out because all its cells are alike.
    """

    title: str
    cell: Callable[[Record], object] | None = None
    gives_way: bool = False
    yields: int = 0
    sparse: bool = False

    def text(self, record: Record) -> str:
        """Return the cell of a record."""
        return _cell(record.get(self.title) if self.cell is None else self.cell(record))


def as_record(view: object, **more: object) -> dict[str, Any]:
    """Return a view as a record, with the keyword arguments as its first fields.

    Views in a view stay as they are, and become records in JSON.
    """
    if isinstance(view, Mapping):
        return {**more, **view}
    if not is_dataclass(view) or isinstance(view, type):
        raise TypeError(f"a {type(view).__name__} is not a record")
    return more | {field.name: getattr(view, field.name) for field in fields(view)}


def write_records(
    output: str, records: Iterable[Record], columns: Sequence[Column], *, limit: int | None = None
) -> None:
    """Write records to standard output in the format `output`.

    At most `limit` of them; without a limit a table has at most `TABLE_ROWS`. A table leaves out
    columns that are empty in all rows.
    """
    if output == "table":
        _write_table(iter(records), columns, TABLE_ROWS if limit is None else limit)
        return
    chosen = records if limit is None else islice(records, limit)
    lines = (_json(record) for record in chosen)
    if output == "jsonl":
        sys.stdout.writelines(f"{line}\n" for line in lines)
        return
    first = next(lines, None)
    sys.stdout.write("[")
    if first is not None:
        sys.stdout.write(f"\n{first}")
        sys.stdout.writelines(f",\n{line}" for line in lines)
        sys.stdout.write("\n")
    sys.stdout.write("]\n")


def write_record(output: str, record: Record, text: str) -> None:
    """Write one record as JSON, or with output `table` the text that says the same."""
    sys.stdout.write(f"{text if output == 'table' else _json(record)}\n")


def facts(pairs: Mapping[str, object]) -> str:
    """Return names and values, one pair a line; pairs without a value are left out."""
    width = max(map(len, pairs))
    return "\n".join(
        f"{name:<{width}}  {text}" for name, value in pairs.items() if (text := _cell(value))
    )


def paragraph(text: str, commands: Iterable[str] = (), mark: str = "") -> str:
    """Return a text folded for the terminal, with commands below it that can be pasted whole."""
    folded = render.as_text(render.Paragraph(mark, one_line(text)))
    margin = " " * (len(mark) or 2)
    return folded + "".join(f"{margin}$ {one_line(one)}\n" for one in commands)


def _write_table(records: Iterator[Record], columns: Sequence[Column], limit: int) -> None:
    shown = list(islice(records, limit))
    if not shown:
        click.echo("There are none.", err=True)
        return
    cells = {column: [column.text(record) for record in shown] for column in columns}
    filled = [column for column in columns if any(cells[column])]
    fitted = render.fit(
        [one_line(column.title) for column in filled],
        list(zip(*(cells[column] for column in filled), strict=True)),
        sys.stdout,
        gives_way=[one_line(column.title) for column in filled if column.gives_way],
        yields=[column.yields for column in filled],
        sparse=[one_line(column.title) for column in filled if column.sparse],
    )
    sys.stdout.write(render.as_text(render.table(fitted)))
    sys.stdout.flush()
    if fitted.alike:
        same = ", ".join(f"{title} {text}" for title, text in fitted.alike.items())
        click.echo(f"The same in all rows: {same}.", err=True)
    if fitted.dropped:
        click.echo(f"No room here for: {', '.join(fitted.dropped)}.", err=True)
    if next(records, None) is not None:
        click.echo(
            f"There are more than these {limit:,}; --limit N shows more, --output jsonl all.",
            err=True,
        )


def _json(record: Record) -> str:
    return safe_json(as_json({**record}, _plain))


def _plain(value: object) -> object:
    """Return a view in a record, a path or another value in the form that JSON has."""
    if isinstance(value, Path):
        return str(value)
    return as_record(value) if is_dataclass(value) else plain(value)


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return one_line(", ".join(value))
    return one_line(str(value) if isinstance(value, Path) else as_text(value))
