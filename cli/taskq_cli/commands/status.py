"""`taskq status`: show the state of a campaign."""

from __future__ import annotations

import click

from taskq.model.words import duration, rate
from taskq_cli.display import render
from taskq_cli.display.counts import counts
from taskq_cli.display.output import as_record, write_record
from taskq_cli.display.overview import read_overview
from taskq_cli.shared import Invocation, below_option, path_argument, reading_options


@click.command()
@path_argument(default="/")
@below_option
@reading_options
def status(invocation: Invocation, *, path: str, below: bool) -> None:
    """Show the progress of PATH and all below it.

    Shows tasks by status, at what rate they end and when nothing is left at that, agents and the
    most frequent errors. The rate is that of the last ten minutes, or longer if few tasks end. It
    takes as long for a million tasks as for one: it reads counters, not tasks.

    Example:
      taskq status /demo
    """
    with invocation.reader() as client:
        overview = read_overview(client, path, below=below)
        pace = client.campaign(path).pace(overview.status) if below else None
        behind_s = client.behind_s
    lines = overview.lines()
    if pace is not None and overview.status.unfinished:
        eta = f", ETA {pace.eta()}" if not overview.closed_by else ""
        lines.insert(0, f"pace       {rate(pace.per_s)} over {duration(pace.over_s)}{eta}")
    shown = render.campaign(overview.title(), counts(overview.status), lines)
    record = overview.record() | {
        "pace": None if pace is None else as_record(pace),
        "behind_s": behind_s,
    }
    write_record(invocation.output, record, render.as_text(shown).rstrip("\n"))
