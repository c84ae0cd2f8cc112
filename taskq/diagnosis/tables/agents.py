"""Agents at work and agents that left: columns, and what is wrong with each in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from taskq.model.columns import Column, Mark
from taskq.model.requirements import named_offers
from taskq.model.shares import shares_text
from taskq.model.views import AgentView, Brake, LeftAgent
from taskq.model.words import counted, duration, instant
from taskq_agent.warning_words import (
    CLOCK_OFF,
    DISK_FULL,
    EXCHANGES_FAIL,
    REPORTS_WITHHELD,
    SCRATCH_UNUSABLE,
    SPOOL_UNUSABLE,
    TRANSFERS_FAIL,
)

#: What agents warn of, and what to do.
WARNINGS: Final = {
    SPOOL_UNUSABLE: (
        "the spool cannot be written, so reports are in memory only and end with the agent",
        "make room in the folder of --spool, or start the agent with another",
    ),
    DISK_FULL: (
        "the scratch disk is nearly full",
        "make room there, or start the agent with another --scratch",
    ),
    SCRATCH_UNUSABLE: (
        "the folder of --scratch cannot be used, so tasks work in another one, such as /tmp",
        "look whether the folder is there and can be written, or name another one",
    ),
    CLOCK_OFF: (
        "the clock is off by more than a minute",
        "set it, such as by NTP",
    ),
    EXCHANGES_FAIL: (
        "heartbeats come through and exchanges do not: finished and claimed tasks wait there",
        "begin with that cause; without one look at its log: a proxy may cut long answers",
    ),
    TRANSFERS_FAIL: (
        "inputs or large results are not transferred, and their slots try again",
        "look at an agent's log, and at the disk of the gateway's store: it may be full",
    ),
    REPORTS_WITHHELD: (
        "heartbeats come through and some reports do not, so that finished work waits there",
        "change what stands before the gateways: it limits bodies, or filters what they hold",
    ),
}
#: The warnings whose cause agents tell.
WITH_CAUSE: Final = frozenset({EXCHANGES_FAIL, REPORTS_WITHHELD, TRANSFERS_FAIL})


def is_late(agent: AgentView) -> bool:
    """Return whether an agent has missed two heartbeats, which a live one does not."""
    return agent.silent_s > agent.lease_s / 2


def marks(agent: AgentView) -> Iterator[Mark]:
    """Yield what keeps an agent from full work, or what it warns of."""
    if agent.banned:
        yield Mark("banned", agent.banned)
    elif agent.draining:
        yield Mark("draining")
    trouble = agent.trouble
    if agent.suspect or trouble is not None:
        why = agent.suspect
        if trouble is not None and not why:
            last = trouble["error_class"] or "without a class"
            why = f"{counted(trouble['failures'], 'failure')} in a row, last {last}"
        short = "" if trouble is None else f"slowed, {_next_try(agent)}"
        yield Mark("slowed", why or "", short)
    yield from warnings(agent.warnings, agent.cause)
    if is_late(agent):
        yield Mark("late")


def warnings(words: Iterable[str], cause: str = "") -> Iterator[Mark]:
    """Yield what agents warn of. words: see `taskq_agent.protocol`; unknown ones get no reason.

    cause: of the warnings in `WITH_CAUSE`, as an agent says.
    """
    for word in words:
        text, remedy = WARNINGS.get(word, ("", ""))
        if cause and word in WITH_CAUSE:
            text += f" ({cause})"
        yield Mark("warns", f"{text}; {remedy}" if text else word, f"warns: {word}")


def _together(agent: AgentView) -> int:
    """Return how many of its tasks share starts; some may have ended since its last heartbeat."""
    return min(agent.together, agent.working)


def _alone_in_slots(agent: AgentView) -> int:
    return min(agent.working - _together(agent), agent.slots)


def _begun(agent: AgentView) -> str:
    """Return how many of those tasks that share starts have begun, such as `12 of 500`."""
    together = _together(agent)
    if agent.begun is None or not together:
        return ""
    return f"{min(agent.begun, together):,} of {together:,}"


def _next_try(agent: AgentView) -> str:
    """Return when a slowed agent tries again, in words."""
    left_s = (agent.trouble or {})["try_in_s"] - agent.silent_s
    return f"next try in {duration(left_s)}" if left_s > 0 else "trying"


AGENTS: Final[tuple[Column[AgentView], ...]] = (
    Column("agent"),
    Column("host"),
    Column("site"),
    Column("pid", yields=2),
    Column("slots", kind="count"),
    Column(
        "working",
        lambda agent: _together(agent) + _alone_in_slots(agent),
        "count",
        "Tasks in its slots, and those that it holds to start them together.",
    ),
    Column(
        "begun",
        _begun,
        means="Of those tasks, how many have begun and have no outcome yet, if its programs say.",
    ),
    Column(
        "ahead",
        lambda agent: agent.working - _together(agent) - _alone_in_slots(agent) or None,
        "count",
        "Tasks that it has fetched in addition to those in its slots.",
    ),
    Column("silent", lambda agent: agent.silent_s, "seconds", "Time since its last heartbeat."),
    Column("state", marks, "marks", is_bad=lambda agent: any(marks(agent))),
    Column(
        "lost at",
        lambda agent: agent.expires_at if is_late(agent) else None,
        means="When its tasks go to other agents if no heartbeat comes.",
        yields=1,
    ),
    Column("campaign", lambda agent: agent.path, means="What it serves, with all below."),
    Column("since", lambda agent: agent.opened_at, yields=1),
    Column("token", gives_way=True, yields=1),
    Column(
        "resources",
        lambda agent: named_offers(agent.offers),
        means="The named resources of its node.",
        gives_way=True,
        yields=1,
    ),
    Column(
        "in use",
        lambda agent: shares_text(agent.shares, agent.path),
        means="Devices, parts of them and named resources by slot, as its last heartbeat said.",
        gives_way=True,
        yields=1,
    ),
    Column("offers", lambda agent: " ".join(agent.offers), gives_way=True, yields=1),
    Column("release", gives_way=True, yields=1),
)


def why_left(agent: LeftAgent) -> str:
    """Return why an agent left, in words."""
    if agent.expired:
        return agent.reason or "lost: it was silent for longer than its lease"
    return agent.reason or "it did not say why"


LEFT_AGENTS: Final[tuple[Column[LeftAgent], ...]] = (
    Column("agent"),
    Column("host"),
    Column("site"),
    Column("pid", yields=2),
    Column("left", lambda agent: agent.ended_at),
    Column("exit code", lambda agent: agent.exit_code),
    Column("reason", why_left, gives_way=True),
    Column("campaign", lambda agent: agent.path, means="What it served, with all below."),
    Column("release", gives_way=True, yields=1),
)


def about_brake(brake: Brake) -> str:
    """Return a sentence: how many silent agents' tasks are held, and for how long."""
    until = f"until {instant(brake.until)}" if brake.until else "until one sends a heartbeat"
    return (
        f"{brake.extent} silent since {instant(brake.since)}, "
        f"which looks like an outage: their tasks are held {until}; "
        "`taskq recover` hands them out now."
    )
