"""`taskq results` and `taskq export`: show, rank and write the results of tasks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import click

from taskq import Client, Cursor
from taskq.files.blob_store import BlobStore
from taskq.files.blobs import open_blobs
from taskq.files.large_results import Fetching
from taskq.model.errors import ResultLost, UsageError
from taskq.model.words import counted, duration
from taskq.results.columns import Columns
from taskq.results.partitions import write_partitioned
from taskq.results.ranking import Ranking, dotted
from taskq.results.records import FORMATS, format_of, suffix_format, write
from taskq.results.tabular import Table
from taskq_cli.decorators import together
from taskq_cli.display.output import TABLE_ROWS, Column, Record, as_record, write_records
from taskq_cli.display.safe_stream import SafeStream
from taskq_cli.export_since import check, followed, since_options
from taskq_cli.hints import OutputType
from taskq_cli.options.filter import where_option
from taskq_cli.options.poses import PoseOptions, pose_options, tell
from taskq_cli.shared import (
    Invocation,
    below_option,
    blobs_option,
    campaigns_with,
    dsn_reading_options,
    limit_option,
    path_argument,
    reading_options,
)

RESULT_COLUMNS: Final = 8

_ranking_options: Final = together(
    click.option(
        "--top", type=click.IntRange(min=1), metavar="N", help="Only the N best, by --by."
    ),
    click.option(
        "--by", metavar="FIELD", help="Rank by this number, a dotted name as result.score."
    ),
    click.option("--ascending", is_flag=True, help="Rank the lowest value first."),
)
_large_options: Final = together(
    blobs_option,
    click.option(
        "--raw", is_flag=True, help="Write references to large results; do not fetch them."
    ),
)


@click.command()
@path_argument(metavar="CAMPAIGN")
@_ranking_options
@where_option
@below_option
@limit_option
@_large_options
@reading_options
def results(invocation: Invocation, *, path: str, limit: int | None, **options: Any) -> None:
    """Show results, all or the best.

    Shows the results of CAMPAIGN and all below it, in the order of seeding or of a value.

    Examples:
      taskq results /demo --top 10 --by result.score --ascending
      taskq results /demo --where 'result.score < -9'
    """
    wanted = _Wanted(**options)
    with invocation.reader() as client:
        records = _found(client, path, wanted)
        if invocation.output != "table":
            write_records(invocation.output, records, (), limit=limit)
            return
        several = wanted.below and bool(client.campaign(path).status().children)
        extra = wanted.by if wanted.by and not wanted.by.startswith("result.") else None
        shown = (_shown(record, extra, several=several) for record in records)
        _write_table(shown, TABLE_ROWS if limit is None else limit)


@click.command()
@path_argument(metavar="CAMPAIGN")
@click.option(
    "--to",
    type=click.Path(),
    default="-",
    show_default=True,
    metavar="FILE",
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
    "before it where wanted, as id=key,payload.smiles,score=result.score.",
)
@click.option(
    "--partition",
    metavar="rows=N|COLUMN",
    help="Write a folder of Parquet files instead: with N rows each, or for each value of a column "
    "one, in folders named COLUMN=VALUE.",
)
@since_options
@_ranking_options
@where_option
@below_option
@pose_options
@_large_options
@dsn_reading_options
def export(
    invocation: Invocation,
    *,
    path: str,
    to: str,
    how: str | None,
    columns: str | None,
    partition: str | None,
    since: str | None,
    follow: bool,
    **options: Any,
) -> None:
    """Write results to a file.

    Writes the results of CAMPAIGN and all below it, with payloads, agents and phase times. Parquet
    needs the extra parquet. SDF has the molecule of each result, from what its task has left
    in $TASKQ_OUT, with campaign, key and the result's fields.

    Example:
      taskq export /demo --to results.csv
      taskq export /demo -o csv --columns id=key,payload.smiles,score=result.score
      taskq export /demo --to results/ --partition result.target
      taskq export /demo --top 100 --by result.score --ascending --to hits.sdf
      taskq export /demo --since demo.cursor --follow | ./learn.py
      taskq export /demo | jq .result
    """
    how = _chosen_format(invocation.output, to, how, partition)
    molecules = PoseOptions(options, how)
    wanted = _Wanted(**options)
    chosen = None if columns is None else Columns.parse(columns)
    ranked = wanted.by is not None or wanted.where is not None
    check(since, to, how, chosen, follow=follow, ranked=ranked)
    cursor = Cursor() if since is None else Cursor.read(since)
    with invocation.reader() as client:
        if follow or since is not None:
            records = _since(client, path, cursor, since, wanted, follow=follow)
        else:
            records = _found(client, path, wanted)
        names = None if chosen is None else chosen.names
        poses = molecules.poses(client, wanted.store(client)) if how == "sdf" else None
        if poses is not None:
            records = poses.of(records, chosen)
        elif chosen is not None:
            records = chosen.of(records)
        if partition is not None:
            written = write_partitioned(records, to, partition)
        else:
            destination = _stdout() if to == "-" else Path(to)
            written = write(records, destination, how, columns=names if follow else None)
    if since is not None:
        cursor.write(since)
    if poses is not None:
        tell(poses)
    if chosen is not None and written and (empty := chosen.empty()):
        click.echo(f"Warning: no result has a value of {', '.join(empty)}.", err=True)
    if to != "-":
        click.echo(f"{counted(written, 'result')} of {path} written to {to}.", err=True)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The options that say which results are wanted, and how."""

    top: int | None
    by: str | None
    ascending: bool
    where: str | None
    below: bool
    raw: bool
    blobs: str | None

    def store(self, client: Client) -> BlobStore | None:
        """Return the store of blobs, None if it is not named."""
        return None if self.blobs is None else open_blobs(client.queries, self.blobs)

    def __post_init__(self) -> None:
        if (self.top is None) != (self.by is None):
            raise UsageError("--top N and --by FIELD go together, as --top 10 --by result.score")
        if self.ascending and self.by is None:
            raise UsageError("--ascending goes with --top N --by FIELD")
        if self.top is not None and self.where is not None:
            raise UsageError(
                "--top ranks all results; --where FILTER lists those that match, unranked"
            )


def _found(client: Client, path: str, wanted: _Wanted) -> Iterator[Record]:
    raw, top, by, below = wanted.raw, wanted.top, wanted.by, wanted.below
    store = wanted.store(client)
    on_lost = _Warning()
    if top is None or by is None:
        found = client.campaign(path).results(
            where=wanted.where, below=below, raw=raw, blobs=store, on_lost=on_lost
        )
        return map(as_record, found)
    campaigns = campaigns_with(client, path, lambda node: node.done, below=below)
    fetching = Fetching(client.queries, raw=raw, blobs=store, on_lost=on_lost)
    ranking = Ranking(client.queries, fetching, top, by, ascending=wanted.ascending)
    for campaign in campaigns:
        ranking.look(campaign)
    best = ranking.best()
    if ranking.left_out:
        click.echo(f"{counted(ranking.left_out, 'result')} without a number in {by}.", err=True)
    return (as_record(result) for _, result in best)


def _since(
    client: Client,
    path: str,
    cursor: Cursor,
    since: str | None,
    wanted: _Wanted,
    *,
    follow: bool,
) -> Iterator[Record]:
    campaign = client.campaign(path)
    store = wanted.store(client)
    options: dict[str, Any] = {"below": wanted.below, "raw": wanted.raw, "blobs": store}
    options["on_lost"] = _Warning()
    if follow:
        return map(as_record, followed(campaign, cursor, since, **options))
    return map(as_record, campaign.results(since=cursor, **options))


class _Warning:
    """Warns once, at the first result that is lost, and that stays what stands for it."""

    def __init__(self) -> None:
        self._given = False

    def __call__(self, error: ResultLost) -> None:
        if not self._given:
            click.echo(f"Warning: {error}. Further ones are not named.", err=True)
            self._given = True


def _chosen_format(output: str, to: str, how: str | None, partition: str | None) -> str:
    """Return the format of an export.

    output: that of `taskq -o FORMAT export`. Raise `UsageError` if a format does not go with the
    file, with a terminal, or with partitions.
    """
    how = how or (output if output != "table" else None)
    if partition is not None:
        if how not in (None, "parquet") or to == "-":
            raise UsageError("--partition writes Parquet to a folder, as --to results/")
        how = "parquet"
    if how is not None and how not in FORMATS:
        raise UsageError(f"results are exported as one of {', '.join(FORMATS)}, not as {how}")
    if how is None:
        how = format_of(to)
    elif to != "-" and (named := suffix_format(to)) not in (None, how):
        raise UsageError(f"the suffix of {to!r} says {named}, and -o says {how}: choose one")
    if how == "parquet" and to == "-" and sys.stdout.isatty():
        raise UsageError("Parquet is no text for a terminal; name a file with --to")
    return how


def _stdout() -> Any:
    return SafeStream(sys.stdout.buffer) if sys.stdout.isatty() else sys.stdout.buffer


def _write_table(records: Iterator[Record], limit: int) -> None:
    """Write results with a column for each of the first names in them."""
    shown = Table(islice(records, limit + 1))  # one more tells that there are more
    given = [name for name in shown.columns if name.startswith("result")]
    hidden = given[RESULT_COLUMNS:]
    rows = (dict(zip(shown.columns, values, strict=True)) for values, _ in shown)
    columns = [Column(name) for name in shown.columns if name not in hidden]
    write_records("table", rows, columns, limit=limit)
    if hidden:
        text = counted(len(hidden), "more field")
        click.echo(f"{text} in the results; --output jsonl shows all.", err=True)


def _shown(record: Record, extra: str | None, *, several: bool) -> Record:
    run_s = (record["phases"] or {}).get("run_s")
    return {
        **({"campaign": record["campaign"]} if several else {}),
        "key": record["key"],
        **({extra: dotted(record, extra)} if extra is not None else {}),
        "result": record["result"],
        "took": None if run_s is None else duration(run_s),
        "host": record["host"],
        "ended": record["ended_at"],
    }
