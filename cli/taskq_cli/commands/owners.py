"""`taskq owner`: owners of campaigns, and their quotas."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, get_args

import click

from taskq.db.owners import QuotaChange, ShareBy
from taskq.diagnosis.tables.owners import columns
from taskq.model.errors import UsageError
from taskq.model.words import counted
from taskq_agent.units import size_in_bytes
from taskq_cli.display.output import write_record, write_records
from taskq_cli.display.text import one_line
from taskq_cli.invocation import Invocation
from taskq_cli.options.shared import limit_option, path_argument, reading_options, shared_options
from taskq_cli.program import ListGroup

_COUNT: Final = re.compile(r"([0-9]{1,13})([kM]?)")
_TIMES: Final = {"": 1, "k": 1_000, "M": 1_000_000}


@click.group("owner", cls=ListGroup)
def owners() -> None:
    """Show the owners of campaigns, and set their quotas.

    A campaign belongs to the login that created it, or over a gateway to the token.
    `list` is the default sub-command.

    Example:
      taskq owner list
    """


@owners.command("list")
@path_argument(default="/")
@limit_option
@reading_options
def list_(invocation: Invocation, path: str, limit: int | None) -> None:
    """List the owners of campaigns at and below PATH.

    Owners with most tasks come first. Each line sums up all campaigns of an owner, with its quotas.
    STORED counts inputs and output files.

    Example:
      taskq owner list
    """
    with invocation.reader() as client:
        found = client.owners.list(path)
        by = client.owners.shared_by()
    write_records(invocation.output, found, columns(by), limit=limit)


@owners.command()
@click.argument("owner")
@click.option(
    "--running", metavar="N|none", help="Tasks that run at the same time, at most 1,000,000."
)
@click.option("--waiting", metavar="N|none", help="Tasks that wait, such as 200k or 5M.")
@click.option(
    "--bytes", "stored", metavar="SIZE|none", help="Inputs and output files, such as 50G."
)
@click.option(
    "--weight",
    type=click.FloatRange(min=0, min_open=True, max=1_000),
    metavar="W",
    help="Weight among the owners if they share by owner. [default: 1]",
)
@shared_options
def quota(
    invocation: Invocation,
    *,
    owner: str,
    running: str | None,
    waiting: str | None,
    stored: str | None,
    weight: float | None,
) -> None:
    """Limit what all campaigns of OWNER together may use.

    Other limits stay; `none` removes a limit. A limit applies to tasks that are claimed, seeded or
    stored from now on, and takes nothing back. It needs an operator's login.

    At the limit of running tasks, agents get no more of them. Seeding refuses tasks beyond the
    limit of waiting ones. At the limit of stored bytes, the queue refuses inputs and hands out no
    more tasks until less is stored; results of running tasks are still stored.

    Example:
      taskq owner quota alice --running 1000 --waiting 5M --bytes 50G
    """
    change: QuotaChange = {}
    if running is not None:
        change["max_running"] = _amount("--running", running, _count, "1000 or 20k")
    if waiting is not None:
        change["max_waiting"] = _amount("--waiting", waiting, _count, "200k or 5M")
    if stored is not None:
        change["max_bytes"] = _amount("--bytes", stored, size_in_bytes, "512M, 50G or 1.5T")
    if weight is not None:
        change["weight"] = weight
    if not change:
        raise UsageError("nothing to change: give --running, --waiting, --bytes or --weight")
    with invocation.client() as client:
        campaigns = client.owners.set_quota(owner, change)
    text = (
        f"The quota of {one_line(owner)} is changed; it applies to {counted(campaigns, 'campaign')}"
    )
    text += " and later ones." if campaigns else " so far; is the name right? See `taskq owner`."
    write_record(
        invocation.output, {"owner": owner, "changed": dict(change), "campaigns": campaigns}, text
    )


@owners.command()
@path_argument()
@click.argument("owner")
@shared_options
def give(invocation: Invocation, *, path: str, owner: str) -> None:
    """Make OWNER the owner of PATH and all below.

    This includes campaigns without an owner. The quota of OWNER does not prevent it. It needs an
    operator's login.

    Example:
      taskq owner give /demo alice
    """
    with invocation.client() as client:
        changed = client.owners.give(path, owner)
    text = f"{counted(changed, 'campaign')} given to {one_line(owner)}."
    write_record(invocation.output, {"path": path, "owner": owner, "changed": changed}, text)


@owners.command()
@click.argument("by", type=click.Choice(get_args(ShareBy)), metavar="owner|campaign")
@shared_options
def share(invocation: Invocation, *, by: ShareBy) -> None:
    """Share running tasks by owner, or by campaign.

    By owner, each owner gets a share by its weight, which its campaigns divide by their weights. By
    campaign, the default, an owner with more campaigns gets more. It needs an operator's login.

    Example:
      taskq owner share owner
    """
    with invocation.client() as client:
        changed = client.owners.share_by(by)
    text = f"Running tasks {'are' if changed else 'were already'} shared by {by}."
    write_record(invocation.output, {"by": by, "changed": changed}, text)


def _amount(option: str, text: str, number: Callable[[str], int], examples: str) -> int | None:
    if text == "none":
        return None
    try:
        return number(text)
    except ValueError:
        raise UsageError(
            f"{option} {text!r:.80} must be a number, such as {examples}, or none"
        ) from None


def _count(text: str) -> int:
    found = _COUNT.fullmatch(text.replace(",", ""))
    if found is None:
        raise ValueError(text)
    return int(found[1]) * _TIMES[found[2]]
