"""Records as a table for people, JSON or JSON Lines for programs.

A record is a view of the queue, whose fields are the names in JSON, or a mapping. Instants are
ISO 8601 in UTC, durations seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar

import click

from taskq.model.columns import Column, filled, shown
from taskq.model.words import as_json, plain
from taskq_cli.display import render
from taskq_cli.display.text import one_line, safe_json

TABLE_ROWS: Final = 1_000
"""Most rows of a table, which keeps them in memory to know how wide its columns are."""

Record = Mapping[str, Any]
Row = TypeVar("Row")


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
    output: str,
    rows: Iterable[Row],
    columns: Sequence[Column[Row]],
    *,
    limit: int | None = None,
    record: Callable[[Row], Record] = as_record,
) -> None:
    """Write rows to standard output in the format `output`: views of the queue, or records.

    At most `limit` of them; without a limit a table has at most `TABLE_ROWS`. A table leaves out
    columns that say nothing of any row. record: returns what JSON has of a row.
    """
    if output == "table":
        _write_table(iter(rows), columns, TABLE_ROWS if limit is None else limit)
        return
    chosen = rows if limit is None else islice(rows, limit)
    lines = (_json(record(row)) for row in chosen)
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
        f"{name:<{width}}  {text}"
        for name, value in pairs.items()
        if (text := one_line(shown(value)))
    )


def paragraph(text: str, commands: Iterable[str] = (), mark: str = "") -> str:
    """Return a text folded for the terminal, with commands below it that can be pasted whole."""
    folded = render.as_text(render.Paragraph(mark, one_line(text)))
    margin = " " * (len(mark) or 2)
    return folded + "".join(f"{margin}$ {one_line(command)}\n" for command in commands)


def fit(columns: Sequence[Column[Row]], rows: Sequence[Row], stream: TextIO) -> render.Fitted:
    """Return the table of rows as it fits a terminal, without columns that say nothing."""
    chosen = filled(columns, rows)
    return render.fit(
        [one_line(column.title) for column in chosen],
        [[one_line(column.text(row)) for column in chosen] for row in rows],
        stream,
        gives_way=[one_line(column.title) for column in chosen if column.gives_way],
        yields=[column.yields for column in chosen],
        sparse=[one_line(column.title) for column in chosen if column.sparse],
    )


def _write_table(rows: Iterator[Row], columns: Sequence[Column[Row]], limit: int) -> None:
    chosen = list(islice(rows, limit))
    if not chosen:
        click.echo("There are none.", err=True)
        return
    fitted = fit(columns, chosen, sys.stdout)
    sys.stdout.write(render.as_text(render.table(fitted)))
    sys.stdout.flush()
    if fitted.alike:
        same = ", ".join(f"{title} {text}" for title, text in fitted.alike.items())
        click.echo(f"The same in all rows: {same}.", err=True)
    if fitted.dropped:
        click.echo(f"No room here for: {', '.join(fitted.dropped)}.", err=True)
    if next(rows, None) is not None:
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
