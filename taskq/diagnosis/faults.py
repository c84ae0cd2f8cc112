"""Reasons in broken parts: tasks that fail, hosts and sites that fail or are slow."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from taskq.diagnosis.blame import FailureVerdict
from taskq.diagnosis.facts import MAX_OVERDUE, Facts
from taskq.diagnosis.fleet import Findings
from taskq.diagnosis.places import Place
from taskq.diagnosis.reasons import Reason, some, verb
from taskq.model.words import command, counted, duration, instant

_MOST_SHOWN: Final = 3
_MOST_VERDICTS: Final = 2


def faults(facts: Facts) -> Iterator[Reason]:
    """Yield the broken parts, by the verdicts of `failures`, `hosts` and `sites`."""
    if facts.findings is None:
        return
    yield from _overdue(facts)
    yield from _failed(facts)
    yield from _failing(facts, facts.findings)
    yield from _slow(facts, facts.findings)


def fault_clauses(facts: Facts, verdicts: Sequence[FailureVerdict]) -> str:
    """Return whose fault each class of failures is, as clauses of a sentence."""
    return "; ".join(
        f"{one.error_class or '(none)'}"
        f"{'' if one.campaign == facts.status.path else f' in {one.campaign}'}: "
        f"{one.fault}: {one.why}"
        for one in verdicts
    )


def verdicts_on_failed(facts: Facts) -> list[FailureVerdict]:
    """Return the verdicts on the classes in which most failed tasks ended.

    Without failed tasks, or if their classes are unknown, return those that matter most. Faults of
    the tasks or the campaign come first: tasks that fail on some hosts only are mostly done on
    others. Unclear verdicts are left out.
    """
    found = [] if facts.findings is None else facts.findings.failures
    if facts.failed:
        by_class = {(one.campaign, one.error_class): one for one in found}
        last = [by_class.get((one.campaign, one.error_class)) for one in facts.failed]
        return [one for one in last if one is not None and one.side != "unclear"][:_MOST_VERDICTS]
    clear = [one for one in found if one.side != "unclear"]
    clear.sort(key=lambda one: one.side in {"node", "site"})
    return [one for one in clear if one.remedy][:_MOST_VERDICTS] or clear[:1]


def repairs(verdicts: Sequence[FailureVerdict]) -> list[str]:
    """Return the commands that list the parts to repair, and those that follow a repair."""
    lists = [one.proposal for one in verdicts if one.remedy]
    return [one for one in [*lists, *(one.remedy for one in verdicts)] if one]


def ended_in(facts: Facts) -> str:
    """Return the classes in which most failed tasks ended, such as ` (exit-1: 3, Boom: 1)`."""
    by_class: Counter[str] = Counter()
    for one in facts.failed:
        by_class[one.error_class or "(none)"] += one.tasks
    read = sum(by_class.values())
    of = f" of {read:,} that were looked at" if read < facts.status.failed else ""
    parts = [f"{name}: {tasks:,}" for name, tasks in by_class.most_common(_MOST_SHOWN)]
    return f" ({', '.join(parts)}{of})" if parts else ""


def _failed(facts: Facts) -> Iterator[Reason]:
    """Say how many tasks fail, and whose fault that is."""
    path, failed = facts.status.path, facts.status.failed
    verdicts = verdicts_on_failed(facts)
    if not failed:
        verdicts = [one for one in verdicts if one.remedy]
    if not failed and not verdicts:
        return
    text = f"{counted(failed, 'task')} failed for good{ended_in(facts)}"
    if not failed:
        text = "Attempts fail, though no task has failed for good"
    text += f"; {fault_clauses(facts, verdicts)}." if verdicts else "."
    if any(one.remedy for one in verdicts):
        text += " They fail again until that is repaired; retry them after that."
    yield Reason(
        "failed" if failed else "failing",
        text,
        tasks=failed,
        blocks=False,
        lost=failed or sum(one.attempts for one in verdicts),
        commands=[command("failures", path), *repairs(verdicts)],
        figures={one.error_class: one.side for one in verdicts},
    )


def _overdue(facts: Facts) -> Iterator[Reason]:
    """Name the attempts that run far longer than others of their campaign."""
    found, path = facts.overdue, facts.status.path
    if not found:
        return
    names = [
        f"{one.key}{'' if one.campaign == path else f' of {one.campaign}'} on "
        f"{one.host or 'an unnamed host'} since {instant(one.claimed_at)} ({duration(one.run_s)})"
        for one in found
    ]
    first, number = found[0], len(found)
    enough = f"{math.ceil(first.limit_s)}s"
    yield Reason(
        "overdue",
        f"{counted(number, 'attempt')}{' or more' if number == MAX_OVERDUE else ''} "
        f"{verb(number, 'takes', 'take')} far longer than others: {some(names)}. In "
        f"{first.campaign} nine of ten end within {duration(first.usual_s)}. Cancel a task that "
        "hangs; a time limit ends attempts that are claimed from then on.",
        tasks=number,
        blocks=False,
        lost=number,
        commands=[
            command("logs", names=[first.campaign, first.key]),
            *(command("cancel", it.campaign, f"--key={it.key}") for it in found[:_MOST_SHOWN]),
            command("campaign", "change", first.campaign, "--time-limit", enough),
        ],
        figures={"longest_s": first.run_s, "usual_s": first.usual_s},
    )


def _failing(facts: Facts, findings: Findings) -> Iterator[Reason]:
    """Say which sites and hosts fail clearly more than others."""
    path = facts.status.path
    sites = [one for one in findings.sites if one.is_failing]
    theirs = {one.name for one in sites}
    hosts = [one for one in findings.hosts if one.is_failing and one.site not in theirs]
    known_banned = {kind.banned[1] for kind in facts.agents if kind.banned}
    for one in [*sites[:_MOST_SHOWN], *hosts[:_MOST_SHOWN]]:
        views = command(one.kind, "list", path)
        if one.ban is None:
            yield Reason(
                f"failing-{one.kind}",
                f"{one.kind.capitalize()} {one.name}: {one.verdict}.",
                blocks=False,
                lost=one.bad,
                commands=[*([one.proposal] if one.proposal else []), views],
                figures=_figures(one),
            )
        elif one.name not in known_banned:
            yield Reason(
                f"banned-{one.kind}",
                f"{one.kind.capitalize()} {one.ban}: {one.ban.why}. Lift the ban after the repair.",
                blocks=False,
                commands=[command(one.kind, "unban", names=[one.name])],
                figures=_figures(one),
            )
    if len(hosts) > _MOST_SHOWN:
        more = hosts[_MOST_SHOWN:]
        yield Reason(
            "failing-host",
            f"Clearly more than elsewhere also fails on {counted(len(more), 'other host')}: "
            f"{some([one.name for one in more])}.",
            blocks=False,
            lost=sum(one.bad for one in more),
            commands=[command("host", "list", path)],
        )


def _slow(facts: Facts, findings: Findings) -> Iterator[Reason]:
    """Say which sites are slow, and which hosts at others."""
    path = facts.status.path
    sites = [one for one in findings.sites if one.is_slow and one.ban is None]
    theirs = {one.name for one in sites}
    hosts = [one for one in findings.hosts if one.is_slow and one.ban is None]
    hosts = [one for one in hosts if one.site not in theirs and not one.is_failing]
    for one in [one for one in sites if not one.is_failing][:_MOST_SHOWN]:
        text = f"Site {one.name}: {one.verdict}"
        text += f"; {one.loss}" if one.loss else ""
        yield Reason(
            "slow-site",
            f"{text}. Look at its hosts first.",
            blocks=False,
            lost=_lost([one]),
            commands=[command("host", "list", path), command("site", "list", path)],
            figures=_figures(one),
        )
    if hosts:
        times = max(one.slow.times for one in hosts if one.slow)
        number = len(hosts)
        yield Reason(
            "slow-host",
            f"Tasks take {'up to ' if number > 1 else ''}{times:.1f} times as long as elsewhere on "
            f"{counted(number, 'host')} ({some([one.name for one in hosts])}); "
            f"{verb(number, 'it is', 'they are')} at no slow site.",
            blocks=False,
            lost=_lost(hosts),
            commands=[command("host", "list", path)],
            figures={"hosts": number},
        )


def _lost(places: Sequence[Place]) -> int:
    """Return how many more attempts slow places could have made as fast ones."""
    return round(sum((one.attempts - one.bad) * (one.slow.times - 1) for one in places if one.slow))


def _figures(one: Place) -> dict[str, object]:
    return {
        one.kind: one.name,
        "attempts": one.attempts,
        "bad": one.bad,
        "times": one.slow.times if one.slow else None,
        "work": one.work,
    }
