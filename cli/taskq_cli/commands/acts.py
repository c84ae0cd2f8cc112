"""`taskq campaign acts`: who did what."""

from __future__ import annotations

import click

from taskq.diagnosis.tables.acts import ACTS
from taskq.model.acts import VERBS
from taskq_cli.display.output import write_records
from taskq_cli.invocation import Invocation
from taskq_cli.options.shared import limit_option, path_argument, reading_options


@click.command()
@path_argument()
@click.option(
    "--verb",
    "verbs",
    multiple=True,
    type=click.Choice(VERBS),
    metavar="VERB",
    help=f"Only these; repeatable: {', '.join(VERBS)}.",
)
@limit_option
@reading_options
def acts(invocation: Invocation, *, path: str, verbs: tuple[str, ...], limit: int | None) -> None:
    """List who did what at PATH, below it and above it, the latest first.

    What programs do counts too. Also of campaigns that were removed. Acts stay for 400 days, and
    the latest 100,000 at most.

    Example:
      taskq campaign acts /demo --verb cancel
    """
    with invocation.reader() as client:
        found = client.acts(path, verbs=verbs or None)
    write_records(invocation.output, found, ACTS, limit=limit)
