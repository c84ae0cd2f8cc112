"""`taskq explain`: why a campaign or a task does not run, or not faster, and what changes it."""

from __future__ import annotations

import sys
from typing import Any

import click

from taskq.diagnosis.reasons import Explanation
from taskq.model.words import command
from taskq_cli.display import render
from taskq_cli.display.output import as_record, write_record
from taskq_cli.display.task_keys import hinting_at_keys
from taskq_cli.display.text import one_line
from taskq_cli.shared import Invocation, path_argument, reading_options


@click.command()
@path_argument(default="/", metavar="[PATH]")
@click.argument("key", required=False)
@reading_options
def explain(invocation: Invocation, *, path: str, key: str | None) -> None:
    """Explain why tasks do not run, or not faster.

    Explains the campaign PATH with all below it, or the task KEY of it. Each reason says how many
    tasks it concerns, and is followed by the commands that change it or show more; what blocks most
    tasks comes first, then what is broken and costs most: tasks that fail, hosts and sites that
    fail or are slow. It takes as long for ten million tasks as for ten thousand.

    Examples:
      taskq explain /demo
      taskq explain /demo seed=7
    """
    with invocation.reader() as client:
        if key is None:
            explanation = client.campaign(path).explain()
        else:
            with hinting_at_keys(client, path, key):
                explanation = client.campaign(path).explain(key)
        behind_s = client.behind_s
    if invocation.output == "table":
        sys.stdout.write(_text(explanation))
    else:
        record = _record(explanation) | {"behind_s": behind_s}
        write_record(invocation.output, record, "")


def _record(explanation: Explanation) -> dict[str, Any]:
    return as_record(explanation) | {"reasons": [as_record(one) for one in explanation.reasons]}


def _text(explanation: Explanation) -> str:
    """Return the explanation for people: commands stay whole, so that they can be pasted."""
    what = f"{explanation.path} {explanation.key or ''}".rstrip()
    parts = [render.as_text(render.paragraph("", one_line(f"{what}  {explanation.headline}")))]
    for number, reason in enumerate(explanation.reasons, 1):
        mark = f"{number}. "
        told = render.as_text(render.paragraph(mark, one_line(reason.text)))
        commands = "".join(f"{' ' * len(mark)}$ {one_line(one)}\n" for one in reason.commands)
        parts.append(told + commands)
    if explanation.key is None:
        views = (["failures"], ["hosts", "list"], ["sites", "list"])
        there = {one for reason in explanation.reasons for one in reason.commands}
        shown = [command(*view, names=[explanation.path]) for view in views]
        told = "".join(f"$ {one_line(one)}\n" for one in shown if one not in there)
        if told:
            parts.append(f"Which tasks, hosts and sites fail or take longer than others:\n{told}")
    return "\n".join(parts)
