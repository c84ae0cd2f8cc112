"""Rules that turn the facts about a campaign into reasons; pure functions of the facts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from taskq.db.checks.upkeep import without_keeper
from taskq.diagnosis import costs
from taskq.diagnosis.blockers import (
    SET_BACK,
    server_blocked,
    stands_still,
    stood_still,
    was_set_back,
)
from taskq.diagnosis.by_hand import cancelled, moved
from taskq.diagnosis.facts import CampaignFacts, Facts
from taskq.diagnosis.faults import (
    blamed,
    ended_in,
    fault_clauses,
    faults,
    histories,
    repairs,
    usual_run_s,
    verdicts_on_failed,
    without_verdict,
)
from taskq.diagnosis.lately import failing, slower
from taskq.diagnosis.lost import ending, lost, warned
from taskq.diagnosis.maintenance import announced
from taskq.diagnosis.obstacles import closed, obstacles
from taskq.diagnosis.partial_bans import left_out
from taskq.diagnosis.reasons import Explanation, Reason, causes_first, some, verb, waits
from taskq.diagnosis.removals import removals, soon_removed
from taskq.diagnosis.speed import held_elsewhere, idle_slots, smaller_batches, speed
from taskq.diagnosis.unjudged import unjudged, with_windows
from taskq.diagnosis.wrong_results import odd_results
from taskq.model.seed import FINAL
from taskq.model.views import Brake
from taskq.model.words import command, counted, duration, instant

_CERTIFICATE_SOON: Final = timedelta(days=14)
_LONG_S: Final = 60.0
"""Seconds of a delay that are long in any case, if runs are shorter."""


def explain_campaign(facts: Facts) -> Explanation:
    """Explain a campaign and all below it.

    A set-back of the database comes first, as it may be why anything else looks odd; then reasons
    that block most tasks, then broken parts that cost most, then other ways to
    make it faster. What causes another reason stands before it.
    """
    facts = unjudged(facts)
    status = facts.status
    ahead = sum(campaign.ahead for campaign in facts.campaigns) if facts.upkeep.refilled else 0
    reasons = [*was_set_back(status.path, facts.upkeep.set_back), *_ended(facts)]
    if not status.total:
        reasons += closed(facts, ())
    elif not status.unfinished:
        reasons += odd_results(facts)
    else:
        kept, served = obstacles(facts)
        reasons += kept
        reasons += server_blocked(facts.blockers)
        reasons += stood_still(facts.upkeep.stalled)
        reasons += upkeep(facts)
        reasons += _delayed(facts)
        reasons += _leased_ahead(facts, ahead)
        reasons += failing(facts)
        reasons += faults(facts)
        reasons += idle_slots(facts, served)
        reasons += left_out(facts)
        reasons += lost(facts)
        reasons += warned(facts)
        reasons += ending(facts)
        reasons += slower(facts, served)
        reasons += speed(facts, served)
        reasons += smaller_batches(facts)
        reasons += held_elsewhere(facts)
    reasons += _server(facts)
    reasons += cancelled(facts)
    reasons += moved(facts)
    reasons += removals(facts)
    reasons += announced(facts.windows)
    reasons.sort(
        key=lambda reason: (
            reason.code != SET_BACK,
            not reason.blocks,
            -reason.lost,
            -reason.tasks,
        )
    )
    return Explanation(
        path=status.path,
        key=None,
        headline=_headline(facts, ahead, reasons),
        waiting=status.waiting,
        delayed=status.delayed,
        working=status.working,
        leased_ahead=ahead,
        reasons=with_windows(facts, causes_first(status.path, reasons)),
    )


def _server(facts: Facts) -> Iterator[Reason]:
    """Say what is wrong with the server, for all campaigns."""
    for it in facts.server:
        yield Reason(
            f"server-{it.check}",
            f"{it.text} {it.remedy[:1].upper()}{it.remedy[1:]}.",
            lost=1,
            commands=[command("db", "check")],
            figures={**it.figures},
        )


def _headline(facts: Facts, ahead: int, reasons: list[Reason]) -> str:
    status = facts.status
    if not status.total:
        return "nothing has been seeded"
    if not status.unfinished:
        return "finished"
    running = status.working - ahead
    parts = [f"{running:,} {verb(running, 'runs', 'run')}" if running > 0 else "nothing runs"]
    if 0 < facts.slots < running:
        run = facts.slots
        parts = [f"{run:,} {verb(run, 'runs', 'run')}", f"{running - run:,} fetched ahead"]
    if status.waiting:
        parts.append(waits(status.waiting))
    if status.delayed:
        parts.append(f"{status.delayed:,} {verb(status.delayed, 'is', 'are')} delayed")
    if not reasons:
        parts.append("nothing is in the way")
    if facts.forecast.span is not None:  # else the reasons say why nothing ends
        parts.append(f"ETA {facts.forecast.text()}")
    return ", ".join(parts)


def _ended(facts: Facts) -> Iterator[Reason]:
    """Say what to do if no task is left."""
    status = facts.status
    path = status.path
    if not status.total:
        yield Reason(
            "nothing-seeded",
            f"{path} has no tasks, and no campaign below it has any.",
            blocks=True,
            commands=[command("seed", path, "FILE"), command("tree", path)],
        )
    elif not status.unfinished:
        number = status.total
        text = f"{counted(number, 'task')} {verb(number, 'has', 'have')} ended: "
        text += f"{status.done:,} done, {status.failed:,} failed{ended_in(facts)}, "
        text += f"{status.cancelled:,} cancelled."
        commands = []
        if status.failed:
            verdicts = verdicts_on_failed(facts)
            clauses = fault_clauses(facts, verdicts)
            text += (
                f" {clauses if verdicts else clauses[:1].upper() + clauses[1:]}." if clauses else ""
            )
            commands = [command("failures", path)]
            commands += [*histories(without_verdict(facts, verdicts)), *repairs(verdicts)]
            if any(verdict.remedy for verdict in verdicts):
                text += " They fail again until that is repaired; retry them after that."
            else:
                commands.append(command("retry", path))
        if status.cancelled:
            commands.append(command("retry", path, "--status", "cancelled"))
        if facts.retention is not None and facts.retention not in soon_removed(facts):
            text += f" It is removed {facts.retention.words(path)}."
        figures = {name: getattr(status, name) for name in FINAL}
        yield Reason("finished", text, number, False, commands=commands, figures=figures)


def _delayed(facts: Facts) -> Iterator[Reason]:
    """Say until when failed tasks are delayed."""
    number, path = facts.status.delayed, facts.status.path
    if not number:
        return
    text = f"{counted(number, 'task')} failed and {verb(number, 'is', 'are')} delayed"
    left_s, usual_s = None, usual_run_s(facts)
    if facts.due_at is None:
        longest = max(
            (campaign.backoff_max_s for campaign in facts.campaigns if campaign.delayed),
            default=0.0,
        )
        text += f", each for at most {duration(longest)}"
    else:
        left_s = (facts.due_at - facts.upkeep.now).total_seconds()
        when = f"at {instant(facts.due_at)} (in {duration(left_s)})" if left_s > 0 else "now"
        text += f"; the first is due {when}"
    blocks = facts.status.waiting + facts.status.working == 0
    commands = [command("failures", path), command("retry", path, "--status", "delayed")]
    is_long = left_s is not None and usual_s is not None and left_s > max(_LONG_S, 10 * usual_s)
    if is_long and usual_s is not None:
        text += f", a long backoff where a run usually takes {duration(usual_s)}"
    if is_long or blocks:  # while others run they lose nothing by a short wait
        some_delayed = [campaign.path for campaign in facts.campaigns if campaign.delayed]
        theirs = some_delayed[0] if len(some_delayed) == 1 else path
        text += ". A retry runs them now; a shorter backoff applies to them too"
        commands.append(command("campaign", "change", theirs, "--backoff", "10s"))
    yield Reason(
        "delayed",
        f"{text}.",
        tasks=number,
        blocks=blocks,
        commands=commands,
        figures={"due_at": facts.due_at, "usual_s": usual_s},
        because=blamed(facts),
    )


def _leased_ahead(facts: Facts, ahead: int) -> Iterator[Reason]:
    """Say how many tasks are in the lists of the front."""
    if not ahead:
        return
    with_some: list[CampaignFacts] = [campaign for campaign in facts.campaigns if campaign.ahead]
    path = with_some[0].path if len(with_some) == 1 else facts.status.path
    pool_s = facts.upkeep.pool_s
    yield Reason(
        "leased-ahead",
        f"{counted(ahead, 'task')} {verb(ahead, 'is', 'are')} leased ahead in Redis, and counted "
        "as working: only gateways that were started with --redis hand them out. Tasks that "
        f"no agent takes wait again after {duration(pool_s)}.",
        tasks=ahead,
        blocks=facts.status.working == ahead,
        commands=[
            command("front", "status"),
            command("front", "flush"),
            command("campaign", "change", path, "--no-front"),
        ],
        figures={"pool_s": pool_s},
    )


def upkeep(facts: Facts) -> Iterator[Reason]:
    """Yield why delayed tasks, and those of lost agents, do not come back.

    Nobody is called silent while the server stands still: each sign is written there.
    """
    waits_for_server = stands_still(facts.blockers)
    if not waits_for_server:
        yield from _keeper(facts)
        yield from _silent_gateways(facts)
    yield from _old_gateways(facts)
    yield from _certificates(facts)
    if waits_for_server:
        return
    if facts.brake is None:
        yield from _silent_holders(facts)
    elif any(kind.silent for kind in facts.agents):
        yield _brake(facts, facts.brake)


def _keeper(facts: Facts) -> Iterator[Reason]:
    """Say that nobody does the upkeep, if tasks wait for it."""
    status, since = facts.status, facts.upkeep.keeper_until
    silent = any(kind.silent for kind in facts.agents)
    gap = without_keeper(since, facts.upkeep.now)
    if not gap or not (status.delayed or status.working or silent):
        return
    yield Reason(
        "no-keeper",
        f"{gap} Gateways, `taskq keeper` and agents with a connection of their own do the upkeep.",
        tasks=status.delayed + status.working,
        blocks=not status.waiting,
        commands=[command("keeper")],
        figures={"since": since},
        since=since,
    )


def _silent_gateways(facts: Facts) -> Iterator[Reason]:
    """Name the gateways that give no sign and have no successor of the same name."""
    there = {gateway.name for gateway in facts.gateways if gateway.is_there}
    gone = [
        gateway for gateway in facts.gateways if not gateway.is_there and gateway.name not in there
    ]
    if not gone:
        return
    number, silent_s = len(gone), min(gateway.silent_s for gateway in gone)
    yield Reason(
        "silent-gateway",
        f"{number:,} of {counted(len(there) + number, 'gateway')} "
        f"({some([gateway.name for gateway in gone])}) {verb(number, 'has', 'have')} given no "
        f"sign for {duration(silent_s)}: killed, or frozen. Agents that know no other gateway lose "
        f"their leases. Look at {verb(number, 'its machine', 'their machines')}, and restart "
        f"{verb(number, 'it', 'them')}. A gateway that ends in order is forgotten at once, any "
        "other after an hour.",
        lost=sum(gateway.sessions for gateway in gone) or number,
        commands=[command("gateway")],
        figures={"gateways": number, "silent_s": silent_s},
        since=facts.upkeep.now - timedelta(seconds=max(gateway.silent_s for gateway in gone)),
    )


def _old_gateways(facts: Facts) -> Iterator[Reason]:
    """Say which gateways have another release than the newest one at work."""
    there = [gateway for gateway in facts.gateways if gateway.is_there]
    newest = max((gateway.release for gateway in there), key=_numbers, default="")
    old = [gateway for gateway in there if gateway.release != newest]
    if not old:
        return
    releases = sorted({gateway.release for gateway in old}, key=_numbers)
    number = len(old)
    yield Reason(
        "old-gateway",
        f"{number:,} of {counted(len(there), 'gateway')} "
        f"({some([gateway.name for gateway in old])}) {verb(number, 'runs', 'run')} release "
        f"{', '.join(releases)}, others {newest}: agents there may lack newer features. "
        f"Restart {verb(number, 'it', 'them')} with {newest}.",
        commands=[command("gateway")],
        figures={"gateways": number, "release": newest},
    )


def _certificates(facts: Facts) -> Iterator[Reason]:
    """Name the gateways whose certificates have ended, or end soon."""
    now = facts.upkeep.now
    soon = [
        (gateway.certificate_ends, gateway)
        for gateway in facts.gateways
        if gateway.is_there
        and gateway.certificate_ends is not None
        and gateway.certificate_ends - now < _CERTIFICATE_SOON
    ]
    if not soon:
        return
    soon.sort(key=lambda it: it[0])
    first, number = soon[0][0], len(soon)
    ended = [gateway for ends, gateway in soon if ends <= now]
    names = some([gateway.name for _, gateway in soon])
    what = verb(number, "The certificate of the gateway", "The certificates of the gateways")
    when = f"{'has ended' if first <= now else 'ends'} at {instant(first)}"
    yield Reason(
        "certificate-ends",
        f"{what} {names} {'' if number == 1 else 'end soon, the first '}{when}: after that agents "
        "and people trust it no more, and agents that cannot trust it send nothing. Put the new "
        "one in place of its file: the gateway reads it within a minute, without a restart.",
        lost=max(len(ended), sum(gateway.sessions for gateway in ended)),
        commands=[command("gateway")],
        figures={"gateways": number, "first": soon[0][1].name},
        since=first if first <= now else None,
    )


def _numbers(release: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d{1,9}", release)]


def _brake(facts: Facts, brake: Brake) -> Reason:
    until = f"until {instant(brake.until)}" if brake.until else "until one sends a heartbeat"
    return Reason(
        "brake",
        f"{brake.extent} {verb(brake.silent or 0, 'is', 'are')} silent since "
        f"{instant(brake.since)}. So many at once "
        f"mean an outage of the network or the servers: their tasks are held {until}.",
        tasks=facts.status.working,
        blocks=not facts.status.waiting,
        commands=[command("agent", "list", facts.status.path), command("recover", "--dry-run")],
        figures={"silent": brake.silent, "agents": brake.open, "until": brake.until},
        since=brake.since,
        cost=costs.of_agents(kind for kind in facts.agents if kind.silent) or None,
    )


def _silent_holders(facts: Facts) -> Iterator[Reason]:
    """Say until when silent agents keep their tasks."""
    if not facts.silent or not facts.status.working:
        return
    held = sum(agent.working for agent in facts.silent)
    agents = len(facts.silent)
    until = max(agent.expires_at for agent in facts.silent)
    longest = max(agent.silent_s for agent in facts.silent)
    places = some(dict.fromkeys(agent.host or "an unnamed host" for agent in facts.silent))
    yield Reason(
        "held-by-silent",
        f"{counted(held, 'task')} {verb(held, 'is', 'are')} held by {counted(agents, 'agent')} "
        f"({places}) that {verb(agents, 'has', 'have')} been silent for up to {duration(longest)}: "
        f"handed out again at {instant(until)}, unless a heartbeat comes first.",
        tasks=held,
        blocks=not facts.status.waiting,
        commands=[command("agent", "list", facts.status.path), command("recover", "--dry-run")],
        figures={"agents": agents, "silent_s": longest, "until": until},
        since=facts.upkeep.now - timedelta(seconds=longest),
        cost=costs.of_agents(kind for kind in facts.agents if kind.silent) or None,
    )
