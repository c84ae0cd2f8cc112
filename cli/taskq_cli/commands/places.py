"""`taskq hosts` and `taskq sites`: compare them, and keep agents away from some."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, Final

import click

from taskq.diagnosis.bans import PlaceKind
from taskq.diagnosis.places import Place
from taskq.diagnosis.reasons import some
from taskq.model.errors import Conflict, NotFound
from taskq.model.words import command, counted, duration
from taskq_cli.display import render
from taskq_cli.display.fleet import place_columns, place_record, sample_line
from taskq_cli.display.output import Column, as_record, facts, write_record, write_records
from taskq_cli.display.text import one_line
from taskq_cli.invocation import Invocation
from taskq_cli.options.shared import limit_option, path_argument, reading_options, shared_options
from taskq_cli.options.shared import until as parse_until
from taskq_cli.program import ListGroup

_MOST_VERDICTS: Final = 5

_MOST_AGENTS: Final = 20_000
_AGENTS: Final = (
    Column("agent"),
    Column("host"),
    Column("working", lambda one: min(one["working"], one["slots"])),
    Column("slots"),
    Column("silent", lambda one: duration(one["silent_s"])),
    Column("draining", lambda one: "yes" if one["draining"] else ""),
    Column("campaign", lambda one: one["path"]),
)

_BANNED: Final = (
    Column("name"),
    Column("until", lambda one: one["until"] or "lifted"),
    Column("why", gives_way=True),
    Column("since", lambda one: one["banned_at"]),
    Column("by", lambda one: one["login"]),
)


@click.group(cls=ListGroup)
def hosts() -> None:
    """Compare hosts with each other, and ban bad ones.

    `list` is the default sub-command.

    Example:
      taskq hosts list /demo
    """


@click.group(cls=ListGroup)
def sites() -> None:
    """Compare sites with each other, and ban bad ones.

    `list` is the default sub-command.

    Example:
      taskq sites list /demo
    """


_why: Final = click.option(
    "--why", required=True, metavar="TEXT", help="The reason, which agents and operators are told."
)
_until: Final = click.option(
    "--until",
    "until",
    type=parse_until,
    metavar="TIME|DURATION",
    help="When the ban ends: a time in UTC, or a duration, as 90m, 12h or 7d. [default: when it "
    "is lifted]",
)


def _ban(
    invocation: Invocation,
    kind: PlaceKind,
    names: tuple[str, ...],
    why: str,
    until: datetime | timedelta | None,
) -> None:
    with invocation.client() as client:
        told = sum(client.fleet.ban(kind, name, why=why, until=until) for name in names)
    text = f"{counted(len(names), kind)} banned; {counted(told, 'agent')} told to leave."
    write_record(invocation.output, {f"{kind}s": list(names), "agents": told}, text)


def _unban(invocation: Invocation, kind: PlaceKind, names: tuple[str, ...]) -> None:
    with invocation.client() as client:
        lifted = [name for name in names if client.fleet.unban(kind, name)]
    if not lifted:
        named = one_line(", ".join(names))
        raise Conflict(f"no such {kind} is banned: {named}; see `taskq {kind}s list --banned`")
    text = f"{counted(len(lifted), kind)} no longer banned: agents that start there are let in."
    write_record(invocation.output, {f"{kind}s": lifted}, text)


@hosts.command("ban")
@click.argument("names", metavar="HOST...", nargs=-1, required=True)
@_why
@_until
@shared_options
def ban_hosts(invocation: Invocation, names: tuple[str, ...], **how: Any) -> None:
    """Keep agents away from hosts.

    Agents there are told to leave, with the answer to their next heartbeat: they claim no more,
    finish their tasks, and exit. Agents that start there are refused, with the reason, until the
    ban ends. HOST is what `taskq hosts` shows.

    Example:
      taskq hosts ban n17 --why "its scratch disk is full" --until 12h
    """
    _ban(invocation, "host", names, **how)


@sites.command("ban")
@click.argument("names", metavar="SITE...", nargs=-1, required=True)
@_why
@_until
@shared_options
def ban_sites(invocation: Invocation, names: tuple[str, ...], **how: Any) -> None:
    """Keep agents away from sites.

    Agents there are told to leave, with the answer to their next heartbeat: they claim no more,
    finish their tasks, and exit. Agents that start there are refused, with the reason, until the
    ban ends. SITE is what `taskq sites` shows; to keep out somebody who might name another one,
    revoke the token.

    Example:
      taskq sites ban cluster-b --why "the file system is being moved" --until 2026-12-01T08:00Z
    """
    _ban(invocation, "site", names, **how)


@hosts.command("unban")
@click.argument("names", metavar="HOST...", nargs=-1, required=True)
@shared_options
def unban_hosts(invocation: Invocation, names: tuple[str, ...]) -> None:
    """Let agents of hosts come again.

    Agents that were told to leave do so.

    Example:
      taskq hosts unban n17
    """
    _unban(invocation, "host", names)


@sites.command("unban")
@click.argument("names", metavar="SITE...", nargs=-1, required=True)
@shared_options
def unban_sites(invocation: Invocation, names: tuple[str, ...]) -> None:
    """Let agents of sites come again.

    Agents that were told to leave do so.

    Example:
      taskq sites unban cluster-b
    """
    _unban(invocation, "site", names)


_banned: Final = click.option(
    "--banned", is_flag=True, help="List the bans instead, with their reasons."
)


@hosts.command("list")
@path_argument(default="/")
@_banned
@limit_option
@reading_options
def list_hosts(invocation: Invocation, **what: Any) -> None:
    """Compare the hosts whose agents serve a campaign.

    Takes a sample of the latest attempts of PATH and all below it, at most 10,000. FAILED is the
    share that failed, were lost or were refused there, ELSEWHERE that on other hosts in the same
    campaigns; RUN the typical run time, TIMES how many times as long as elsewhere; USE the share of
    the slots' time in which a payload ran. Where clearly more fails comes first, then what is slow,
    and last what is banned; the verdicts stand below the table, with the command that keeps
    agents away from hosts where too much fails, and how many attempts were read of how many.

    Example:
      taskq hosts list /demo
    """
    _list(invocation, "host", **what)


@sites.command("list")
@path_argument(default="/")
@_banned
@limit_option
@reading_options
def list_sites(invocation: Invocation, **what: Any) -> None:
    """Compare the sites whose agents serve a campaign.

    Takes a sample of the latest attempts of PATH and all below it, at most 10,000. FAILED is the
    share that failed, were lost or were refused there, ELSEWHERE that at other sites in the same
    campaigns; RUN the typical run time, TIMES how many times as long as elsewhere; USE the share of
    the slots' time in which a payload ran. Where clearly more fails comes first, then what is slow,
    and last what is banned; the verdicts stand below the table, with what is lost by a ban,
    and how many attempts were read of how many.

    Example:
      taskq sites list /demo
    """
    _list(invocation, "site", **what)


@hosts.command("show")
@click.argument("name", metavar="HOST")
@path_argument(default="/")
@reading_options
def show_host(invocation: Invocation, *, name: str, path: str) -> None:
    """Show a single host with its agents.

    Shows what `taskq hosts list` has of HOST beside the others that serve PATH, what is clearly
    wrong with it, a ban with its end and who made it, and its agents.

    Example:
      taskq hosts show n17
    """
    _show(invocation, "host", name, path)


@sites.command("show")
@click.argument("name", metavar="SITE")
@path_argument(default="/")
@reading_options
def show_site(invocation: Invocation, *, name: str, path: str) -> None:
    """Show a single site with its agents.

    Shows what `taskq sites list` has of SITE beside the others that serve PATH, what is clearly
    wrong with it, a ban with its end and who made it, and its agents.

    Example:
      taskq sites show cluster-b
    """
    _show(invocation, "site", name, path)


def _show(invocation: Invocation, kind: PlaceKind, name: str, path: str) -> None:
    with invocation.reader() as client:
        client.campaign(path)
        fleet = client.fleet
        places = fleet.hosts(path) if kind == "host" else fleet.sites(path)
        agents = [as_record(one) for one in client.agents(path, limit=_MOST_AGENTS)]
    found = [one for one in places if one.name == name]
    if not found:
        close = get_close_matches(name, [one.name for one in places], n=1)
        meant = f"did you mean {close[0]}?" if close else f"`taskq {kind}s` shows what there is"
        raise NotFound(f"no {kind} {name} has served {path} lately; {meant}")
    here = [one for one in agents if one[kind] == name]
    record = place_record(found[0])
    if invocation.output != "table":
        write_record(invocation.output, record | {"sessions": here}, "")
        return
    told = {one.title: one.text(record) for one in place_columns(kind)}
    if (ban := found[0].ban) is not None:
        told["state"] = ban.about
    write_record("table", record, facts(told))
    _write_verdicts(kind, path, found)
    if here:
        click.echo()
        write_records("table", here, _AGENTS)


def _list(
    invocation: Invocation, kind: PlaceKind, *, path: str, banned: bool, limit: int | None
) -> None:
    with invocation.reader() as client:
        fleet = client.fleet
        if banned:
            bans = (as_record(one) for one in fleet.bans() if one.kind == kind)
            write_records(invocation.output, bans, _BANNED)
            return
        client.campaign(path)
        places = fleet.hosts(path) if kind == "host" else fleet.sites(path)
    write_records(invocation.output, map(place_record, places), place_columns(kind), limit=limit)
    if invocation.output == "table":
        _write_verdicts(kind, path, places)


def _write_verdicts(kind: PlaceKind, path: str, places: Sequence[Place]) -> None:
    """Say what is clearly wrong below the table, with what to do or to look at next."""
    for one in [one for one in places if one.verdict][:_MOST_VERDICTS]:
        parts = [one.verdict, one.remark, "" if one.ban is None else str(one.ban)]
        shown = [one.proposal]
        if kind == "site" and one.choice:
            parts.append(one.loss)
            shown = [command("hosts", "list", names=[path]), one.choice]
        told = "; ".join(filter(None, parts))
        if kind == "site" and one.choice:
            told += ". Look at its hosts first; only to do without it, ban it"
        _write_told(f"{one.name}: {told}.", [text for text in shown if text])
    if kind == "site":
        for one in [one for one in places if one.remark and not one.verdict][:_MOST_VERDICTS]:
            _write_told(f"{one.name}: {one.remark}.", [])
    if kind == "host" and any(one.choice for one in places):
        told = one_line(command("sites", "list", names=[path]))
        sys.stdout.write(f"\nWhether whole sites are slow:\n  $ {told}\n")
    if apart := sorted({host for one in places for host in one.apart}):
        told = one_line(command("hosts", "list", names=[path]))
        named = one_line(some(apart))
        sys.stdout.write(f"\nNot their sites' fault, but that of hosts ({named}):\n  $ {told}\n")
    if places:
        _write_told(sample_line(places[0].sample), [])


def _write_told(text: str, commands: Sequence[str]) -> None:
    folded = render.as_text(render.paragraph("", one_line(text)))
    sys.stdout.write(f"\n{folded}" + "".join(f"  $ {one_line(text)}\n" for text in commands))
