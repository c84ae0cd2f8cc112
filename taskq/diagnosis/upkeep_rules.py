"""Reasons that concern the whole queue: nobody does the upkeep, or agents are silent."""

from __future__ import annotations

from collections.abc import Iterator

from taskq.diagnosis.facts import Facts
from taskq.diagnosis.reasons import Reason, some, verb
from taskq.model.views import Brake
from taskq.model.words import command, counted, duration, instant


def upkeep(facts: Facts) -> Iterator[Reason]:
    """Yield why delayed tasks, and those of lost agents, do not come back."""
    yield from _keeper(facts)
    if facts.brake is None:
        yield from _silent_holders(facts)
    elif any(kind.silent for kind in facts.agents):
        yield _brake(facts, facts.brake)


def _keeper(facts: Facts) -> Iterator[Reason]:
    """Say that nobody does the upkeep, if tasks wait for it."""
    status, since = facts.status, facts.upkeep.keeper_until
    silent = any(kind.silent for kind in facts.agents)
    needed = status.delayed or status.working or silent
    if not needed or (since and since >= facts.upkeep.now):
        return
    at = f" since {instant(since)}" if since else ""
    yield Reason(
        "no-keeper",
        f"Nobody has done the upkeep{at}: delayed tasks stay delayed, and those of lost agents "
        "stay with them. Agents with a connection of their own, gateways and keepers do it.",
        tasks=status.delayed + status.working,
        blocks=not status.waiting,
        commands=[command("keeper")],
        figures={"since": since},
    )


def _brake(facts: Facts, brake: Brake) -> Reason:
    until = f"until {instant(brake.until)}" if brake.until else "until one of them is heard"
    return Reason(
        "brake",
        f"{brake.silent:,} of {counted(brake.open, 'agent')} "
        f"{verb(brake.silent, 'is', 'are')} silent since {instant(brake.since)}. So many at a time "
        f"mean an outage of the network or of ours: what they have is held {until}.",
        tasks=facts.status.working,
        blocks=not facts.status.waiting,
        commands=[command("agents", "list", facts.status.path), command("recover", "--dry-run")],
        figures={"silent": brake.silent, "agents": brake.open, "until": brake.until},
    )


def _silent_holders(facts: Facts) -> Iterator[Reason]:
    """Say until when silent agents keep their tasks."""
    if not facts.silent or not facts.status.working:
        return
    held = sum(one.working for one in facts.silent)
    agents = len(facts.silent)
    until = max(one.expires_at for one in facts.silent)
    longest = max(one.silent_s for one in facts.silent)
    places = some(dict.fromkeys(one.host or "an unnamed host" for one in facts.silent))
    yield Reason(
        "held-by-silent",
        f"{counted(held, 'task')} {verb(held, 'is', 'are')} held by {counted(agents, 'agent')} "
        f"({places}) that {verb(agents, 'has', 'have')} been silent for up to {duration(longest)}: "
        f"handed out again at {instant(until)}, unless "
        f"{verb(agents, 'it is', 'they are')} heard before.",
        tasks=held,
        blocks=not facts.status.waiting,
        commands=[command("agents", "list", facts.status.path), command("recover", "--dry-run")],
        figures={"agents": agents, "silent_s": longest, "until": until},
    )
