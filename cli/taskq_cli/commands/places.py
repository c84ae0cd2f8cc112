"""What `taskq host` and `taskq site` do: compare places, and keep agents away from some."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Final

import click

from taskq import Client
from taskq.diagnosis.bans import PlaceKind
from taskq.diagnosis.judging import split_words
from taskq.diagnosis.places import Place
from taskq.diagnosis.reasons import some
from taskq.diagnosis.tables.agents import AGENTS
from taskq.diagnosis.tables.places import BANS, about_sample, columns
from taskq.model.columns import without
from taskq.model.errors import Conflict, NotFound
from taskq.model.words import command, counted
from taskq_cli.display.fleet import place_record
from taskq_cli.display.output import facts, paragraph, write_record, write_records
from taskq_cli.display.text import one_line
from taskq_cli.early_exits import confirm
from taskq_cli.invocation import Invocation
from taskq_cli.options.shared import (
    dry_run_option,
    limit_option,
    path_argument,
    reading_options,
    shared_options,
    together,
    yes_option,
)
from taskq_cli.options.values import until as parse_until

_MOST_VERDICTS: Final = 5

_MOST_AGENTS: Final = 20_000

_campaign = click.option(
    "--campaign", metavar="PATH", help="Only this campaign, with all below it. [default: all]"
)
ban_options: Final = together(
    _campaign,
    click.option(
        "--why", required=True, metavar="TEXT", help="The reason, which agents and operators see."
    ),
    click.option(
        "--until",
        type=parse_until,
        metavar="TIME|DURATION",
        help="When the ban ends: a time in UTC, or a duration, such as 90m, 12h or 7d. "
        "[default: when `unban` lifts it]",
    ),
    dry_run_option,
    yes_option,
    shared_options,
)
unban_options: Final = together(_campaign, shared_options)
list_options: Final = together(
    path_argument(default="/"),
    click.option("--banned", is_flag=True, help="List the bans instead, with their reasons."),
    limit_option,
    reading_options,
)


def ban(
    invocation: Invocation,
    kind: PlaceKind,
    names: tuple[str, ...],
    *,
    why: str,
    until: datetime | timedelta | None,
    campaign: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Ban places, or say what that would do; ask first about those that nobody has seen."""
    plural = f"{kind}s"
    with invocation.client() as client:
        there = client.agents(campaign, limit=_MOST_AGENTS)
        agents = Counter(getattr(agent, kind) for agent in there)
        if unknown := [name for name in names if name not in agents]:
            unknown = _unseen(client, kind, unknown, campaign or "/")
        from_path = campaign or "/"
        if campaign is not None:
            client.campaign(campaign)
        for_it = "" if from_path == "/" else f" for {from_path}"
        if dry_run:
            affected = counted(sum(agents[name] for name in names), "agent")
            would = f"{counted(len(names), kind)} would be banned{for_it}, with {affected}"
            new = f", {one_line(', '.join(unknown))} unknown so far" if unknown else ""
            record = {plural: list(names), "unknown": unknown, "dry_run": True}
            write_record(invocation.output, record, f"{would}{new}; nothing was changed.")
            return
        if unknown:
            named = one_line(", ".join(unknown))
            confirm(f"No agent has lately been at the {kind} {named}. Ban it?", yes=yes)
        leaving = sum(
            client.fleet.ban(kind, name, why=why, until=until, campaign=from_path) for name in names
        )
    order = f"ordered to leave{' it out' if for_it else ''}"
    text = f"{counted(len(names), kind)} banned{for_it}; {counted(leaving, 'agent')} {order}."
    write_record(invocation.output, {plural: list(names), "agents": leaving}, text)


def unban(
    invocation: Invocation, kind: PlaceKind, names: tuple[str, ...], campaign: str | None
) -> None:
    """Lift bans; fail if none of the places is banned."""
    with invocation.client() as client:
        lifted = [name for name in names if client.fleet.unban(kind, name, campaign=campaign)]
    if not lifted:
        named = one_line(", ".join(names))
        raise Conflict(f"no such {kind} is banned: {named}; see `taskq {kind} list --banned`")
    text = f"{counted(len(lifted), kind)} no longer banned: agents that start there are let in."
    write_record(invocation.output, {f"{kind}s": lifted}, text)


def _places(client: Client, kind: PlaceKind, path: str) -> list[Place]:
    return client.fleet.hosts(path) if kind == "host" else client.fleet.sites(path)


def _unseen(client: Client, kind: PlaceKind, names: Sequence[str], path: str) -> list[str]:
    """Return the names of places where no agent works, and where none lately made an attempt."""
    seen = {place.name for place in _places(client, kind, path)}
    seen |= {ban.name for ban in client.fleet.bans() if ban.kind == kind}
    return [name for name in names if name not in seen]


def show(invocation: Invocation, kind: PlaceKind, name: str, path: str) -> None:
    """Write one place with its agents."""
    with invocation.reader() as client:
        client.campaign(path)
        places = _places(client, kind, path)
        agents = client.agents(path, limit=_MOST_AGENTS)
    found = [place for place in places if place.name == name]
    if not found:
        close = get_close_matches(name, [place.name for place in places], n=1)
        meant = f"did you mean {close[0]}?" if close else f"`taskq {kind}` shows what there is"
        raise NotFound(f"no {kind} {name} has served {path} lately; {meant}")
    here = [agent for agent in agents if getattr(agent, kind) == name]
    record = place_record(found[0])
    if invocation.output != "table":
        write_record(invocation.output, record | {"sessions": here}, "")
        return
    its = {column.title: column.full_text(found[0]) for column in columns(kind)}
    write_record("table", record, facts(its | {"ban": found[0].ban and found[0].ban.about}))
    _write_verdicts(kind, path, found)
    if here:
        click.echo()
        write_records("table", here, without(AGENTS, kind))


def compare(
    invocation: Invocation, kind: PlaceKind, *, path: str, banned: bool, limit: int | None
) -> None:
    """Write the places that serve a campaign, the worst first; or the bans."""
    with invocation.reader() as client:
        if banned:
            bans = [ban for ban in client.fleet.bans() if ban.kind == kind]
            write_records(invocation.output, bans, BANS)
            return
        client.campaign(path)
        places = _places(client, kind, path)
    write_records(invocation.output, places, columns(kind), limit=limit, record=place_record)
    if invocation.output == "table":
        _write_verdicts(kind, path, places)


def _write_verdicts(kind: PlaceKind, path: str, places: Sequence[Place]) -> None:
    """Write below the table what is clearly wrong, and what to do or to look at next."""
    for place in [place for place in places if place.verdict][:_MOST_VERDICTS]:
        parts = [place.verdict, place.remark, "" if place.ban is None else str(place.ban)]
        shown = [place.proposal]
        if kind == "site" and place.choice:
            parts.append(place.loss)
            shown = [command("host", "list", names=[path]), place.choice]
        text = "; ".join(filter(None, parts))
        if kind == "site" and place.choice:
            text += ". Look at its hosts first; ban it only if you can do without it"
        sys.stdout.write(f"\n{paragraph(f'{place.name}: {text}.', filter(None, shown))}")
    if split := next((place.split for place in places if place.split), 0):
        sys.stdout.write(f"\n{paragraph(f'Ban none of them yet: {split_words(split)}.')}")
    if kind == "site":
        for place in [place for place in places if place.remark and not place.verdict][
            :_MOST_VERDICTS
        ]:
            sys.stdout.write(f"\n{paragraph(f'{place.name}: {place.remark}.')}")
    if kind == "host" and any(place.choice for place in places):
        look = command("site", "list", names=[path])
        sys.stdout.write(f"\n{paragraph('Whether whole sites are slow:', [look])}")
    if apart := sorted({host for place in places for host in place.apart}):
        look = command("host", "list", names=[path])
        text = f"Not their sites' fault, but that of hosts ({some(apart)}):"
        sys.stdout.write(f"\n{paragraph(text, [look])}")
    if places:
        sys.stdout.write(f"\n{paragraph(about_sample(places[0].sample))}")
