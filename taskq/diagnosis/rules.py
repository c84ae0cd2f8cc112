"""Rules that turn the facts about a campaign into reasons; pure functions of the facts."""

from __future__ import annotations

from collections.abc import Iterator

from taskq.diagnosis.facts import CampaignFacts, Facts
from taskq.diagnosis.faults import faults, repairs, told, verdicts_on_failed
from taskq.diagnosis.obstacles import obstacles
from taskq.diagnosis.reasons import Explanation, Reason, verb, waits
from taskq.diagnosis.speed import speed
from taskq.diagnosis.upkeep_rules import upkeep
from taskq.model.seed import FINAL
from taskq.model.words import command, counted, duration, instant


def explain_campaign(facts: Facts) -> Explanation:
    """Explain a campaign and all below it.

    Reasons that block most tasks come first, then broken parts that cost most, then other ways to
    make it faster.
    """
    status = facts.status
    ahead = sum(one.ahead for one in facts.campaigns) if facts.upkeep.refilled else 0
    reasons = [*_ended(facts)]
    if status.unfinished:
        blocked, served = obstacles(facts)
        reasons += blocked
        reasons += upkeep(facts)
        reasons += _delayed(facts)
        reasons += _leased_ahead(facts, ahead)
        reasons += faults(facts)
        reasons += speed(facts, served)
    reasons.sort(key=lambda one: (not one.blocks, -one.lost, -one.tasks))
    return Explanation(
        path=status.path,
        key=None,
        headline=_headline(facts, ahead, reasons),
        waiting=status.waiting,
        delayed=status.delayed,
        working=status.working,
        leased_ahead=ahead,
        reasons=reasons,
    )


def _headline(facts: Facts, ahead: int, reasons: list[Reason]) -> str:
    status = facts.status
    if not status.total:
        return "nothing has been seeded"
    if not status.unfinished:
        return f"finished: all {counted(status.total, 'task')} have ended"
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
    return ", ".join(parts)


def _ended(facts: Facts) -> Iterator[Reason]:
    """Say what to do if no task is left."""
    status = facts.status
    path = status.path
    if not status.total:
        yield Reason(
            "nothing-seeded",
            f"{path} has no tasks, and neither has any campaign below it.",
            commands=[command("seed", path, "FILE"), command("tree", path)],
        )
    elif not status.unfinished:
        text = f"{status.done:,} done, {status.failed:,} failed, {status.cancelled:,} cancelled."
        commands = []
        if status.failed:
            verdicts = verdicts_on_failed(facts)
            text += f" {told(facts, verdicts)}." if verdicts else ""
            commands = [command("failures", path), *repairs(verdicts)]
            if any(one.remedy for one in verdicts):
                text += " They fail again until that is repaired; to retry them comes after that."
            else:
                commands.append(command("retry", path))
        if status.cancelled:
            commands.append(command("retry", path, "--status", "cancelled"))
        figures = {name: getattr(status, name) for name in FINAL}
        yield Reason("finished", text, status.total, commands=commands, figures=figures)


def _delayed(facts: Facts) -> Iterator[Reason]:
    """Say until when failed tasks are delayed."""
    number, path = facts.status.delayed, facts.status.path
    if not number:
        return
    text = f"{counted(number, 'task')} failed and {verb(number, 'is', 'are')} delayed"
    if facts.due_at is None:
        longest = max((one.backoff_max_s for one in facts.campaigns if one.delayed), default=0.0)
        text += f", each for {duration(longest)} at the longest"
    else:
        left_s = (facts.due_at - facts.upkeep.now).total_seconds()
        when = f"at {instant(facts.due_at)} (in {duration(left_s)})" if left_s > 0 else "now"
        text += f"; the first is due {when}"
    blocks = facts.status.waiting + facts.status.working == 0
    commands = [command("failures", path)]
    if blocks:  # while others run they lose nothing by waiting
        text += ". A shorter backoff applies to failures from then on"
        commands.append(command("campaign", "change", path, "--backoff", "10s"))
    yield Reason(
        "delayed",
        f"{text}.",
        tasks=number,
        blocks=blocks,
        commands=commands,
        figures={"due_at": facts.due_at},
    )


def _leased_ahead(facts: Facts, ahead: int) -> Iterator[Reason]:
    """Say how many tasks are in the lists of the front."""
    if not ahead:
        return
    with_some: list[CampaignFacts] = [one for one in facts.campaigns if one.ahead]
    path = with_some[0].path if len(with_some) == 1 else facts.status.path
    pool_s = facts.upkeep.pool_s
    yield Reason(
        "leased-ahead",
        f"{counted(ahead, 'task')} {verb(ahead, 'is', 'are')} leased ahead in Redis, and counted "
        "as working: only gateways and agents that were started with --redis hand them out. What "
        f"nobody takes waits again after {duration(pool_s)}.",
        tasks=ahead,
        blocks=facts.status.working == ahead,
        commands=[
            command("front", "status"),
            command("front", "flush"),
            command("campaign", "change", path, "--no-front"),
        ],
        figures={"pool_s": pool_s},
    )
