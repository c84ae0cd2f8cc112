"""`taskq export`: write results to a file, once or as they come."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from taskq import Campaign, Client, Cursor
from taskq.files.destination import new_folder
from taskq.model.errors import NotFound, Unavailable, UsageError
from taskq.model.recipes import Recipe
from taskq.model.views import Result
from taskq.model.words import counted
from taskq.results.partitions import write_partitioned
from taskq.results.poses import Poses
from taskq.results.provenance import Makers, describe, origins
from taskq.results.records import FORMATS, format_of, suffix_format, write
from taskq.results.tabular import Columns
from taskq_agent.paths import exists, is_file
from taskq_cli.commands.results import (
    LossWarning,
    Wanted,
    found_results,
    large_options,
    result_options,
)
from taskq_cli.display.output import Record, as_record
from taskq_cli.display.text import SafeStream
from taskq_cli.early_exits import wait_out
from taskq_cli.invocation import Invocation, warn
from taskq_cli.options.shared import OutputType, connection_reading_options, path_argument, together

#: Least seconds between two versions of a cursor's file, and at least so many times as long as
#: writing one takes.
SAVE_S: Final = 1.0
REST: Final = 9

cursor_options: Final = together(
    click.option(
        "--cursor",
        "file",
        metavar="FILE",
        type=click.Path(),
        help="Only results that this cursor file does not list yet. The file is created if it is "
        "missing, and updated when they are written.",
    ),
    click.option(
        "--follow",
        is_flag=True,
        help="Go on with results as they come, until no task is unfinished.",
    ),
)

pose_options: Final = together(
    click.option(
        "--pose",
        metavar="PATTERN",
        help="Which of a task's output files has its molecule, such as 'best*.sdf'. [sdf; default: "
        "the only one of its suffix, .sdf or .mol, or else .pdbqt]",
    ),
    click.option(
        "--pose-field",
        metavar="FIELD",
        help="Take the molecule from here instead, such as result.molblock. [sdf]",
    ),
    click.option(
        "--on-missing",
        type=click.Choice(["skip", "fail"]),
        help="What becomes of a result without a molecule. [sdf; default: skip]",
    ),
)


def check(
    file: str | None, to: str, how: str, columns: Columns | None, *, follow: bool, ranked: bool
) -> None:
    """Raise `UsageError` if options do not go together.

    ranked: whether only the best, or those that match a filter, are wanted.
    """
    if not follow and file is None:
        return
    option = "--follow" if follow else "--cursor"
    if ranked:
        raise UsageError(
            f"{option} gives all results, as they come: leave out --best, --where and --since"
        )
    if file == "-" or (file is not None and Path(file).resolve() == Path(to).resolve()):
        raise UsageError("--cursor needs a file of its own")
    if follow and to != "-":
        raise UsageError("--follow writes to standard output: leave out --to")
    if follow and how != "jsonl" and (how != "csv" or columns is None):
        raise UsageError("--follow writes jsonl, or csv with --columns")
    if to != "-" and exists(Path(to)) and not is_file(Path(to)):
        raise UsageError(f"--cursor needs an ordinary file or standard output, not {to!r}")


def followed(
    campaign: Campaign, cursor: Cursor, file: str | None, **options: Any
) -> Iterator[Result]:
    """Yield results as they come, also after the server was away.

    The cursor's file is renewed when they are written out.
    """
    renew = renewal(cursor, file)
    while True:
        try:
            yield from campaign.follow(cursor, on_page=renew, **options)
        except Unavailable as error:  # noqa: PERF203 - it waits for seconds
            wait_out(error)
        else:
            return


def renewal(cursor: Cursor, file: str | None) -> Callable[[], None]:
    """Return a function that renews a cursor's file now and then.

    Call it when the caller has got all results that the cursor has.
    """
    saved, rested_at = len(cursor), 0.0

    def renew() -> None:
        nonlocal saved, rested_at
        sys.stdout.flush()  # a cursor lists only results that are written
        began = time.monotonic()
        if file is None or began < rested_at or len(cursor) == saved:
            return
        cursor.write(file)
        now = time.monotonic()
        saved, rested_at = len(cursor), now + max(SAVE_S, REST * (now - began))

    return renew


def _poses(options: dict[str, Any], how: str) -> Callable[..., Poses]:
    """Take the options out of the others; return what makes the molecules that they mean.

    how: the format of the export.
    """
    names = ("pose", "pose_field", "on_missing")
    pattern, field, on_missing = (options.pop(name) for name in names)
    if how != "sdf" and (pattern or field or on_missing):
        raise UsageError("--pose, --pose-field and --on-missing go with SDF, such as --to hits.sdf")
    if pattern and field:
        raise UsageError("--pose names a file, --pose-field a field: choose one")
    return partial(Poses, pattern=pattern, field=field, fail=on_missing == "fail")


@click.command()
@path_argument(metavar="CAMPAIGN")
@click.option(
    "--to",
    type=click.Path(),
    default="-",
    show_default=True,
    metavar="DEST",
    help="File to write; it appears when it is complete. -: standard output.",
)
@click.option(
    "--output",
    "--format",
    "-o",
    "how",
    type=OutputType(FORMATS),
    help="Format of the results. [default: by the suffix of the file, jsonl without one]",
)
@click.option(
    "--columns",
    metavar="NAMES",
    help="Write these columns only, in this order: dotted names joined by commas, with a new name "
    "before it where wanted, such as id=key,payload.smiles,score=result.score.",
)
@click.option(
    "--split",
    "partition",
    metavar="rows=N|COLUMN",
    help="Write a folder of Parquet files instead: of N rows each, or one for each value of a "
    "column, in folders named COLUMN=VALUE.",
)
@click.option(
    "--spreadsheet",
    is_flag=True,
    help="Write an apostrophe before text that a spreadsheet would take for a formula. [csv]",
)
@click.option(
    "--provenance",
    is_flag=True,
    help="Write a folder instead, an RO-Crate: the results, and how they were computed.",
)
@cursor_options
@result_options
@pose_options
@large_options
@connection_reading_options
def export(
    invocation: Invocation,
    *,
    path: str,
    to: str,
    how: str | None,
    columns: str | None,
    partition: str | None,
    spreadsheet: bool,
    provenance: bool,
    file: str | None,
    follow: bool,
    **options: Any,
) -> None:
    """Write results to a file.

    Writes the results of CAMPAIGN and all below it, with payloads, agents and phase times. Parquet
    needs the extra parquet. SDF has the molecule of each result, from the files that its task left
    in $TASKQ_OUT, with campaign, key and the result's fields.

    Example:
      taskq export /demo --to results.csv
      taskq export /demo -o csv --columns id=key,payload.smiles,score=result.score
      taskq export /demo --to for-excel.csv --spreadsheet
      taskq export /demo --to results/ --split result.target
      taskq export /demo --to crate/ --provenance -o csv
      taskq export /demo --best 100 --by result.score --lowest --to hits.sdf
      taskq export /demo --cursor demo.cursor --follow | ./learn.py
      taskq export /demo | jq .result
    """
    form = _Form(to, partition, provenance=provenance, streams=follow or file is not None)
    how = form.chosen(invocation.output, how)
    if spreadsheet and how != "csv":
        raise UsageError("--spreadsheet marks CSV, such as --to hits.csv")
    make_poses = _poses(options, how)
    wanted = Wanted(**options)
    chosen = None if columns is None else Columns.parse(columns)
    ranked = (wanted.best, wanted.where, wanted.since) != (None, None, None)
    check(file, to, how, chosen, follow=follow, ranked=ranked)
    cursor = Cursor() if file is None else Cursor.read(file)
    with invocation.reader() as client:
        if follow or file is not None:
            records = _new_results(client, path, cursor, file, wanted, follow=follow)
        else:
            records = form.noted(found_results(client, path, wanted.resolved(client, path)))
        names = None if chosen is None else chosen.names
        poses = make_poses(client, blobs=wanted.store(client)) if how == "sdf" else None
        if poses is not None:
            records = poses.of(records, chosen)
        elif chosen is not None:
            records = chosen.of(records)
        listed = names if follow else None
        written = form.write(client, path, records, how, columns=listed, spreadsheet=spreadsheet)
    if file is not None:
        cursor.write(file)
    if poses is not None and poses.left_out:
        text = counted(poses.left_out, "result")
        warn(f"left out: {text} without a molecule; {poses.first}")
    if chosen is not None and written and (empty := chosen.empty()):
        warn(f"no result has a value of {', '.join(empty)}")
    if to != "-":
        click.echo(f"{counted(written, 'result')} of {path} written to {to}.", err=True)


def _new_results(
    client: Client,
    path: str,
    cursor: Cursor,
    file: str | None,
    wanted: Wanted,
    *,
    follow: bool,
) -> Iterator[Record]:
    campaign = client.campaign(path)
    options: dict[str, Any] = {"below": wanted.below, "raw": wanted.raw}
    options |= {"blobs": wanted.store(client), "on_lost": LossWarning()}
    if follow:
        return map(as_record, followed(campaign, cursor, file, **options))
    return map(as_record, campaign.results(since=cursor, **options))


class _Form:
    """Where results are written: to a file, to a folder of several, or to one that describes them.

    streams: whether results are written as they come.
    """

    def __init__(self, to: str, partition: str | None, *, provenance: bool, streams: bool) -> None:
        if provenance and (to == "-" or streams or partition is not None):
            raise UsageError(
                "--provenance writes a folder, such as --to crate/: leave out --cursor, --follow "
                "and --split"
            )
        self._to = to
        self._partition = partition
        self._makers = Makers() if provenance else None

    def chosen(self, output: str, how: str | None) -> str:
        """Return the format of an export.

        output: that of `taskq -o FORMAT export`. Raise `UsageError` if a format does not go with
        the file, with a terminal, or with partitions.
        """
        to = self._to
        how = how or (output if output != "table" else None)
        if self._partition is not None:
            if how not in (None, "parquet") or to == "-":
                raise UsageError("--split writes Parquet to a folder, such as --to results/")
            how = "parquet"
        if how is not None and how not in FORMATS:
            raise UsageError(f"results are exported as one of {', '.join(FORMATS)}, not as {how}")
        if self._makers is not None:
            return how or "jsonl"
        if how is None:
            how = format_of(to)
        elif to != "-" and (named := suffix_format(to)) not in (None, how):
            raise UsageError(f"the suffix of {to!r} says {named}, and -o says {how}: choose one")
        if how == "parquet" and to == "-" and sys.stdout.isatty():
            raise UsageError("Parquet is binary, and this is a terminal; name a file with --to")
        return how

    def noted(self, records: Iterator[Record]) -> Iterator[Record]:
        """Return the records; note what is described later."""
        return records if self._makers is None else self._makers.of(records)

    def write(
        self, client: Client, path: str, records: Iterator[Record], how: str, **options: Any
    ) -> int:
        """Write the results of a campaign; return how many."""
        if self._makers is not None:
            return self._crate(client, path, records, how, **options)
        if self._partition is not None:
            return write_partitioned(records, self._to, self._partition)
        return write(records, _stdout() if self._to == "-" else Path(self._to), how, **options)

    def _crate(
        self, client: Client, path: str, records: Iterator[Record], how: str, **options: Any
    ) -> int:
        def look(path: str, number: int) -> tuple[Recipe, str]:
            campaign = client.campaign(path)
            by = next(change.changed_by for change in campaign.changes() if change.recipe == number)
            return campaign.recipe(number), by

        with new_folder(self._to) as folder:
            name = f"results.{how}"
            written = write(records, folder / name, how, **options)
            if not written or self._makers is None:
                raise NotFound(f"{path} has no such results, so there is nothing to describe")
            made = origins(self._makers.all(), look)
            describe(folder, name, how, path, made, at=datetime.now(timezone.utc))
        return written


def _stdout() -> Any:
    return SafeStream(sys.stdout.buffer) if sys.stdout.isatty() else sys.stdout.buffer
