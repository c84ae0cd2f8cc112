"""`taskq troubles`: what is wrong, since when, at what cost, and who knows of it."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta

import click

from taskq.diagnosis.troubles import MAX_SNOOZE_S, KnownTrouble, TroubleList
from taskq.model.words import counted, duration, instant
from taskq_cli.display.output import as_record, paragraph, write_record
from taskq_cli.display.text import one_line
from taskq_cli.early_exits import Violated
from taskq_cli.invocation import Invocation
from taskq_cli.options.shared import path_argument, reading_options, shared_options
from taskq_cli.options.values import seconds
from taskq_cli.options.values import since as parse_since
from taskq_cli.program import ListGroup

note_option = click.option(
    "--note", metavar="TEXT", help="What others should know, in at most 500 characters."
)


@click.group(cls=ListGroup)
def troubles() -> None:
    """Show what is wrong, and say that you know of it.

    `list` is the default sub-command.

    Example:
      taskq troubles list
    """


@troubles.command("list")
@path_argument(default=None, metavar="[PATH]")
@click.option(
    "--since",
    type=parse_since,
    metavar="TIME|DURATION",
    help="Also what was wrong since then: a moment, or so long ago, such as 1d; three days at "
    "most. [default: what is wrong now]",
)
@reading_options
def list_(invocation: Invocation, *, path: str | None, since: datetime | timedelta | None) -> None:
    """List what is wrong in PATH and all below it.

    What costs most comes first: in core-hours an hour, where that is known. Each trouble has the
    id by which to acknowledge it, since when it is so, and commands that mend it or show more. A
    keeper (`taskq keeper`) looks every half minute; without one, the list shows the reasons of
    `taskq explain` without ids.

    The exit code is 0 if nothing is wrong that somebody has not acknowledged or snoozed, else 1.

    Examples:
      taskq troubles list
      taskq troubles /demo --since 1d
    """
    with invocation.reader() as client:
        found = client.troubles.list(path, since=since)
    if invocation.output == "table":
        sys.stdout.write(_text(found))
    else:
        record = as_record(found) | {"open": len(found.open)}
        write_record(invocation.output, record, "")
    if found.open:
        raise Violated(f"{counted(len(found.open), 'trouble')} that nobody has acknowledged.")


@troubles.command()
@click.argument("trouble_id", metavar="ID", type=click.IntRange(min=1))
@note_option
@click.option("--undo", is_flag=True, help="Take an acknowledgement or a snooze back instead.")
@shared_options
def acknowledge(invocation: Invocation, *, trouble_id: int, note: str | None, undo: bool) -> None:
    """Say that you know of a trouble, so that no more messages come.

    It counts until the trouble is over. It also ends when the trouble becomes much worse: when it
    costs twice as much, or where that is unknown has cost twice as many attempts. At another place
    it is another trouble.

    Example:
      taskq troubles acknowledge 12 --note "the vendor comes on Monday"
    """
    with invocation.client() as client:
        if undo:
            client.troubles.undo(trouble_id)
        else:
            client.troubles.acknowledge(trouble_id, note=note)
    text = f"Trouble {trouble_id} is {'open again' if undo else 'acknowledged'}."
    write_record(invocation.output, {"trouble_id": trouble_id, "acknowledged": not undo}, text)


@troubles.command()
@click.argument("trouble_id", metavar="ID", type=click.IntRange(min=1))
@click.argument("until_s", metavar="TIME", type=seconds(1, MAX_SNOOZE_S))
@note_option
@shared_options
def snooze(invocation: Invocation, *, trouble_id: int, until_s: float, note: str | None) -> None:
    """Let messages about a trouble rest for some time.

    What still holds then is reported again. For a week at most; the rest is as for `acknowledge`,
    which also takes it back by `--undo`.

    Example:
      taskq troubles snooze 12 2h
    """
    with invocation.client() as client:
        client.troubles.snooze(trouble_id, until_s, note=note)
    text = f"Trouble {trouble_id} is snoozed for {duration(until_s)}."
    write_record(invocation.output, {"trouble_id": trouble_id, "snoozed_s": until_s}, text)


def _text(found: TroubleList) -> str:
    """Return the troubles for people. Commands stay whole, so that people can paste them."""
    looked = f"looked at {instant(found.looked_at)}" if found.looked_at else "no keeper looks there"
    number = len(found.open)
    nothing = "nothing is wrong" if not found.troubles else "nothing that nobody knows of"
    head = f"{number:,} wrong" if number else nothing
    return "\n".join([paragraph(f"{found.path}  {head}; {looked}"), *map(_entry, found.troubles)])


def _entry(trouble: KnownTrouble) -> str:
    mark = f"{trouble.trouble_id or '-'}. "
    known = f" [{one_line(trouble.known)}]" if trouble.known else ""
    commands = () if trouble.state == "over" else trouble.commands
    return paragraph(f"{trouble.full_text}{known}", commands, mark)
