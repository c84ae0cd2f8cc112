"""`taskq limit`: limits that campaigns share."""

from __future__ import annotations

import re
from typing import Final

import click

from taskq.diagnosis.tables.named_limits import COLUMNS
from taskq.model.errors import NotFound
from taskq.model.words import counted
from taskq_cli.display.output import write_record, write_records
from taskq_cli.display.text import one_line
from taskq_cli.invocation import Invocation
from taskq_cli.options.shared import (
    dry_run_option,
    limit_option,
    reading_options,
    shared_options,
)
from taskq_cli.program import ListGroup

#: As `set_limit.sql` says.
_MOST: Final = 20_000


def _starts(ctx: click.Context, param: click.Parameter, value: str) -> int:
    """Return how many starts a limit allows; the error says what the number is of."""
    if re.fullmatch("[0-9]{1,5}", value) and int(value) <= _MOST:
        return int(value)
    text = f"{value!r:.80} must be how many starts may run at a time, a whole number from 0 to "
    text += f"{_MOST:,}, as in: taskq limit set oechem 40"
    raise click.BadParameter(text, ctx, param)


@click.group("limit", cls=ListGroup)
def limits() -> None:
    """Limit what runs of several campaigns together, such as by licences.

    A campaign counts if its setting named_limits has the name. `list` is the default sub-command.

    Example:
      taskq limit set oechem 40
    """


@limits.command("list")
@limit_option
@reading_options
def list_(invocation: Invocation, limit: int | None) -> None:
    """List the limits: how much of each is used, and which campaigns hold it.

    An agent counts for the tasks that it holds, and for no more than its slots.

    Example:
      taskq limit list
    """
    with invocation.reader() as client:
        found = client.limits.list()
    write_records(invocation.output, found, COLUMNS, limit=limit)


@limits.command("set")
@click.argument("name")
@click.argument("most", callback=_starts)
@click.option(
    "--owner",
    "owners",
    multiple=True,
    help="Only campaigns of OWNER may name it from now on (repeatable).",
    metavar="OWNER",
)
@shared_options
def set_(invocation: Invocation, *, name: str, most: int, owners: tuple[str, ...]) -> None:
    """Let MOST starts run at a time, over all campaigns that name the limit.

    It applies to tasks that are claimed from now on, and takes nothing back. With 0, nothing more
    is handed out. Without --owner all campaigns may name it. It needs an operator's login.

    Example:
      taskq limit set oechem 40 --owner alice --owner bob
    """
    with invocation.client() as client:
        campaigns = client.limits.set(name, most, owners=owners or None)
    write_record(
        invocation.output,
        {"name": name, "most": most, "owners": [*owners] or None, "campaigns": campaigns},
        f"The limit {one_line(name)} allows {counted(most, 'start')}; "
        f"{counted(campaigns, 'campaign')} so far {'names' if campaigns == 1 else 'name'} it.",
    )


@limits.command()
@click.argument("name")
@dry_run_option
@shared_options
def rm(invocation: Invocation, *, name: str, dry_run: bool) -> None:
    """Remove a limit; it is taken from the campaigns that name it.

    It needs an operator's login.

    Example:
      taskq limit rm oechem
    """
    with invocation.client() as client:
        if dry_run:
            known = {limit.name: limit for limit in client.limits.list()}
            if name not in known:
                raise NotFound(f"no limit {name!r:.80}; `taskq limit list` shows all")
            would = (
                f"The limit {one_line(name)} would be removed, which "
                f"{counted(known[name].campaigns, 'campaign')} would lose; nothing was changed."
            )
            write_record(invocation.output, {"name": name, "dry_run": True}, would)
            return
        campaigns = client.limits.remove(name)
    write_record(
        invocation.output,
        {"name": name, "campaigns": campaigns},
        f"The limit {one_line(name)} is removed; {counted(campaigns, 'campaign')} named it.",
    )
