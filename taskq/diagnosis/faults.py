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
from taskq.diagnosis.reasons import Reason, brief, some, verb
from taskq.model.words import command, counted, duration, instant
from taskq_agent.protocol import EXCHANGES_FAIL

_MOST_SHOWN: Final = 3
_MOST_VERDICTS: Final = 2
#: Class of tasks that are given up since agents are lost with them; see `give_back` in SQL.
_POISON: Final = "poison"


def faults(facts: Facts) -> Iterator[Reason]:
    """Yield the broken parts, by the verdicts of `failures`, `hosts` and `sites`."""
    if facts.findings is None:
        return
    yield from odd_results(facts)
    yield from _overdue(facts)
    yield from _failed(facts)
    yield from _poisonous(facts)
    yield from _failing(facts, facts.findings)
    yield from _slow(facts, facts.findings)


def odd_results(facts: Facts) -> Iterator[Reason]:
    """Name the hosts whose results cannot be right."""
    findings = facts.findings
    banned = {one.name for one in findings.hosts if one.ban} if findings else set()
    for one in findings.odd[:_MOST_SHOWN] if findings else ():
        what = "constant" if one.constant else "far from those of other hosts"
        why = f"results of {one.campaign} are {what}"
        ban = command("host", "ban", "--why", why, "--until", "1d", names=[one.host])
        yield Reason(
            "constant-results" if one.constant else "odd-results",
            f"Results of {one.campaign} on host {one.host} are {what}: {one.evidence}. Repair or "
            "ban the host; then withdraw these results by a retry.",
            lost=one.results,
            commands=[*([] if one.host in banned else [ban]), one.remedy],
            figures={"campaign": one.campaign, "host": one.host, "results": one.results},
        )


def fault_clauses(facts: Facts, verdicts: Sequence[FailureVerdict]) -> str:
    """Return whose fault each class of failures is, as clauses of a sentence."""
    return "; ".join(_clause(facts, one) for one in verdicts)


def _clause(facts: Facts, one: FailureVerdict) -> str:
    name = one.error_class or "(none)"
    if one.campaign != facts.status.path:
        name += f" in {one.campaign}"
    if one.message:
        name += f" ({brief(one.message)})"
    has_reason = bool(one.places) and one.places[0] in failing_places(facts)  # with the evidence
    return f"{name}: {one.fault}: {some(one.places) if has_reason else one.why}"


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
    """Return the commands that list or change what to repair, and those that follow a repair."""
    lists = [one.proposal for one in verdicts if one.remedy or one.side == "chance"]
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
        paused = {one.path for one in facts.closed if one.paused_why is not None}  # they say why
        verdicts = [one for one in verdicts if one.remedy and one.campaign not in paused]
    if not failed and not verdicts:
        return
    text = f"{counted(failed, 'task')} failed for good{ended_in(facts)}"
    if not failed:
        text = "Attempts fail, though no task has failed for good"
    text += f"; {fault_clauses(facts, verdicts)}." if verdicts else "."
    if any(one.remedy for one in verdicts):
        text += " They fail again until that is repaired; retry them after that."
    after = [
        command("retry", "--error-class", one.error_class, names=[one.campaign])
        for one in verdicts
        if failed and one.side in {"node", "site", "chance"} and one.error_class
    ]
    yield Reason(
        "failed" if failed else "failing",
        text,
        tasks=failed,
        lost=failed or sum(one.attempts for one in verdicts),
        commands=[command("failures", path), *repairs(verdicts), *after],
        figures={one.error_class: one.side for one in verdicts},
    )


def _poisonous(facts: Facts) -> Iterator[Reason]:
    """Name tasks that were given up since their agents were lost, again and again."""
    for one in [it for it in facts.failed if it.error_class == _POISON][:_MOST_SHOWN]:
        yield Reason(
            "poison",
            f"{counted(one.tasks, 'task')} of {one.campaign} (such as {one.key}) "
            f"{verb(one.tasks, 'was', 'were')} given up: each time the agent was lost, so "
            f"{verb(one.tasks, 'it', 'they')} may kill agents or their hosts. Try "
            f"{verb(one.tasks, 'it', 'one')} apart before a retry.",
            tasks=one.tasks,
            lost=one.tasks,
            commands=[
                command("history", names=[one.campaign, one.key]),
                command("retry", "--error-class", _POISON, names=[one.campaign]),
            ],
            figures={"campaign": one.campaign, "key": one.key},
        )


def _overdue(facts: Facts) -> Iterator[Reason]:
    """Name the attempts that run far longer than others of their campaign."""
    path = facts.status.path
    cut = [kind for kind in facts.agents if EXCHANGES_FAIL in kind.warnings]  # a reason of its own
    unbegun = {host for kind in cut for host in kind.some_hosts}
    found = [one for one in facts.overdue if one.host not in unbegun]
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
        "hangs; a time limit ends these attempts too, and their tasks wait again.",
        tasks=number,
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
    sites, hosts = _failing_sites(findings), _failing_hosts(facts, findings)
    known_banned = {kind.banned[1] for kind in facts.agents if kind.banned}
    for one in [*sites[:_MOST_SHOWN], *hosts[:_MOST_SHOWN]]:
        if one.ban is None:
            slowed = "; until then its agents make one attempt at a time" if one.slowed else ""
            yield Reason(
                f"failing-{one.kind}",
                f"{one.kind.capitalize()} {one.name}: {one.verdict}; most often: {one.cause}. "
                f"Repair that, or ban the {one.kind} until then{slowed}.",
                lost=one.bad,
                commands=[command("failures", path), *([one.proposal] if one.proposal else [])],
                figures=_figures(one),
            )
        elif one.name not in known_banned:
            yield Reason(
                f"banned-{one.kind}",
                f"{one.kind.capitalize()} {one.ban}: {one.ban.why}. Lift the ban after the repair.",
                commands=[command(one.kind, "unban", names=[one.name])],
                figures=_figures(one),
            )
    if len(hosts) > _MOST_SHOWN:
        more = hosts[_MOST_SHOWN:]
        yield Reason(
            "failing-host",
            f"{counted(len(more), 'other host')} also {verb(len(more), 'fails', 'fail')} clearly "
            f"more than elsewhere: {some([one.name for one in more])}.",
            lost=sum(one.bad for one in more),
            commands=[command("host", "list", path)],
        )


def _failing_sites(findings: Findings) -> list[Place]:
    return [one for one in findings.sites if one.is_failing]


def _failing_hosts(facts: Facts, findings: Findings) -> list[Place]:
    """Return the failing hosts that no other reason names: at no failing site, refusing nothing."""
    theirs = {one.name for one in _failing_sites(findings)}
    refusing = {
        (host, (one.path, one.error_class)) for one in facts.refusals for host in one.some_hosts
    }
    return [
        one
        for one in findings.hosts
        if one.is_failing and one.site not in theirs and (one.name, one.worst) not in refusing
    ]


def failing_places(facts: Facts) -> set[str]:
    """Return the hosts and sites that have reasons of their own since more fails there."""
    if facts.findings is None:
        return set()
    sites = _failing_sites(facts.findings)[:_MOST_SHOWN]
    hosts = _failing_hosts(facts, facts.findings)[:_MOST_SHOWN]
    return {one.name for one in [*sites, *hosts]}


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
            lost=_lost(hosts),
            commands=[command("host", "list", path)],
            figures={"hosts": number},
        )


def usual_run_s(facts: Facts) -> float | None:
    """Return the typical run time of successful attempts, a geometric mean; None if unknown."""
    hosts = [] if facts.findings is None else facts.findings.hosts
    ran = [(one.attempts - one.bad, one.run_s) for one in hosts if one.run_s]
    number = sum(done for done, _ in ran)
    return math.exp(sum(done * math.log(run_s) for done, run_s in ran) / number) if number else None


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
