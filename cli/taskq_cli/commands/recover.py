"""`taskq recover`: end the sessions of a crashed farm and hand its tasks out again."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Final

import click

from taskq.model.views import Recovery
from taskq.model.words import counted
from taskq_cli.display.output import as_record, write_record
from taskq_cli.early_exits import confirm
from taskq_cli.invocation import Invocation
from taskq_cli.options.shared import dry_run_option, path_argument, shared_options, yes_option
from taskq_cli.options.values import seconds, since

_WEEK_S: Final = 604_800


@click.command()
@path_argument(default="/")
@click.option("--site", metavar="SITE", help="Only agents of this site.")
@click.option(
    "--silent-for",
    "silent_s",
    type=seconds(0, _WEEK_S),
    metavar="TIME",
    help="Only agents silent for this long. Less than half the lease can hit live agents. "
    "[default: half the lease, 60s]",
)
@click.option(
    "--lost-since",
    type=since,
    metavar="TIME|DURATION",
    help="Also retry tasks that failed because of lost agents (agent-lost, job-..., poison) since "
    "this time, in UTC, or within this duration, such as 90m, 2h or 7d.",
)
@dry_run_option
@yes_option
@shared_options
def recover(
    invocation: Invocation,
    *,
    path: str,
    site: str | None,
    silent_s: float | None,
    lost_since: datetime | timedelta | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """End the sessions of silent agents, and hand out their tasks at once.

    Use it after a farm has crashed. It acts on the agents that serve PATH or a campaign below, and
    releases their tasks; that counts neither as failure nor as loss. Without this command, tasks
    wait until the leases expire, or longer while many agents are silent at the same time. Atomic
    and idempotent. Time in which the server was down does not count as silence.

    Examples:
      taskq recover --dry-run
      taskq recover /wisdom --site cluster-b --lost-since 2h --yes
    """
    with invocation.client() as client:
        asked = partial(client.recover, path, site=site, silent_s=silent_s, lost_since=lost_since)
        if not dry_run and not yes:
            found = asked(dry_run=True)
            if _moves(found):
                what = " and ".join(_moves(found))
                confirm(f"At and below {path}: {what}. Do it?", yes=False)
        found = asked(dry_run=dry_run)
    record = as_record(found, path=path, dry_run=dry_run)
    write_record(invocation.output, record, "\n".join(_lines(found, dry_run=dry_run)))


def _moves(
    found: Recovery, end: str = "end", hand_out: str = "hand out", give: str = "give"
) -> list[str]:
    """Return the parts of the sentence about a recovery, with these verbs; [] if it is a no-op."""
    handed_out = sum(campaign["handed_out"] for campaign in found.campaigns)
    retried = sum(campaign["retried"] for campaign in found.campaigns)
    moves = []
    if found.sessions:
        agents, tasks = counted(found.sessions, "silent agent"), counted(handed_out, "task")
        moves.append(f"{end} {agents} and {hand_out} {tasks} again")
    if retried:
        moves.append(f"{give} {counted(retried, 'failed task')} another chance")
    return moves


def _lines(found: Recovery, *, dry_run: bool) -> list[str]:
    moves = _moves(found) if dry_run else _moves(found, "ended", "handed out", "gave")
    lines = [f"{'Would' if dry_run else 'Done:'} {' and '.join(moves)}."]
    if not moves:
        lines = ["Nothing to do; `taskq agent list` shows for how long each agent has been silent."]
    for campaign in found.campaigns:
        numbers = {"handed out again": campaign["handed_out"], "tried again": campaign["retried"]}
        counts = ", ".join(f"{number:,} {name}" for name, number in numbers.items() if number)
        lines.append(f"  {campaign['path']}  {counts or 'none that can be claimed'}")
    if found.sessions_left or found.tasks_left:
        agents, tasks = counted(found.sessions_left, "agent"), counted(found.tasks_left, "task")
        lines.append(
            f"Skipped: {agents} and {tasks} that another session has locked; run it again."
        )
    if found.braked:
        lines.append("Tasks of other silent agents are still held; see `taskq agent list`.")
    return lines
