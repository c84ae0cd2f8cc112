"""`taskq site`: compare sites, and keep agents away from some."""

from __future__ import annotations

from typing import Any, Final

import click

from taskq_cli.commands import places
from taskq_cli.commands.places import ban_options, list_options, unban_options
from taskq_cli.invocation import Invocation
from taskq_cli.options.shared import path_argument, reading_options
from taskq_cli.program import ListGroup

_names: Final = click.argument("names", metavar="SITE...", nargs=-1, required=True)


@click.group("site", cls=ListGroup)
def sites() -> None:
    """Compare sites with each other, and ban bad ones.

    `list` is the default sub-command.

    Example:
      taskq site list /demo
    """


@sites.command()
@_names
@ban_options
def ban(invocation: Invocation, names: tuple[str, ...], **how: Any) -> None:
    """Keep agents away from sites.

    Agents there get the order to leave with the answer to their next heartbeat: they claim no more,
    finish their tasks, and exit. Agents that start there are refused, with the reason, until the
    ban ends. SITE is what `taskq site` shows. An agent can name another site: to keep somebody out,
    revoke the token. The command asks first if no agent has lately been there. --campaign bans the
    site for one campaign only, as `taskq host ban` explains.

    Example:
      taskq site ban cluster-b --why "the file system is being moved" --until 2026-12-01T08:00Z
    """
    places.ban(invocation, "site", names, **how)


@sites.command()
@_names
@unban_options
def unban(invocation: Invocation, names: tuple[str, ...], campaign: str | None) -> None:
    """Lift the bans of sites: agents may start there again.

    Lifts all bans of each, also those for single campaigns; with --campaign only that one.

    Agents that were ordered to leave still leave.

    Example:
      taskq site unban cluster-b
    """
    places.unban(invocation, "site", names, campaign)


@sites.command("list")
@list_options
def list_(invocation: Invocation, **what: Any) -> None:
    """Compare the sites whose agents serve a campaign.

    Takes a sample of the latest attempts of PATH and all below it, at most 10,000. FAILED is the
    share that failed, were lost or were refused there, ELSEWHERE the share at other sites in the
    same campaigns; RUN the typical run time, TIMES how many times as long as elsewhere; USE the
    share of the slots' time in which a payload ran. The sites where clearly more fails come first,
    then slow ones, and banned ones last. Below the table are the verdicts, with what you lose by a
    ban, and the size of the sample.

    Example:
      taskq site list /demo
    """
    places.compare(invocation, "site", **what)


@sites.command()
@click.argument("name", metavar="SITE")
@path_argument(default="/")
@reading_options
def show(invocation: Invocation, *, name: str, path: str) -> None:
    """Show a single site with its agents.

    Shows the line of SITE in `taskq site list PATH`, what is clearly wrong with it, a ban with its
    end and who made it, and its agents.

    Example:
      taskq site show cluster-b
    """
    places.show(invocation, "site", name, path)
