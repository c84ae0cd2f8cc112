"""`taskq logs`: show the attempts of a task and the end of their output, also while it runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from taskq.files.live_output import OutputPart
from taskq.model.errors import NotFound, UsageError
from taskq.model.json_values import as_json
from taskq.model.views import Attempt, TaskView
from taskq.model.words import command, duration, instant, phases, progress
from taskq_cli.display.output import as_record, facts, write_records
from taskq_cli.display.task_keys import hinting_at_keys
from taskq_cli.display.text import one_line, printable
from taskq_cli.shared import Invocation, path_argument, reading_options


@click.command()
@path_argument(metavar="CAMPAIGN")
@click.argument("key")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Only this attempt.")
@click.option(
    "--follow", "-f", "follows", is_flag=True, help="Show output as it is written, until the end."
)
@reading_options
def logs(
    invocation: Invocation, *, path: str, key: str, attempt: int | None, follows: bool
) -> None:
    """Show the ended attempts of a task, with their output.

    Shows the attempts of the task KEY of CAMPAIGN, each with the end of its output. With --follow,
    shows the output of the attempt that runs, within seconds, and of those after it.

    Examples:
      taskq logs /demo seed=7
      taskq logs -f /demo seed=8
    """
    if follows:
        if attempt is not None or invocation.output == "json":
            raise UsageError("--follow takes neither --attempt nor --output json, but jsonl")
        _follow(invocation, path, key)
        return
    with invocation.reader() as client:
        campaign = client.campaign(path)
        with hinting_at_keys(client, path, key):
            task, attempts = campaign.task(key), campaign.attempts(key)
        files = task.status == "done" and campaign.spec().output_bytes is not None
    if attempt is not None:
        attempts = [one for one in attempts if one.attempt == attempt]
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
                write_records("jsonl", [_as_record(part)], ())
            else:
                for line in _said(part):
                    click.echo(line, err=True)
                sys.stdout.write(printable(part.text))
                if part.ended and part.text and not part.text.endswith("\n"):
                    sys.stdout.write("\n")
            sys.stdout.flush()
            if part.ended and invocation.output == "table":
                click.echo(_end(part.ended), err=True)


def _as_record(part: OutputPart) -> dict[str, Any]:
    return as_record(part) | {"ended": part.ended and part.ended.outcome}


def _said(part: OutputPart) -> Iterator[str]:
    """Yield what people are told before a part of the output."""
    if part.skipped:
        yield f"[{part.skipped:,} bytes before this were not kept]"
    if part.text or part.ended or part.skipped:
        return
    if part.status == "working":
        where = f" on {one_line(part.host)}" if part.host else ""
        yield f"[attempt {part.attempt} runs{where}; its output comes with its agent's heartbeats]"
    else:
        yield f"[the task is {part.status}]"


def _end(one: Attempt) -> str:
    why = ": ".join(filter(None, (one.error_class, one.error)))
    took = duration(max((one.ended_at - one.claimed_at).total_seconds(), 0))
    return one_line(
        f"[attempt {one.attempt}: {one.outcome} after {took}{', ' if why else ''}{why}]"
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
