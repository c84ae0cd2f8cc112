"""`taskq host`: compare hosts, and keep agents away from some."""

from __future__ import annotations

from typing import Any, Final

import click

from taskq_cli.commands import places
from taskq_cli.commands.places import ban_options, list_options, unban_options
from taskq_cli.invocation import Invocation
from taskq_cli.options.shared import path_argument, reading_options
from taskq_cli.program import ListGroup

_names: Final = click.argument("names", metavar="HOST...", nargs=-1, required=True)


@click.group("host", cls=ListGroup)
def hosts() -> None:
    """Compare hosts with each other, and ban bad ones.

    `list` is the default sub-command.

    Example:
      taskq host list /demo
    """


@hosts.command()
@_names
@ban_options
def ban(invocation: Invocation, names: tuple[str, ...], **how: Any) -> None:
    """Keep agents away from hosts.

    Agents there get the order to leave with the answer to their next heartbeat: they claim no more,
    finish their tasks, and exit. Agents that start there are refused, with the reason, until the
    ban ends. HOST is what `taskq host` shows. The command asks first if no agent has lately been
    there.

    With --campaign, agents there that serve more than that campaign leave it out and work on for
    others, such as where a program of it lacks a library. Those that serve nothing else leave. A
    host can be banned for 16 campaigns. An agent leaves out 16 campaigns at a time: if more lie
    below PATH, tasks of the others still reach it, and it hands them back at once, not begun.

    Example:
      taskq host ban n17 --why "its scratch disk is full" --until 12h
      taskq host ban n17 --why "its glibc is too old" --campaign /demo
    """
    places.ban(invocation, "host", names, **how)


@hosts.command()
@_names
@unban_options
def unban(invocation: Invocation, names: tuple[str, ...], campaign: str | None) -> None:
    """Lift the bans of hosts: agents may start there again.

    Lifts all bans of each, also those for single campaigns; with --campaign only that one.

    Agents that were ordered to leave still leave.

    Example:
      taskq host unban n17
    """
    places.unban(invocation, "host", names, campaign)


@hosts.command("list")
@list_options
def list_(invocation: Invocation, **what: Any) -> None:
    """Compare the hosts whose agents serve a campaign.

    Takes a sample of the latest attempts of PATH and all below it, at most 10,000. FAILED is the
    share that failed, were lost or were refused there, ELSEWHERE the share on other hosts in the
    same campaigns; RUN the typical run time, TIMES how many times as long as elsewhere; USE the
    share of the slots' time in which a payload ran. The hosts where clearly more fails come first,
    then slow ones, and banned ones last. Below the table are the verdicts, with the command that
    keeps agents away from hosts where too much fails, and the size of the sample.

    Example:
      taskq host list /demo
    """
    places.compare(invocation, "host", **what)


@hosts.command()
@click.argument("name", metavar="HOST")
@path_argument(default="/")
@reading_options
def show(invocation: Invocation, *, name: str, path: str) -> None:
    """Show a single host with its agents.

    Shows the line of HOST in `taskq host list PATH`, what is clearly wrong with it, a ban with its
    end and who made it, and its agents.

    Example:
      taskq host show n17
    """
    places.show(invocation, "host", name, path)
