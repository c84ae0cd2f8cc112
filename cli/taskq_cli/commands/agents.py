"""`taskq agent`: list open sessions and those that left, and drain agents."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import click

from taskq.diagnosis.lost import WARNINGS
from taskq.diagnosis.reasons import some
from taskq.model.errors import UsageError
from taskq.model.seed import is_within
from taskq.model.views import AgentView, Brake
from taskq.model.words import counted, duration, instant
from taskq_cli.display.fleet import MAX_LEFT_AGENTS, is_late, summarize_left_agents
from taskq_cli.display.output import (
    TABLE_ROWS,
    Column,
    Record,
    as_record,
    paragraph,
    write_record,
    write_records,
)
from taskq_cli.display.text import most_common
from taskq_cli.early_exits import confirm
from taskq_cli.invocation import Invocation
from taskq_cli.options.shared import (
    campaign_option,
    dry_run_option,
    limit_option,
    path_argument,
    reading_options,
    shared_options,
    yes_option,
)
from taskq_cli.program import ListGroup

SHOWN: Final = 5

#: The fields of an agent by the options that choose agents.
_FIELDS: Final = {"site": "site", "name": "agent", "host": "host"}


def explain_none_drained(
    agents: Sequence[AgentView], path: str, wanted: Mapping[str, Sequence[str]]
) -> str:
    """Return a sentence that says why no agent got the order to drain.

    agents: open sessions that serve the path, or a campaign below or above it. wanted: the values
    that were asked for, by `site`, `name` and `host`; an empty sequence means any value.
    """
    here = [one for one in agents if is_within(one.path, path)]
    if not here:
        if not agents:
            return f"No agent that serves {path} is at work; see `taskq agent list`."
        above = counted(len(agents), "agent")
        return f"No agent serves only {path} or campaigns below it; {above} of campaigns above may."
    for what, names in wanted.items():
        there = Counter(getattr(one, _FIELDS[what]) for one in here)
        if names and not set(names) & set(there):
            none = f"No agent of {path} has this {what}"
            return f"{none}; its agents have: {most_common(there, SHOWN)}."
    matching = here
    for what, names in wanted.items():
        if names:
            matching = [one for one in matching if getattr(one, _FIELDS[what]) in names]
    if not matching:
        return f"No agent of {path} matches all options; see `taskq agent list {path}`."
    have = "has" if len(matching) == 1 else "have"
    return f"{counted(len(matching), 'agent')} already {have} the order."


MAX_AGENTS = 1_000_000
MAX_REASONS = 10


@click.group("agent", cls=ListGroup)
def agents() -> None:
    """Run agents on this machine; list and drain those of the queue.

    `list` is the default sub-command.

    Example:
      taskq agent run --campaign /demo --slots 2
    """


@agents.command("list")
@path_argument(default="/")
@click.option(
    "--left", is_flag=True, help="List the agents that left within the last hour, and why."
)
@limit_option
@reading_options
def list_(invocation: Invocation, *, path: str, left: bool, limit: int | None) -> None:
    """List the agents that are at work.

    Lists agents that serve PATH or a campaign above or below it, the longest silent first. An agent
    is late after two missed heartbeats, and lost when its lease expires. It is slowed if all tasks
    on its node fail at once, or more than on other nodes; the reasons are below the table.
    AHEAD: tasks that it has fetched in addition to those in its slots. If so many agents are
    silent that the queue holds their tasks, a line says until when. Another line says how many
    agents left within the last hour, and why; --left lists them.

    Example:
      taskq agent list /demo
    """
    most = limit or (TABLE_ROWS if invocation.output == "table" else MAX_AGENTS - 1)
    with invocation.reader() as client:
        departed = client.left_agents(path, limit=most + 1 if left else MAX_LEFT_AGENTS)
        found = [] if left else client.agents(path, limit=most + 1)
        brake = client.brake()
    if left:
        write_records(invocation.output, map(as_record, departed), _LEFT_COLUMNS, limit=limit)
        return
    if brake is not None and invocation.output == "table":
        click.echo(held(brake))
    columns = [
        Column("agent"),
        Column("host"),
        Column("site"),
        Column("pid", yields=2),
        Column("slots"),
        Column("working", lambda one: min(one["working"], one["slots"])),
        Column("ahead", lambda one: max(one["working"] - one["slots"], 0) or None),
        Column("draining", _draining),
        Column("silent", _silent),
        Column("trouble", _trouble),
        Column("campaign", lambda one: one["path"]),
        Column("since", lambda one: one["opened_at"], yields=1),
        Column("token", gives_way=True, yields=1),
        Column("offers", lambda one: " ".join(one["offers"]), gives_way=True, yields=1),
        Column("release", gives_way=True, yields=1),
    ]
    write_records(invocation.output, map(as_record, found), columns, limit=limit)
    if invocation.output == "table":
        _write_troubles([as_record(one) for one in found[:most]])
    if departed and invocation.output == "table":
        click.echo(summarize_left_agents(departed))


_LEFT_COLUMNS = [
    Column("agent"),
    Column("host"),
    Column("site"),
    Column("pid"),
    Column("left", lambda one: one["ended_at"]),
    Column("exit code", lambda one: one["exit_code"]),
    Column("reason", gives_way=True),
    Column("campaign", lambda one: one["path"]),
    Column("release", gives_way=True),
]


def _silent(agent: Record) -> str:
    late = ", late" if is_late(agent["silent_s"], agent["lease_s"]) else ""
    return f"{duration(agent['silent_s'])}{late}"


def _draining(agent: Record) -> str:
    if agent["banned"]:
        return "banned"
    return "yes" if agent["draining"] else ""


def _trouble(agent: Record) -> str:
    """Return what is wrong, in a word; the reason is below the table."""
    trouble, words = agent["trouble"], list(agent["warnings"])
    if trouble is not None:
        left_s = trouble["try_in_s"] - agent["silent_s"]
        state = f"next try in {duration(left_s)}" if left_s > 0 else "trying"
        words.insert(0, f"slowed, {state}")
    elif agent["suspect"]:
        words.insert(0, "slowed")
    return ", ".join(words)


def _why(agent: Record) -> Iterator[str]:
    """Yield why an agent is slowed, what it warns of, and why it drains, each as a sentence."""
    trouble, suspect = agent["trouble"], agent["suspect"]
    if suspect:
        yield f"slowed: {suspect}"
    elif trouble is not None:
        last = trouble["error_class"] or "without a class"
        yield f"slowed: {counted(trouble['failures'], 'failure')} in a row, last {last}"
    for text, remedy in (WARNINGS[word] for word in agent["warnings"] if word in WARNINGS):
        yield f"warns: {text}; {remedy}"
    if agent["banned"]:
        yield f"draining: {agent['banned']}"


def _write_troubles(agents: Sequence[Record]) -> None:
    """Write below the table why agents are slowed or drain, each reason once."""
    whom: dict[str, list[str]] = {}
    for agent in agents:
        for why in _why(agent):
            whom.setdefault(why, []).append(agent["agent"])
    for why, names in [*whom.items()][:MAX_REASONS]:
        sys.stdout.write(f"\n{paragraph(f'{some(names)} {why}.')}")
    if (more := len(whom) - MAX_REASONS) > 0:
        click.echo(f"\nand {counted(more, 'reason')} more; --output jsonl has them.")


@agents.command()
@click.option(
    "--site",
    multiple=True,
    metavar="SITE",
    help="Only agents of this site; an agent without --site has its token's site. May be repeated.",
)
@click.option("--name", multiple=True, metavar="NAME", help="Only this name. May be repeated.")
@click.option(
    "--host",
    multiple=True,
    metavar="HOST",
    help="Only agents on this machine, as `taskq agent list` names it. May be repeated.",
)
@campaign_option("path", help="Only agents that serve this campaign or one below it.")
@dry_run_option
@yes_option
@shared_options
def drain(
    invocation: Invocation, *, path: str | None, dry_run: bool, yes: bool, **wanted: tuple[str, ...]
) -> None:
    """Drain agents: they claim no more, finish their tasks, and exit.

    Agents get the order with the answer to their next heartbeat. Agents that start later are not
    affected: to keep a site's agents away, ban the site or revoke its token. Without --site, --name
    and --host, the command asks first.

    Examples:
      taskq agent drain --site cluster-b
      taskq agent drain --host node07 --host node08
    """
    if path is None and not any(wanted.values()):
        raise UsageError(
            "say which agents should leave: give --site, --name, --host or --campaign; "
            "--campaign / means all"
        )
    path = path or "/"
    with invocation.client() as client:
        named: dict[str, Any] = {what: names for what, names in wanted.items() if names}
        drain_agents = partial(client.drain_agents, path, **named)
        if not (dry_run or yes or named) and (all_of_them := drain_agents(dry_run=True)):
            confirm(f"Drain {counted(all_of_them, 'agent')} of {path} and all below it?", yes=yes)
        drained = drain_agents(dry_run=dry_run)
        found = [] if drained else client.agents(path, limit=MAX_AGENTS)
    text = f"{counted(drained, 'agent')} {'would be ' if dry_run else ''}ordered to leave."
    write_record(invocation.output, {"agents": drained, "dry_run": dry_run}, text)
    if not drained:
        click.echo(explain_none_drained(found, path, wanted), err=True)


def held(brake: Brake) -> str:
    """Return a sentence: how many silent agents' tasks are held, and for how long."""
    until = f"until {instant(brake.until)}" if brake.until else "until one sends a heartbeat"
    return (
        f"{brake.silent:,} of {counted(brake.open, 'agent')} silent since {instant(brake.since)}, "
        f"which looks like an outage: their tasks are held {until}; "
        "`taskq recover` hands them out now."
    )
