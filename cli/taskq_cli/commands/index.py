"""`taskq campaign index`: index results by a number, list and drop such indexes."""

from __future__ import annotations

import time

import click

from taskq.campaign.indexed import ResultIndex
from taskq.model.errors import NotFound, UsageError
from taskq.model.words import counted, duration
from taskq_cli.display.chunks import chunk_display
from taskq_cli.display.output import Column, as_record, write_record, write_records
from taskq_cli.early_exits import resumable
from taskq_cli.shared import Invocation, path_argument, shared_options


@click.command()
@path_argument()
@click.option("--on", "field", metavar="FIELD", help="The number, a dotted name as result.score.")
@click.option("--drop", is_flag=True, help="Drop the index instead.")
@click.option("--list", "listing", is_flag=True, help="List the indexes of PATH and below.")
@shared_options
def index(
    invocation: Invocation, *, path: str, field: str | None, drop: bool, listing: bool
) -> None:
    """Index results by a number, for the best of millions at once.

    Takes the results of the campaign PATH, without those below it, into an index, and returns when
    it has all; the keeper takes in those that come. Whenever it has all there are, `results` and
    `export` with --top by that field, and other stages with --best, read what they want and no
    more. Tasks and reports go on meanwhile. Ctrl-C leaves the rest to the keeper.

    Examples:
      taskq campaign index /demo/dock --on result.score
      taskq campaign index /demo/dock --list
      taskq campaign index /demo/dock --on result.score --drop
    """
    if listing == (field is not None) or (drop and field is None):
        raise UsageError("name a number with --on, as --on result.score, or give --list alone")
    with invocation.client() as client:
        campaign = client.campaign(path)
        if listing:
            found = [as_record(one, complete=one.complete) for one in campaign.indexes()]
            write_records(invocation.output, found, _COLUMNS)
            return
        if field is None:
            return
        if drop:
            if not campaign.drop_index(field):
                raise NotFound(f"{path} has no index on {field}; --list shows those there are")
            record = {"path": path, "field": field, "dropped": True}
            write_record(invocation.output, record, f"The index of {path} on {field} is dropped.")
            return
        began = time.monotonic()
        with resumable(), chunk_display(f"indexing {path}") as show:
            campaign.index(field, on_progress=lambda seen, done: show(seen, done, ""))
        (made,) = (one for one in campaign.indexes() if (one.campaign, one.field) == (path, field))
    write_record(invocation.output, as_record(made), _summary(made, time.monotonic() - began))


def _summary(made: ResultIndex, took_s: float) -> str:
    text = f"{counted(made.seen, 'result')} of {made.campaign} indexed by {made.field}"
    if made.ranked < made.seen:
        text += f", {made.seen - made.ranked:,} without a number there"
    if made.large:
        text += f"; {counted(made.large, 'large result')} kept as blobs, so it serves --raw only"
    return f"{text}. Took {duration(took_s)}."


_COLUMNS = (
    Column("campaign"),
    Column("field"),
    Column("results", lambda one: f"{one['seen']:,}"),
    Column("of", lambda one: f"{one['done']:,}"),
    Column("ranked", lambda one: f"{one['ranked']:,}"),
    Column("created", lambda one: one["created_at"]),
)
