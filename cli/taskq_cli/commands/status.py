"""`taskq status`: show the state of a campaign."""

from __future__ import annotations

import click

from taskq_cli import render
from taskq_cli.counts import counts
from taskq_cli.output import write_record
from taskq_cli.overview import read_overview
from taskq_cli.shared import Invocation, below_option, path_argument, shared_options


@click.command()
@path_argument(default="/")
@below_option
@shared_options
def status(invocation: Invocation, *, path: str, below: bool) -> None:
    """Show the progress of PATH and all below it.

    Shows tasks by status, agents and the most frequent errors. It takes as long for a million
    tasks as for one: it reads counters, not tasks.

    Example:
      taskq status /demo
    """
    with invocation.client() as client:
        overview = read_overview(client, path, below=below)
    shown = render.campaign(overview.title(), counts(overview.status), overview.lines())
    write_record(invocation.output, overview.record(), render.as_text(shown).rstrip("\n"))
