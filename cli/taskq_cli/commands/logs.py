"""`taskq logs`: show the attempts of a task and the end of their output."""

from __future__ import annotations

import sys

import click

from taskq.errors import NotFound
from taskq.export.json_values import as_json
from taskq.views import Attempt, TaskView
from taskq.words import duration, instant, phases
from taskq_cli.output import as_record, facts, write_records
from taskq_cli.shared import Invocation, path_argument, reading_options
from taskq_cli.text import printable


@click.command()
@path_argument(metavar="CAMPAIGN")
@click.argument("key")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Only this attempt.")
@reading_options
def logs(invocation: Invocation, *, path: str, key: str, attempt: int | None) -> None:
    """Show the ended attempts of a task, with their output.

    Shows the attempts of the task KEY of CAMPAIGN, each with the end of its output.

    Example:
      taskq logs /demo seed=7
    """
    with invocation.reader() as client:
        campaign = client.campaign(path)
        task, attempts = campaign.task(key), campaign.attempts(key)
    if attempt is not None:
        attempts = [one for one in attempts if one.attempt == attempt]
        if not attempts:
            raise NotFound(f"task {key!r} has no ended attempt {attempt}; leave --attempt out")
    if invocation.output == "table":
        parts = [_about_task(task), *map(_about_attempt, attempts)]
        sys.stdout.write("\n\n".join(parts) + "\n")
    else:
        write_records(invocation.output, map(as_record, attempts), ())


def _about_task(task: TaskView) -> str:
    return facts(
        {
            "task": task.key,
            "status": task.status,
            "working on it": f"{task.host} since {instant(task.claimed_at)}" if task.host else "",
            "due": task.due_at if task.status == "delayed" else None,
            "payload": as_json(task.payload),
        }
    )


def _about_attempt(one: Attempt) -> str:
    # That of a failed attempt repeats the error, for those who raise it again.
    result = one.result if one.outcome == "done" else None
    took = duration(max((one.ended_at - one.claimed_at).total_seconds(), 0))
    about = facts(
        {
            "attempt": f"{one.attempt}, {one.outcome} after {took}, {instant(one.ended_at)}",
            "agent": f"{one.agent} at {one.host}" + (f", {one.site}" if one.site else ""),
            "phases": phases(one.phases),
            "exit code": one.exit_code,
            "error": ": ".join(filter(None, (one.error_class, one.error))),
            "result": "" if result is None else as_json(result),
        }
    )
    if one.tail is None:
        return f"{about}\noutput     (none)"
    lines = printable(one.tail).rstrip("\n").splitlines()
    return "\n".join([about, "output", *(f"  {line}" for line in lines)])
