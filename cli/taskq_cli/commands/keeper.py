"""`taskq keeper`: the upkeep of the queue."""

from __future__ import annotations

import signal
import threading

import click

from taskq.keeper import Keeper
from taskq_cli.log import log_to_stderr, verbosity_options
from taskq_cli.shared import Invocation, shared_options


@click.command()
@verbosity_options
@shared_options
def keeper(invocation: Invocation, verbose: bool, quiet: bool) -> None:
    """Run the upkeep of the queue.

    Hands out again what lost agents had and what waits for its next attempt; folds counters. Runs
    until SIGTERM or Ctrl-C. Any number may run, one of them acts. Each `taskq agent run` does the
    same, so this is for queues whose agents do not reach the database.

    Example:
      taskq keeper
    """
    log_to_stderr(verbose=verbose, quiet=quiet)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with invocation.client() as client:
        Keeper(client.database).run(stop)
