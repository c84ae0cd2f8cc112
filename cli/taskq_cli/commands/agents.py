"""`taskq agent`: list open sessions and those that left, and drain agents."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import click

from taskq.diagnosis.reasons import some
from taskq.diagnosis.tables.agents import AGENTS, LEFT_AGENTS, about_brake, marks
from taskq.model.errors import UsageError
from taskq.model.seed import is_within
from taskq.model.views import AgentView
from taskq.model.words import counted
from taskq_cli.display.fleet import MAX_LEFT_AGENTS, summarize_left_agents
from taskq_cli.display.output import TABLE_ROWS, paragraph, write_record, write_records
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

MAX_AGENTS = 1_000_000
MAX_REASONS = 10


def explain_none_drained(
    agents: Sequence[AgentView], path: str, wanted: Mapping[str, Sequence[str]]
) -> str:
    """Return a sentence that says why no agent got the order to drain.

    agents: open sessions that serve the path, or a campaign below or above it. wanted: the values
    that were asked for, by `site`, `name` and `host`; an empty sequence means any value.
    """
    here = [agent for agent in agents if is_within(agent.path, path)]
    if not here:
        if not agents:
            return f"No agent that serves {path} is at work; see `taskq agent list`."
        above = counted(len(agents), "agent")
        return f"No agent serves only {path} or campaigns below it; {above} of campaigns above may."
    for what, names in wanted.items():
        there = Counter(getattr(agent, _FIELDS[what]) for agent in here)
        if names and not set(names) & set(there):
            none = f"No agent of {path} has this {what}"
            return f"{none}; its agents have: {most_common(there, SHOWN)}."
    matching = here
    for what, names in wanted.items():
        if names:
            matching = [agent for agent in matching if getattr(agent, _FIELDS[what]) in names]
    if not matching:
        return f"No agent of {path} matches all options; see `taskq agent list {path}`."
    have = "has" if len(matching) == 1 else "have"
    return f"{counted(len(matching), 'agent')} already {have} the order."


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
    AHEAD: tasks that it has fetched in addition to those in its slots. BEGUN: of the tasks that
    it starts together, those that have begun and have no outcome yet. IN USE: the devices, with the
    part of each, and the named resources of each slot, as its last heartbeat said. If so many
    agents are silent that the queue holds their tasks, a line says until when. Another line says
    how many agents left within the last hour, and why; --left lists them.

    Example:
      taskq agent list /demo
    """
    most = limit or (TABLE_ROWS if invocation.output == "table" else MAX_AGENTS - 1)
    with invocation.reader() as client:
        departed = client.left_agents(path, limit=most + 1 if left else MAX_LEFT_AGENTS)
        found = [] if left else client.agents(path, limit=most + 1)
        brake = client.brake()
    if left:
        write_records(invocation.output, departed, LEFT_AGENTS, limit=limit)
        return
    if brake is not None and invocation.output == "table":
        click.echo(about_brake(brake))
    write_records(invocation.output, found, AGENTS, limit=limit)
    if invocation.output == "table":
        _write_reasons(found[:most])
    if departed and invocation.output == "table":
        click.echo(summarize_left_agents(departed))


def _write_reasons(agents: Sequence[AgentView]) -> None:
    """Write below the table the reasons for the states of agents, each reason once."""
    whom: dict[str, list[str]] = {}
    for agent in agents:
        for mark in marks(agent):
            if mark.why:
                whom.setdefault(str(mark), []).append(agent.agent)
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
