"""`taskq results` and `taskq campaign index`: show, rank and index the results of tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import Any, Final

import click

from taskq import Campaign, Client
from taskq.campaign.indexes import ResultIndex
from taskq.files.blob_store import BlobStore
from taskq.files.blobs import open_blobs
from taskq.files.large_results import Fetching
from taskq.model.columns import Column
from taskq.model.errors import NotFound, ResultLost, UsageError
from taskq.model.views import Result, Status
from taskq.model.words import command, counted, duration
from taskq.results.ranking import Ranking, dotted
from taskq.results.tabular import Table
from taskq_cli.display.output import TABLE_ROWS, Record, as_record, write_record, write_records
from taskq_cli.display.progress import chunk_display
from taskq_cli.early_exits import resumable
from taskq_cli.invocation import Invocation
from taskq_cli.options.best import MixtureWarning, check_ranking, ranked_by, ranking_options
from taskq_cli.options.shared import (
    below_option,
    blobs_option,
    dry_run_option,
    limit_option,
    path_argument,
    reading_options,
    shared_options,
    together,
    where_option,
)
from taskq_cli.options.values import since as parse_since

#: From so many results on, ranking takes seconds: it shows its progress, and proposes an index.
_LARGE: Final = 500_000
_INDEXED: Final = ("result", "payload", "phases")

_COLUMNS: Final[tuple[Column[Record], ...]] = (
    Column("campaign"),
    Column("field"),
    Column("results", lambda row: f"{row['seen']:,}"),
    Column("of", lambda row: f"{row['done']:,}"),
    Column("ranked", lambda row: f"{row['ranked']:,}"),
    Column("created", lambda row: row["created_at"]),
)

RESULT_COLUMNS: Final = 8

result_options: Final = together(
    ranking_options(shares=False),
    click.option(
        "--since",
        type=parse_since,
        metavar="TIME|DURATION",
        help="Only results since this time, in UTC, or within this duration, such as 90m or 2h.",
    ),
    where_option,
    below_option,
)
large_options: Final = together(
    blobs_option,
    click.option(
        "--raw", is_flag=True, help="Write references to large results; do not fetch them."
    ),
)


@click.command()
@path_argument()
@click.option("--by", "field", metavar="FIELD", help="The number to index, such as result.score.")
@click.option("--drop", is_flag=True, help="Drop the index instead.")
@click.option("--list", "listing", is_flag=True, help="List the indexes of PATH and below.")
@dry_run_option
@shared_options
def index(
    invocation: Invocation,
    *,
    path: str,
    field: str | None,
    drop: bool,
    listing: bool,
    dry_run: bool,
) -> None:
    """Index results by a number, to find the best of millions at once.

    Indexes the results of the campaign PATH, without those below it, and returns when all are in;
    the keeper adds later ones. While the index is complete, commands with --best by that field read
    no more than they need. Tasks and reports go on meanwhile. Ctrl-C leaves the rest to the keeper.

    Examples:
      taskq campaign index /demo/dock --by result.score
      taskq campaign index /demo/dock --list
      taskq campaign index /demo/dock --by result.score --drop
    """
    if listing == (field is not None) or (drop and field is None):
        raise UsageError("name a number with --by, such as --by result.score, or give --list alone")
    if dry_run and not drop:
        raise UsageError("--dry-run needs --drop: making an index removes nothing")
    with invocation.client() as client:
        campaign = client.campaign(path)
        if field is None:
            found = [as_record(built, complete=built.complete) for built in campaign.indexes()]
            write_records(invocation.output, found, _COLUMNS)
            return
        if drop:
            indexed = {(built.campaign, built.field) for built in campaign.indexes()}
            if not ((path, field) in indexed if dry_run else campaign.drop_index(field)):
                raise NotFound(f"{path} has no index on {field}; --list shows those there are")
            ends = "would be dropped; nothing was changed" if dry_run else "is dropped"
            record = {"path": path, "field": field, "dropped": not dry_run, "dry_run": dry_run}
            write_record(invocation.output, record, f"The index of {path} on {field} {ends}.")
            return
        began = time.monotonic()
        with resumable(), chunk_display(f"indexing {path}") as show:
            campaign.index(field, on_progress=lambda seen, done: show(seen, done, ""))
        (made,) = (
            built for built in campaign.indexes() if (built.campaign, built.field) == (path, field)
        )
    write_record(invocation.output, as_record(made), _summary(made, time.monotonic() - began))


def _summary(made: ResultIndex, took_s: float) -> str:
    text = f"{counted(made.seen, 'result')} of {made.campaign} indexed by {made.field}"
    if made.ranked < made.seen:
        text += f", {made.seen - made.ranked:,} without a number there"
    if made.large:
        text += f"; {counted(made.large, 'large result')} kept as blobs, so it serves --raw only"
    return f"{text}. Took {duration(took_s)}."


@click.command()
@path_argument(metavar="CAMPAIGN")
@result_options
@limit_option
@large_options
@reading_options
def results(invocation: Invocation, *, path: str, limit: int | None, **options: Any) -> None:
    """Show results, all or the best.

    Shows the results of CAMPAIGN and all below it, in the order of seeding or of a value.

    Examples:
      taskq results /demo --best 10 --by result.score --lowest
      taskq results /demo --where 'result.score < -9'
    """
    wanted = Wanted(**options)
    with invocation.reader() as client:
        wanted = wanted.resolved(client, path)
        records = found_results(client, path, wanted)
        if invocation.output != "table":
            write_records(invocation.output, records, (), limit=limit)
            return
        several = wanted.below and bool(client.campaign(path).status().children)
        extra = wanted.by if wanted.by and not wanted.by.startswith("result.") else None
        shown = (_shown(record, extra, several=several) for record in records)
        _write_table(shown, TABLE_ROWS if limit is None else limit)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options that choose results and their form."""

    best: int | None
    by: str | None
    lowest: bool | None
    recipe: int | None
    since: datetime | timedelta | None
    where: str | None
    below: bool
    raw: bool
    blobs: str | None

    def store(self, client: Client) -> BlobStore | None:
        """Return the store of blobs; None if no option names one."""
        return None if self.blobs is None else open_blobs(client.queries, self.blobs)

    def __post_init__(self) -> None:
        check_ranking(self.best, self.by, self.lowest, self.recipe)
        if self.best is not None and (self.where is not None or self.since is not None):
            raise UsageError(
                "--best ranks all results; --where and --since list those that match, unranked"
            )

    def resolved(self, client: Client, path: str) -> Wanted:
        """Return the options, with the ranking of the campaign's settings if they have none."""
        if self.best is None:
            return self
        by, lowest = ranked_by(client.campaign(path), self.by, self.lowest)
        return replace(self, by=by, lowest=lowest)

    @property
    def instant(self) -> datetime | None:
        """The time that `--since` means."""
        if isinstance(self.since, timedelta):
            return datetime.now(timezone.utc) - self.since
        return self.since


def found_results(client: Client, path: str, wanted: Wanted) -> Iterator[Record]:
    """Return the results that resolved options ask for; say how many could not be ranked."""
    raw, best, by, below = wanted.raw, wanted.best, wanted.by, wanted.below
    campaign, store, on_lost = client.campaign(path), wanted.store(client), LossWarning()
    if best is None or by is None:
        found = campaign.results(
            where=wanted.where,
            since=wanted.instant,
            below=below,
            raw=raw,
            blobs=store,
            on_lost=on_lost,
        )
        return map(as_record, found)
    nodes = campaign.tree() if below else [campaign.status(below=False)]
    fetching = Fetching(client.queries, raw=raw, blobs=store, on_lost=on_lost)
    with _ranking_display(campaign, nodes, by) as on_scan:
        ranking = Ranking(
            client.queries,
            fetching,
            best,
            by,
            ascending=wanted.lowest is True,
            recipe=wanted.recipe,
            on_scan=on_scan,
        )
        for node in nodes:
            if node.done:
                ranking.look(node)
    found_best = ranking.best()
    if ranking.left_out:
        click.echo(f"{counted(ranking.left_out, 'result')} without a number in {by}.", err=True)
    return _noted(result for _, result in found_best)


def _noted(found: Iterator[Result]) -> Iterator[Record]:
    """Yield records of ranked results; warn when they come from several recipes."""
    mixture = MixtureWarning()
    for result in found:
        mixture.note(result)
        yield as_record(result)


@contextmanager
def _ranking_display(
    campaign: Campaign, nodes: Sequence[Status], by: str
) -> Iterator[Callable[[int], object]]:
    """Yield a function that shows how many results are read; first propose an index, if needed."""
    large = [node.path for node in nodes if node.done >= _LARGE]
    found = campaign.indexes() if large else []
    indexes = {built.campaign: built for built in found if built.field == by}
    if all(path in indexes and indexes[path].complete for path in large):
        yield lambda _: None
        return
    done = sum(node.done for node in nodes)
    bare = [path for path in large if path not in indexes]
    if bare and by.partition(".")[0] in _INDEXED:
        words = command("campaign", "index", "--by", by, names=bare[:1])
        click.echo(f"Reading {counted(done, 'result')}; an index spares it: {words}", err=True)
    with chunk_display(f"ranking {campaign.path}") as show:
        yield lambda seen: show(seen, done, "")


class LossWarning:
    """Warns once, at the first lost result; its reference is written in its place."""

    def __init__(self) -> None:
        self._given = False

    def __call__(self, error: ResultLost) -> None:
        """Warn if this is the first one."""
        if not self._given:
            click.echo(f"Warning: {error}. Further ones are not named.", err=True)
            self._given = True


def _write_table(records: Iterator[Record], limit: int) -> None:
    """Write results with a column for each of the names that most of them have."""
    shown = Table(islice(records, limit + 1))  # one more shows that there are more
    given = [name for name in shown.columns if name.startswith("result")]
    given.sort(key=shown.names.counts.__getitem__, reverse=True)
    hidden = given[RESULT_COLUMNS:]
    rows = (dict(zip(shown.columns, values, strict=True)) for values, _ in shown)
    columns: list[Column[Record]] = [
        Column(name, sparse=name == "recipe", yields=int(name == "recipe"))
        for name in shown.columns
        if name not in hidden
    ]
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
        "recipe": record["recipe"],
        "ended": record["ended_at"],
    }
