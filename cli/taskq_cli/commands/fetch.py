"""`taskq fetch`: write the files that tasks have left to a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from taskq import Campaign, Client
from taskq.files.blobs import open_blobs
from taskq.files.fetching import Fetched
from taskq.model.errors import ResultLost, UsageError
from taskq.model.words import counted
from taskq.results.selection import select
from taskq_cli.display.output import as_record, write_record
from taskq_cli.options.best import best_of, many
from taskq_cli.options.filter import where_option
from taskq_cli.shared import (
    Invocation,
    below_option,
    blobs_option,
    path_argument,
    shared_options,
)


@click.command()
@path_argument(metavar="CAMPAIGN")
@click.argument("tasks", nargs=-1, metavar="[TASK]...")
@click.option(
    "--to",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="DIR",
    help="Folder to write to; it is made. The files of a task are in one below it, named by its "
    "key.",
)
@click.option("--best", callback=many, metavar="N|P%", help="Of the best results only, by --by.")
@click.option("--by", metavar="FIELD", help="Rank by this number, as result.score.")
@click.option("--lowest/--highest", default=True, show_default=True, help="Which are best.")
@click.option(
    "--group", metavar="FIELD", help="Of results with the same value here, only the best."
)
@click.option("--so-far", is_flag=True, help="Choose the best though tasks are unfinished.")
@where_option
@below_option
@blobs_option
@shared_options
def fetch(
    invocation: Invocation, *, path: str, tasks: tuple[str, ...], to: Path, **options: Any
) -> None:
    """Fetch the files that tasks have left in $TASKQ_OUT.

    Those of the tasks that are named, of the best results, of those that match a filter, or of all
    results of CAMPAIGN and all below it. A file appears when it is complete; fetched again, it is
    replaced.

    Examples:
      taskq fetch /demo/dock --best 100 --by result.score --to poses
      taskq fetch /demo/dock CHEMBL25 --to poses
    """
    ways = [bool(tasks), options["best"] is not None, options["where"] is not None]
    if sum(ways) > 1:
        raise UsageError("choose one way to say which: TASK..., --best or --where")
    if (options["best"] is None) != (options["by"] is None):
        raise UsageError("--best and --by go together, as --best 100 --by result.score")
    with invocation.client() as client:
        fetched = _fetched(client, client.campaign(path), tasks, to, options)
    text = (
        f"{counted(fetched.files, 'file')} of {counted(fetched.tasks, 'task')} in {to}, "
        f"{fetched.bytes:,} bytes."
    )
    if fetched.empty:
        text += f" {counted(fetched.empty, 'task')} left none."
    write_record(invocation.output, as_record(fetched, to=str(to)), text)
    if fetched.lost:
        raise ResultLost(f"the files of {counted(fetched.lost, 'task')} could not be read")


def _fetched(
    client: Client, campaign: Campaign, tasks: tuple[str, ...], to: Path, options: dict[str, Any]
) -> Fetched:
    where, below, best = options["where"], options["below"], options["best"]
    named: Any = tasks or None
    if best is not None:
        wanted = best_of(best, options["by"], lowest=options["lowest"], group=options["group"])
        named = select(client.queries, campaign, wanted, below=below, so_far=options["so_far"])
    blobs = options["blobs"]
    return campaign.fetch(
        to,
        named,
        where=where,
        below=below,
        blobs=None if blobs is None else open_blobs(client.queries, blobs),
        on_lost=lambda error: click.echo(f"Warning: {error}", err=True),
    )
