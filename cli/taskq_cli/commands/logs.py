"""`taskq logs` and `taskq history`: the output of a task's attempts, and what happened to it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

from taskq import Campaign, Client
from taskq.db.access import task_ids
from taskq.diagnosis.tables.tasks import EVENTS
from taskq.files.live_output import OutputPart
from taskq.model.errors import NotFound, UsageError
from taskq.model.run_times import ran_s
from taskq.model.views import Attempt, TaskView
from taskq.model.words import as_json, command, counted, duration, instant, phases, progress
from taskq_cli.display.output import as_record, facts, write_records
from taskq_cli.display.text import one_line, printable
from taskq_cli.invocation import Invocation
from taskq_cli.options.shared import path_argument, reading_options

MOST_CAMPAIGNS: Final = 20
"""Most campaigns below that are searched for a key."""


@contextmanager
def hinting_at_keys(client: Client, path: str, key: str) -> Iterator[None]:
    """Add a hint if a campaign has no task with a key: where it is, or what keys look like."""
    campaign = client.campaign(path)
    try:
        yield
    except NotFound as error:
        if _has(client, campaign, key):
            raise
        raise NotFound(f"{error}; {_hint(client, campaign, key)}") from None


def _hint(client: Client, campaign: Campaign, key: str) -> str:
    own, *others = campaign.tree()
    below = [Campaign(client.queries, node.campaign_id, node.path) for node in others if node.total]
    for child in below[:MOST_CAMPAIGNS]:
        if _has(client, child, key):
            return f"{child.path} below it has one: name that campaign"
    if own.total:
        rows = client.queries.rows("tasks", campaign=own.campaign_id, status=None, after=0, limit=1)
        return f"one of its keys is {one_line(rows[0]['key'])!r}" if rows else "it has no task"
    if below:
        number = counted(len(below), "campaign")
        return (
            f"it has none of its own, but {number} below it, such as {below[0].path}; name that one"
        )
    return "it has no task"


def _has(client: Client, campaign: Campaign, key: str) -> bool:
    return bool(task_ids(client.queries, campaign.campaign_id, [key]))


@click.command()
@path_argument(metavar="CAMPAIGN")
@click.argument("key")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Only this attempt.")
@click.option(
    "--follow",
    "-f",
    "follows",
    is_flag=True,
    help="Show output as the task writes it, until the end.",
)
@reading_options
def logs(
    invocation: Invocation, *, path: str, key: str, attempt: int | None, follows: bool
) -> None:
    """Show the ended attempts of a task, with their output.

    Shows the attempts of the task KEY of CAMPAIGN, each with the end of its output. --follow shows
    the output of the running attempt, within seconds, and of later ones.

    Examples:
      taskq logs /demo seed=7
      taskq logs -f /demo seed=8
    """
    if follows:
        if attempt is not None or invocation.output == "json":
            raise UsageError("--follow takes no --attempt, and jsonl instead of json")
        _follow(invocation, path, key)
        return
    with invocation.reader() as client:
        campaign = client.campaign(path)
        with hinting_at_keys(client, path, key):
            task, attempts = campaign.task(key), campaign.attempts(key)
        files = task.status == "done" and campaign.spec().output_bytes is not None
    if attempt is not None:
        attempts = [ended for ended in attempts if ended.attempt == attempt]
        if not attempts:
            raise NotFound(f"task {key!r} has no ended attempt {attempt}; leave --attempt out")
    if invocation.output == "table":
        parts = [_about_task(task, files=files), *map(_about_attempt, attempts)]
        sys.stdout.write("\n\n".join(parts) + "\n")
    else:
        write_records(invocation.output, map(as_record, attempts), ())


def _follow(invocation: Invocation, path: str, key: str) -> None:
    with invocation.client() as client:
        with hinting_at_keys(client, path, key):
            parts = client.campaign(path).logs(key)
        for part in parts:
            if invocation.output == "jsonl":
                ended = part.ended and part.ended.outcome
                write_records("jsonl", [as_record(part) | {"ended": ended}], ())
            else:
                for line in _notices(part):
                    click.echo(line, err=True)
                sys.stdout.write(printable(part.text))
                if part.ended and part.text and not part.text.endswith("\n"):
                    sys.stdout.write("\n")
            sys.stdout.flush()
            if part.ended and invocation.output == "table":
                click.echo(_end(part.ended), err=True)


def _notices(part: OutputPart) -> Iterator[str]:
    """Yield the notices for people before a part of the output."""
    if part.skipped:
        yield f"[{part.skipped:,} bytes before this were not kept]"
    if part.text or part.ended or part.skipped:
        return
    if part.status == "working":
        where = f" on {one_line(part.host)}" if part.host else ""
        yield f"[attempt {part.attempt} runs{where}; its output comes with its agent's heartbeats]"
    else:
        yield f"[the task is {part.status}]"


def _end(attempt: Attempt) -> str:
    why = ": ".join(filter(None, (attempt.error_class, attempt.error)))
    took = duration(ran_s(attempt.phases, attempt.claimed_at, attempt.ended_at))
    return one_line(
        f"[attempt {attempt.attempt}: {attempt.outcome} after {took}{', ' if why else ''}{why}]"
    )


def _about_task(task: TaskView, *, files: bool) -> str:
    works = task.status == "working"
    name = [task.campaign, task.key]
    return facts(
        {
            "task": task.key,
            "status": task.status,
            "working on it": f"{task.host} since {instant(task.claimed_at)}" if task.host else "",
            "progress": progress(task.progress, task.progress_note),
            "output so far": command("logs", "-f", names=name) if works else "",
            "output files": command("fetch", "--to", "DIR", names=name) if files else "",
            "due": task.due_at if task.status == "delayed" else None,
            "payload": as_json(task.payload),
        }
    )


def _about_attempt(attempt: Attempt) -> str:
    # The result of a failed attempt repeats the error, for programs that raise it again.
    result = attempt.result if attempt.outcome in {"done", "withdrawn"} else None
    took = duration(ran_s(attempt.phases, attempt.claimed_at, attempt.ended_at))
    about = facts(
        {
            "attempt": f"{attempt.attempt}, {attempt.outcome} after {took}, "
            f"{instant(attempt.ended_at)}",
            "agent": f"{attempt.agent} at {attempt.host}"
            + (f", {attempt.site}" if attempt.site else ""),
            "phases": phases(attempt.phases),
            "exit code": attempt.exit_code,
            "error": ": ".join(filter(None, (attempt.error_class, attempt.error))),
            "result": "" if result is None else as_json(result),
        }
    )
    if attempt.tail is None:
        return f"{about}\noutput     (none)"
    lines = printable(attempt.tail).rstrip("\n").splitlines()
    return "\n".join([about, "output", *(f"  {line}" for line in lines)])


@click.command()
@path_argument(metavar="CAMPAIGN")
@click.argument("key")
@reading_options
def history(invocation: Invocation, *, path: str, key: str) -> None:
    """Show what happened to a task, in order.

    Shows when and where the attempts of the task KEY of CAMPAIGN were claimed, how they ended, and
    the status now. `taskq logs` shows their output, `taskq explain` why the task does not run.

    Example:
      taskq history /demo seed=7
    """
    with invocation.reader() as client, hinting_at_keys(client, path, key):
        events = client.campaign(path).history(key)
    write_records(invocation.output, events, EVENTS)
