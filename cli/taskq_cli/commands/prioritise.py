"""`taskq prioritise`: change the priorities of waiting tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import click

from taskq import Campaign
from taskq.campaign.priorities import Extreme, Prioritised
from taskq.ingest.sources import BadLine, SourceOptions, open_source
from taskq.ingest.sources.files import choose_format
from taskq.ingest.sources.records import key_fields
from taskq.model.errors import InvalidTask, UsageError
from taskq.model.seed import PRIORITY_RANGE
from taskq.model.words import counted
from taskq_cli.commands.tasks import Bulk
from taskq_cli.display.output import as_record, write_record
from taskq_cli.display.progress import chunk_display
from taskq_cli.display.text import one_line
from taskq_cli.early_exits import resumable
from taskq_cli.invocation import Invocation
from taskq_cli.options.shared import (
    below_option,
    dry_run_option,
    path_argument,
    shared_options,
    where_option,
)


@click.command()
@path_argument(metavar="CAMPAIGN")
@click.argument("file", required=False, type=click.Path(), metavar="[FILE]")
@click.option(
    "--key-field",
    "key",
    metavar="FIELDS",
    help="Field that holds the key, or several such as a,b. [default: key]",
)
@click.option(
    "--by",
    metavar="FIELD",
    help="Field that holds the priority or score. [default: the only other field]",
)
@click.option(
    "--lowest/--highest",
    default=None,
    help="The values are scores, and these are the best: tasks get priorities from 1,000 down to "
    "1, by rank. [default: the values are priorities, whole numbers]",
)
@click.option(
    "--priority",
    type=click.IntRange(*PRIORITY_RANGE),
    metavar="N",
    help="The priority of all tasks that match --where.",
)
@where_option
@below_option
@dry_run_option
@shared_options
def prioritise(
    invocation: Invocation,
    *,
    path: str,
    file: str | None,
    key: str | None,
    by: str | None,
    lowest: bool | None,
    priority: int | None,
    where: str | None,
    below: bool,
    dry_run: bool,
) -> None:
    """Change the priorities of waiting tasks.

    Either a FILE has keys of CAMPAIGN and priorities, or scores: CSV, TSV or JSON Lines, plain or
    compressed. Or a filter matches tasks of CAMPAIGN and all below it. Agents get tasks with a
    higher priority first; seeding gives 0. Running and ended tasks keep theirs.

    Examples:
      taskq prioritise /demo/dock scores.csv --lowest
      taskq prioritise /demo --where 'payload.target = "1lf3"' --priority 5
    """
    if (file is None) == (priority is None):
        raise UsageError("give priorities by a FILE, or by --where FILTER --priority N")
    with invocation.client() as client:
        campaign = client.campaign(path)
        if priority is not None:
            if key or by or lowest is not None:
                raise UsageError("--key-field, --by, --lowest and --highest go with a FILE")
            if where is None:
                raise UsageError("--priority N needs --where FILTER, which selects the tasks")
            bulk = Bulk(invocation, path, where, below, dry_run)
            moved = bulk.run(partial(campaign.set_priority, priority))
            priorities = f"the priority {priority}"
            bulk.write(moved, done=f"got {priorities}", would=f"would get {priorities}")
            return
        if where is not None or dry_run:
            raise UsageError("--where and --dry-run go with --priority N")
        best: Extreme | None = None if lowest is None else "lowest" if lowest else "highest"
        _by_file(invocation, campaign, _values(str(file), key or "key", by), best)


def _by_file(
    invocation: Invocation,
    campaign: Campaign,
    values: Iterator[tuple[str, Any]],
    best: Extreme | None,
) -> None:
    path = campaign.path
    with resumable(), chunk_display(f"prioritising {path}") as show:
        done = campaign.prioritise(
            values,
            best=best,
            on_progress=lambda progress: show(
                progress.read, progress.total, f"{progress.changed:,} changed"
            ),
        )
    write_record(invocation.output, as_record(done, path=path), _summary(path, done))
    for name in done.some_unknown if invocation.output == "table" else ():
        click.echo(one_line(f"No task has the key {name}."), err=True)
    if invocation.output == "table" and done.unknown > len(done.some_unknown):
        click.echo(f"Further unknown keys are only counted: {done.unknown:,} in all.", err=True)


def _summary(path: str, done: Prioritised) -> str:
    parts = [f"{counted(done.changed, 'task')} of {path} got another priority"]
    parts += [f"{done.unchanged:,} had theirs"] if done.unchanged else []
    parts += [f"{done.not_waiting:,} no longer wait"] if done.not_waiting else []
    parts += [counted(done.unknown, "unknown key")] if done.unknown else []
    return f"{', '.join(parts)}."


def _values(file: str, key: str, by: str | None) -> Iterator[tuple[str, Any]]:
    """Yield keys and values of a file; raise `InvalidTask` at a bad line."""
    field: str | None = None
    options = SourceOptions(key=key)
    if "types" in choose_format(file, None, options).options:
        options = replace(options, types="number")  # the values are no names
    with open_source(file, options=options) as source:
        for record in source:
            if isinstance(record, BadLine):
                raise InvalidTask(f"{file}:{record.number}: {record.reason}; nothing was changed")
            if field is None:
                field = _field(file, by, set(record.payload) - set(key_fields(key)))
            if field not in record.payload:
                raise InvalidTask(f"{file}:{source.line}: there is no field {field!r}")
            yield str(record.key), record.payload[field]


def _field(file: str, by: str | None, others: set[str]) -> str:
    """Return the field with the values. others: the fields of the first record without the key."""
    if by in others:
        return by
    if by is None and len(others) == 1:
        return others.pop()
    found = ", ".join(sorted(others)) or "nothing"
    missing = "" if by is None else f"no field {by!r}; it has "
    raise UsageError(f"{file} has {missing}{found} apart from the key; name the field with --by")
