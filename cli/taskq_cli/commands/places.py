"""`taskq host` and `taskq site`: compare them, and keep agents away from some."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, Final

import click

from taskq import Client
from taskq.diagnosis.bans import PlaceKind
from taskq.diagnosis.places import Place
from taskq.diagnosis.reasons import some
from taskq.model.errors import Conflict, NotFound
from taskq.model.words import command, counted, duration
from taskq_cli.display.fleet import place_columns, place_record, sample_line
from taskq_cli.display.output import (
    Column,
    as_record,
    facts,
    paragraph,
    write_record,
    write_records,
)
from taskq_cli.display.text import one_line
from taskq_cli.early_exits import confirm
from taskq_cli.invocation import Invocation
from taskq_cli.options.shared import (
    dry_run_option,
    limit_option,
    path_argument,
    reading_options,
    shared_options,
    yes_option,
)
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


_why: Final = click.option(
    "--why", required=True, metavar="TEXT", help="The reason, which agents and operators see."
)
_until: Final = click.option(
    "--until",
    type=parse_until,
    metavar="TIME|DURATION",
    help="When the ban ends: a time in UTC, or a duration, such as 90m, 12h or 7d. "
    "[default: when `unban` lifts it]",
)
_banned: Final = click.option(
    "--banned", is_flag=True, help="List the bans instead, with their reasons."
)
#: Words of the help that differ between the kinds of places.
_HELP: Final[Mapping[PlaceKind, Mapping[str, str]]] = {
    "host": {
        "others": "on other hosts",
        "further": "the command that keeps agents away from hosts where too much fails",
        "named": "HOST is what `taskq host` shows.",
        "ban": 'n17 --why "its scratch disk is full" --until 12h',
        "one": "n17",
    },
    "site": {
        "others": "at other sites",
        "further": "what you lose by a ban",
        "named": "SITE is what `taskq site` shows. An agent can name "
        "another site: to keep somebody out, revoke the token.",
        "ban": 'cluster-b --why "the file system is being moved" --until 2026-12-01T08:00Z',
        "one": "cluster-b",
    },
}


def _group(kind: PlaceKind) -> click.Group:
    """Return `taskq host` or `taskq site`."""
    plural, title, say = f"{kind}s", kind.upper(), _HELP[kind]
    names = click.argument("names", metavar=f"{title}...", nargs=-1, required=True)

    @click.group(
        kind,
        cls=ListGroup,
        help=f"""Compare {plural} with each other, and ban bad ones.

        `list` is the default sub-command.

        Example:
          taskq {kind} list /demo
        """,
    )
    def group() -> None:
        pass

    @group.command(
        help=f"""Keep agents away from {plural}.

        Agents there get the order to leave with the answer to their next heartbeat: they claim no
        more, finish their tasks, and exit. Agents that start there are refused, with the reason,
        until the ban ends. {say["named"]} The command asks first if no agent has lately been there.

        Example:
          taskq {kind} ban {say["ban"]}
        """
    )
    @names
    @_why
    @_until
    @dry_run_option
    @yes_option
    @shared_options
    def ban(
        invocation: Invocation,
        names: tuple[str, ...],
        *,
        why: str,
        until: datetime | timedelta | None,
        dry_run: bool,
        yes: bool,
    ) -> None:
        with invocation.client() as client:
            agents = Counter(getattr(one, kind) for one in client.agents("/", limit=_MOST_AGENTS))
            if unknown := [name for name in names if name not in agents]:
                unknown = _unseen(client, kind, unknown)
            if dry_run:
                there = counted(sum(agents[name] for name in names), "agent")
                would = f"{counted(len(names), kind)} would be banned, with {there}"
                new = f", {one_line(', '.join(unknown))} unknown so far" if unknown else ""
                record = {plural: list(names), "unknown": unknown, "dry_run": True}
                write_record(invocation.output, record, f"{would}{new}; nothing was changed.")
                return
            if unknown:
                named = one_line(", ".join(unknown))
                confirm(f"No agent has lately been at the {kind} {named}. Ban it?", yes=yes)
            leaving = sum(client.fleet.ban(kind, name, why=why, until=until) for name in names)
        text = f"{counted(len(names), kind)} banned; {counted(leaving, 'agent')} ordered to leave."
        write_record(invocation.output, {plural: list(names), "agents": leaving}, text)

    @group.command(
        help=f"""Lift the bans of {plural}: agents may start there again.

        Agents that were ordered to leave still leave.

        Example:
          taskq {kind} unban {say["one"]}
        """
    )
    @names
    @shared_options
    def unban(invocation: Invocation, names: tuple[str, ...]) -> None:
        with invocation.client() as client:
            lifted = [name for name in names if client.fleet.unban(kind, name)]
        if not lifted:
            named = one_line(", ".join(names))
            raise Conflict(f"no such {kind} is banned: {named}; see `taskq {kind} list --banned`")
        text = f"{counted(len(lifted), kind)} no longer banned: agents that start there are let in."
        write_record(invocation.output, {plural: lifted}, text)

    @group.command(
        "list",
        help=f"""Compare the {plural} whose agents serve a campaign.

        Takes a sample of the latest attempts of PATH and all below it, at most 10,000. FAILED is
        the share that failed, were lost or were refused there, ELSEWHERE the share {say["others"]}
        in the same campaigns; RUN the typical run time, TIMES how many times as long as elsewhere;
        USE the share of the slots' time in which a payload ran. The {plural} where clearly more
        fails come first, then slow ones, and banned ones last. Below the table are the verdicts,
        with {say["further"]}, and the size of the sample.

        Example:
          taskq {kind} list /demo
        """,
    )
    @path_argument(default="/")
    @_banned
    @limit_option
    @reading_options
    def list_(invocation: Invocation, **what: Any) -> None:
        _list(invocation, kind, **what)

    @group.command(
        help=f"""Show a single {kind} with its agents.

        Shows the line of {title} in `taskq {kind} list PATH`, what is clearly wrong with it, a
        ban with its end and who made it, and its agents.

        Example:
          taskq {kind} show {say["one"]}
        """
    )
    @click.argument("name", metavar=title)
    @path_argument(default="/")
    @reading_options
    def show(invocation: Invocation, *, name: str, path: str) -> None:
        _show(invocation, kind, name, path)

    return group


def _places(client: Client, kind: PlaceKind, path: str) -> list[Place]:
    return client.fleet.hosts(path) if kind == "host" else client.fleet.sites(path)


def _unseen(client: Client, kind: PlaceKind, names: Sequence[str]) -> list[str]:
    """Return the names of places where no agent works, and where none lately made an attempt."""
    seen = {one.name for one in _places(client, kind, "/")}
    seen |= {one.name for one in client.fleet.bans() if one.kind == kind}
    return [name for name in names if name not in seen]


def _show(invocation: Invocation, kind: PlaceKind, name: str, path: str) -> None:
    with invocation.reader() as client:
        client.campaign(path)
        places = _places(client, kind, path)
        agents = [as_record(one) for one in client.agents(path, limit=_MOST_AGENTS)]
    found = [one for one in places if one.name == name]
    if not found:
        close = get_close_matches(name, [one.name for one in places], n=1)
        meant = f"did you mean {close[0]}?" if close else f"`taskq {kind}` shows what there is"
        raise NotFound(f"no {kind} {name} has served {path} lately; {meant}")
    here = [one for one in agents if one[kind] == name]
    record = place_record(found[0])
    if invocation.output != "table":
        write_record(invocation.output, record | {"sessions": here}, "")
        return
    texts = {one.title: one.text(record) for one in place_columns(kind)}
    if (ban := found[0].ban) is not None:
        texts["state"] = ban.about
    write_record("table", record, facts(texts))
    _write_verdicts(kind, path, found)
    if here:
        click.echo()
        write_records("table", here, _AGENTS)


def _list(
    invocation: Invocation, kind: PlaceKind, *, path: str, banned: bool, limit: int | None
) -> None:
    with invocation.reader() as client:
        if banned:
            bans = (as_record(one) for one in client.fleet.bans() if one.kind == kind)
            write_records(invocation.output, bans, _BANNED)
            return
        client.campaign(path)
        places = _places(client, kind, path)
    write_records(invocation.output, map(place_record, places), place_columns(kind), limit=limit)
    if invocation.output == "table":
        _write_verdicts(kind, path, places)


def _write_verdicts(kind: PlaceKind, path: str, places: Sequence[Place]) -> None:
    """Write below the table what is clearly wrong, and what to do or to look at next."""
    for one in [one for one in places if one.verdict][:_MOST_VERDICTS]:
        parts = [one.verdict, one.remark, "" if one.ban is None else str(one.ban)]
        shown = [one.proposal]
        if kind == "site" and one.choice:
            parts.append(one.loss)
            shown = [command("host", "list", names=[path]), one.choice]
        text = "; ".join(filter(None, parts))
        if kind == "site" and one.choice:
            text += ". Look at its hosts first; ban it only if you can do without it"
        sys.stdout.write(f"\n{paragraph(f'{one.name}: {text}.', filter(None, shown))}")
    if kind == "site":
        for one in [one for one in places if one.remark and not one.verdict][:_MOST_VERDICTS]:
            sys.stdout.write(f"\n{paragraph(f'{one.name}: {one.remark}.')}")
    if kind == "host" and any(one.choice for one in places):
        look = command("site", "list", names=[path])
        sys.stdout.write(f"\n{paragraph('Whether whole sites are slow:', [look])}")
    if apart := sorted({host for one in places for host in one.apart}):
        look = command("host", "list", names=[path])
        text = f"Not their sites' fault, but that of hosts ({some(apart)}):"
        sys.stdout.write(f"\n{paragraph(text, [look])}")
    if places:
        sys.stdout.write(f"\n{paragraph(sample_line(places[0].sample))}")


hosts: Final = _group("host")
sites: Final = _group("site")
