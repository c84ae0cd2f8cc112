"""`taskq keeper`: run the upkeep, send notifications, and with `--redis` refill the front."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import click

from taskq.db.connections import Database
from taskq.front.address import FrontAddress
from taskq.upkeep.keeper import Keeper
from taskq.upkeep.sender import sending
from taskq_cli.log import log_to_stderr, verbosity_options
from taskq_cli.options.channels import channel_options, channels
from taskq_cli.options.front import front_option
from taskq_cli.shared import Invocation, dsn_option, stopped_by_signals


@click.command()
@front_option
@channel_options
@click.option(
    "--disk",
    "disks",
    type=click.Path(exists=True, file_okay=False),
    multiple=True,
    metavar="FOLDER",
    help="Have rules on the event disk tell when the disk of this folder is nearly full, as that "
    "of PostgreSQL's data. May be repeated.",
)
@verbosity_options
@dsn_option
def keeper(
    invocation: Invocation,
    *,
    front: FrontAddress | None,
    verbose: bool,
    quiet: bool,
    disks: tuple[str, ...],
    **options: Any,
) -> None:
    """Run the upkeep of the queue.

    Hands out again the tasks of lost agents and delayed retries that are due; folds counters; with
    --redis, fills the lists there. Runs until SIGTERM or Ctrl-C. Any number may run; one of them
    acts at a time. Each `taskq agent run` does the same except for Redis, so a keeper is for queues
    whose agents do not reach the database, and for those who want to be told what happens: it sends
    what the rules of `taskq notify` say.

    Example:
      taskq keeper
      taskq keeper --redis redis://cache.example.org
      taskq keeper --smtp smtp://mail.example.org --mail-from taskq@example.org
    """
    sends = channels(**options)
    log_to_stderr(verbose=verbose, quiet=quiet)
    stop = stopped_by_signals()
    with (
        invocation.client(waits=True) as client,
        _refilling(client.database, front),
        sending(client.database, sends, disks),
    ):
        Keeper(client.database).run(stop)


def _refilling(database: Database, address: FrontAddress | None) -> AbstractContextManager[None]:
    if address is None:
        return nullcontext()
    from taskq.front.blocking import refilling  # noqa: PLC0415  # the extra may be missing

    return refilling(database, address)
