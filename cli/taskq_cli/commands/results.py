"""`taskq results` and `taskq export`: show, rank and write the results of tasks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import click

from taskq import Client
from taskq.blobs.catalogue import open_blobs
from taskq.blobs.large_results import Fetching
from taskq.errors import ResultLost, UsageError
from taskq.export.ranking import Ranking, dotted
from taskq.export.records import FORMATS, format_of, write
from taskq.export.tabular import Table
from taskq.words import counted, duration
from taskq_cli.decorators import together
from taskq_cli.filter_options import where_option
from taskq_cli.output import TABLE_ROWS, Column, Record, as_record, write_record, write_records
from taskq_cli.safe_stream import SafeStream
from taskq_cli.shared import (
    Invocation,
    blobs_option,
    campaigns_with,
    limit_option,
    path_argument,
    shared_options,
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
@limit_option
@_large_options
@shared_options
def results(invocation: Invocation, *, path: str, limit: int | None, **options: Any) -> None:
    """Show results, all or the best.

    Shows the results of CAMPAIGN and all below it, in the order of seeding or of a value.

    Examples:
      taskq results /demo --top 10 --by result.score --ascending
      taskq results /demo --where 'result.score < -9'
    """
    wanted = _Wanted(**options)
    with invocation.client() as client:
        records = _found(client, path, wanted)
        if invocation.output != "table":
            write_records(invocation.output, records, (), limit=limit)
            return
        several = bool(client.campaign(path).status().children)
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
    "--format",
    "how",
    type=click.Choice(FORMATS),
    help="Default: by the suffix of the file, jsonl without one. Parquet needs the extra "
    "taskq[parquet].",
)
@_ranking_options
@where_option
@_large_options
@shared_options
def export(invocation: Invocation, *, path: str, to: str, how: str | None, **options: Any) -> None:
    """Write results to a file.

    Writes the results of CAMPAIGN and all below it, with payloads, agents and phase times.

    Example:
      taskq export /demo --to results.csv
      taskq export /demo --format jsonl | jq .result
    """
    wanted = _Wanted(**options)
    how = _chosen_format(invocation.output, to, how)
    with invocation.client() as client:
        records = _found(client, path, wanted)
        written = write(records, _stdout() if to == "-" else Path(to), how)
    if to != "-":
        text = f"{counted(written, 'result')} of {path} written to {to}."
        if invocation.output == "table":
            click.echo(text, err=True)
        else:
            record = {"path": path, "file": to, "format": how, "results": written}
            write_record(invocation.output, record, text)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The options that say which results are wanted, and how."""

    top: int | None
    by: str | None
    ascending: bool
    where: str | None
    raw: bool
    blobs: str | None

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
    raw, top, by, where = wanted.raw, wanted.top, wanted.by, wanted.where
    store = None if wanted.blobs is None else open_blobs(client.database, wanted.blobs)
    on_lost = _Warning()
    campaigns = campaigns_with(client, path, lambda node: node.done)
    if top is None or by is None:
        return (
            as_record(result, campaign=campaign.path)
            for campaign in campaigns
            for result in campaign.results(where=where, raw=raw, blobs=store, on_lost=on_lost)
        )
    fetching = Fetching(client.database, raw=raw, blobs=store, on_lost=on_lost)
    ranking = Ranking(client.database, fetching, top, by, ascending=wanted.ascending)
    for campaign in campaigns:
        ranking.look(campaign)
    best = ranking.best()
    if ranking.left_out:
        click.echo(f"{counted(ranking.left_out, 'result')} without a number in {by}.", err=True)
    return (as_record(result, campaign=campaign.path) for campaign, result in best)


class _Warning:
    """Warns once, at the first large result that is lost; such results stay references."""

    def __init__(self) -> None:
        self._given = False

    def __call__(self, error: ResultLost) -> None:
        if not self._given:
            click.echo(f"Warning: {error}. Such results stay references.", err=True)
            self._given = True


def _chosen_format(output: str, to: str, how: str | None) -> str:
    """Return the format of an export; raise `UsageError` if `-o` contradicts it on stdout."""
    how = how or format_of(to)
    if to == "-" and output not in ("table", how):
        raise UsageError(
            f"-o {output} is how a command speaks of what it did; what `export` writes to standard "
            f"output is {how}, or what --format says; `taskq results -o {output}` lists results so"
        )
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
