"""Reasons in broken parts: tasks that fail, hosts and sites that fail or are slow."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from taskq.diagnosis import costs
from taskq.diagnosis.bans import for_campaign
from taskq.diagnosis.blame import FailureVerdict
from taskq.diagnosis.classes import began, changed, further_classes
from taskq.diagnosis.facts import Facts, FailedTasks
from taskq.diagnosis.fleet import Findings
from taskq.diagnosis.hanging import overdue
from taskq.diagnosis.judging import is_split, split_words
from taskq.diagnosis.losing import AGENT_LOST, losing
from taskq.diagnosis.moved import moved
from taskq.diagnosis.places import Place
from taskq.diagnosis.reasons import Reason, brief, known_sum, some, verb
from taskq.diagnosis.slow_places import figures_of, slow_places
from taskq.diagnosis.wrong_results import odd_results
from taskq.model.words import command, counted, percent

_MOST_SHOWN: Final = 3
_MOST_VERDICTS: Final = 2
#: Class of tasks that are given up since agents are lost with them; see `give_back` in SQL.
_POISON: Final = "poison"
#: Hosts and failed tasks from which on a class that no host has more often is no host's fault.
_LEAST_HOSTS: Final = 2
_LEAST_FAILED: Final = 8


def faults(facts: Facts) -> Iterator[Reason]:
    """Yield the broken parts, by the verdicts of `failures`, `hosts` and `sites`."""
    if facts.findings is None:
        return
    yield from odd_results(facts)
    yield from overdue(facts)
    yield from _failed(facts)
    yield from _poisonous(facts)
    yield from losing(facts.status.path, facts.findings.losing)
    yield from further_classes(facts, verdicts_on_failed(facts), failing_places(facts))
    yield from moved(facts.findings.moves)
    yield from _failing(facts, facts.findings)
    yield from slow_places(facts, facts.findings)


def fault_clauses(facts: Facts, verdicts: Sequence[FailureVerdict]) -> str:
    """Return whose fault each class of failures is, as clauses of a sentence.

    The last one names failed tasks without such a verdict.
    """
    unclear = without_verdict(facts, verdicts)
    spread = [(it, found) for it in unclear if (found := _everywhere(facts, it))]
    rest = [it for it in unclear if it not in [failed for failed, _ in spread]]
    names = [_key(facts, it) for it in rest]
    named = [f"look at {some(names)}"] if names else []
    clauses = [_clause(facts, verdict) for verdict in verdicts]
    return "; ".join([*clauses, *(_spread_clause(facts, *it) for it in spread), *named])


def _key(facts: Facts, failed: FailedTasks) -> str:
    own = failed.campaign == facts.status.path
    return failed.key if own else f"{failed.key} of {failed.campaign}"


def _unclear(facts: Facts, failed: FailedTasks) -> FailureVerdict | None:
    """Return what is known of a class of failed tasks, though not whose fault it is."""
    found = [] if facts.findings is None else facts.findings.failures
    its = (failed.campaign, failed.error_class)
    return next((it for it in found if (it.campaign, it.error_class) == its), None)


def _everywhere(facts: Facts, failed: FailedTasks) -> FailureVerdict | None:
    """Return the verdict on tasks that were given up at once, on several hosts, at none more often.

    No second try says whether it is these tasks or chance; but no place is to blame.
    """
    found = _unclear(facts, failed)
    if found is None or found.hosts < _LEAST_HOSTS or failed.tasks < _LEAST_FAILED:
        return None
    return found if found.again + found.then_done == 0 else None


def _spread_clause(facts: Facts, failed: FailedTasks, verdict: FailureVerdict) -> str:
    return (
        f"{_named(facts, verdict)}: the fault of the program or of its inputs, of no host: "
        f"{percent(verdict.share.share)} of {verdict.share.attempts:,} attempts fail so, on "
        f"{counted(verdict.hosts, 'host')}, on none clearly more; no further attempt was made: "
        f"look at {_key(facts, failed)}"
    )


def without_verdict(facts: Facts, verdicts: Sequence[FailureVerdict]) -> list[FailedTasks]:
    """Return failed tasks of which too few are like them to say whose fault it is."""
    clear = {(verdict.campaign, verdict.error_class) for verdict in verdicts}
    found = [it for it in facts.failed if (it.campaign, it.error_class) not in clear]
    return [it for it in found if it.error_class not in {"", _POISON}][:_MOST_SHOWN]


def histories(tasks: Sequence[FailedTasks]) -> list[str]:
    """Return the commands that show what has become of them."""
    return [command("history", names=[it.campaign, it.key]) for it in tasks]


def _clause(facts: Facts, verdict: FailureVerdict) -> str:
    # The place has a reason of its own, with the evidence.
    has_reason = bool(verdict.places) and verdict.places[0] in failing_places(facts)
    where = some(verdict.places) if has_reason else verdict.why
    return f"{_named(facts, verdict)}: {verdict.fault}: {where}"


def _named(facts: Facts, verdict: FailureVerdict) -> str:
    """Return the class, where and since when it is, and its latest message."""
    name = verdict.error_class or "(none)"
    if verdict.campaign != facts.status.path:
        name += f" in {verdict.campaign}"
    if verdict.message:
        name += f" ({brief(verdict.message)})"
    return f"{name}{began(verdict, facts.changes)}"


def verdicts_on_failed(facts: Facts) -> list[FailureVerdict]:
    """Return the verdicts on the classes in which most failed tasks ended.

    Without failed tasks, or if their classes are unknown, return those that matter most. Faults of
    the tasks or the campaign come first: tasks that fail on some hosts only are mostly done on
    others. Unclear verdicts are left out.
    """
    found = [] if facts.findings is None else facts.findings.failures
    if facts.failed:
        by_class = {(verdict.campaign, verdict.error_class): verdict for verdict in found}
        last = [by_class.get((failed.campaign, failed.error_class)) for failed in facts.failed]
        clear = [verdict for verdict in last if verdict is not None and verdict.side != "unclear"]
        return clear[:_MOST_VERDICTS]
    clear = [verdict for verdict in found if verdict.side != "unclear"]
    clear.sort(key=lambda verdict: verdict.side in {"node", "site"})
    return [verdict for verdict in clear if verdict.remedy][:_MOST_VERDICTS] or clear[:1]


def repairs(verdicts: Sequence[FailureVerdict]) -> list[str]:
    """Return the commands that list or change what to repair, and those that follow a repair."""
    lists = [verdict.proposal for verdict in verdicts if verdict.remedy or verdict.side == "chance"]
    return [listing for listing in [*lists, *(verdict.remedy for verdict in verdicts)] if listing]


def ended_in(facts: Facts) -> str:
    """Return the classes in which most failed tasks ended, such as ` (exit-1: 3, Boom: 1)`."""
    by_class: Counter[str] = Counter()
    for failed in facts.failed:
        by_class[failed.error_class or "(none)"] += failed.tasks
    read = sum(by_class.values())
    of = f" of {read:,} that were looked at" if read < facts.status.failed else ""
    parts = [f"{name}: {tasks:,}" for name, tasks in by_class.most_common(_MOST_SHOWN)]
    return f" ({', '.join(parts)}{of})" if parts else ""


def _failed(facts: Facts) -> Iterator[Reason]:
    """Say how many tasks fail, and whose fault that is."""
    path, failed = facts.status.path, facts.status.failed
    verdicts = verdicts_on_failed(facts)
    if not failed:
        # Campaigns that paused themselves say why.
        paused = {campaign.path for campaign in facts.closed if campaign.paused_why is not None}
        verdicts = [
            verdict for verdict in verdicts if verdict.remedy and verdict.campaign not in paused
        ]
    if not failed and not verdicts:
        return
    text = f"{counted(failed, 'task')} failed for good{ended_in(facts)}"
    if not failed:
        text = "Attempts fail, though no task has failed for good"
    clauses = fault_clauses(facts, verdicts)
    text += f"; {clauses}." if clauses else "."
    unclear = without_verdict(facts, verdicts)
    spread = [found for it in unclear if (found := _everywhere(facts, it))]
    if spread or any(verdict.remedy for verdict in verdicts):
        text += " They fail again until that is repaired; retry them after that."
    after = [
        command("retry", "--error-class", verdict.error_class, names=[verdict.campaign])
        for verdict in verdicts
        if failed and verdict.side in {"node", "site", "chance"} and verdict.error_class
    ]
    yield Reason(
        "failed" if failed else "failing-class",
        text,
        tasks=failed,
        lost=failed or sum(verdict.attempts for verdict in verdicts),
        commands=[
            command("failures", path),
            *changed(facts, [*verdicts, *spread]),
            *histories(unclear),
            *repairs(verdicts),
            *after,
            *(
                command("retry", "--error-class", it.error_class, names=[it.campaign])
                for it in unclear
            ),
        ],
        figures={verdict.error_class: verdict.side for verdict in verdicts},
        since=min((it.since for it in [*verdicts, *spread] if it.since), default=None),
        cost=known_sum(it.cost for it in [*verdicts, *spread]),
        because=blamed(facts),
    )


def _poisonous(facts: Facts) -> Iterator[Reason]:
    """Name tasks that were given up since their agents were lost, again and again."""
    for poisoned in [it for it in facts.failed if it.error_class == _POISON][:_MOST_SHOWN]:
        yield Reason(
            "poison",
            f"{counted(poisoned.tasks, 'task')} of {poisoned.campaign} (such as {poisoned.key}) "
            f"{verb(poisoned.tasks, 'was', 'were')} given up: each time the agent was lost, so "
            f"{verb(poisoned.tasks, 'it', 'they')} may kill agents or their hosts. Try "
            f"{verb(poisoned.tasks, 'it', 'one')} apart before a retry.",
            tasks=poisoned.tasks,
            lost=poisoned.tasks,
            commands=[
                command("history", names=[poisoned.campaign, poisoned.key]),
                command("retry", "--error-class", _POISON, names=[poisoned.campaign]),
            ],
            figures={"campaign": poisoned.campaign, "key": poisoned.key},
        )


def _failing(facts: Facts, findings: Findings) -> Iterator[Reason]:
    """Say which sites and hosts fail clearly more than others."""
    path = facts.status.path
    sites, hosts = _failing_sites(findings), _failing_hosts(facts, findings)
    judged = sum(host.attempts > 0 for host in findings.hosts)
    if is_split(len(hosts), judged):
        first = hosts[0]
        yield Reason(
            "split-hosts",
            f"{len(hosts):,} of {counted(judged, 'host')} ({some([it.name for it in hosts])}) "
            f"clearly do worse than the others ({first.name}: {first.verdict}; most often: "
            f"{first.cause}): "
            f"{split_words(judged)}. Compare two of them before you ban any.",
            lost=sum(place.bad for place in hosts),
            commands=[command("host", "list", path), command("failures", path)],
            figures={"hosts": len(hosts), "of": judged},
            cost=costs.of_places(hosts),
        )
        hosts = []
    known_banned = {kind.banned[1] for kind in facts.agents if kind.banned}
    for place in [*sites[:_MOST_SHOWN], *hosts[:_MOST_SHOWN]]:
        if place.ban is None:
            slowed = "; until then its agents make one attempt at a time" if place.slowed else ""
            slowed += " of it" if slowed and place.only else ""
            only = f"; only {place.only} fails there, other campaigns work" if place.only else ""
            for_it = f" for {place.only}" if place.only else ""
            in_it = f" in {place.worst[0]}" if place.worst and place.worst[0] != path else ""
            yield Reason(
                f"failing-{place.kind}",
                f"{place.kind.capitalize()} {place.name}: {place.verdict}; most often"
                f"{in_it}: {place.cause}{only}. {_namesakes(place)}Repair that, or "
                f"{'drain its agents' if place.does_well_at else f'ban the {place.kind}{for_it}'} "
                f"until then{slowed}.",
                lost=place.bad,
                commands=[command("failures", path), *([place.proposal] if place.proposal else [])],
                figures=figures_of(place),
                since=place.since,
                cost=costs.of_places([place]),
            )
        elif place.name not in known_banned:
            yield Reason(
                f"banned-{place.kind}",
                f"{place.kind.capitalize()} {place.ban}: {place.ban.why}. "
                "Lift the ban after the repair.",
                commands=[
                    command(place.kind, "unban", *for_campaign(place.ban.path), names=[place.name])
                ],
                figures=figures_of(place),
            )
    if len(hosts) > _MOST_SHOWN:
        more = hosts[_MOST_SHOWN:]
        yield Reason(
            "failing-host",
            f"{counted(len(more), 'other host')} also {verb(len(more), 'fails', 'fail')} clearly "
            f"more than elsewhere: {some([place.name for place in more])}.",
            lost=sum(place.bad for place in more),
            commands=[command("host", "list", path)],
            cost=costs.of_places(more),
        )


def _namesakes(place: Place) -> str:
    """Return that other machines have the name of a failing one, if they do."""
    if not place.does_well_at:
        return ""
    return (
        f"Machines of the sites {some([*place.fails_at, *place.does_well_at])} have this name, and "
        f"only {some(place.fails_at)} fails: a ban would take them all, so let each have a name of "
        "its own (`--host`). "
    )


def _failing_sites(findings: Findings) -> list[Place]:
    return [it for it in findings.sites if it.is_failing and not _only_loses(findings, it)]


def _only_loses(findings: Findings, place: Place) -> bool:
    """Return whether more fails at a place since its agents are lost, as another reason says."""
    loses = place.name in {name for it in findings.losing for name in (it.name, *it.hosts)}
    return loses and (place.worst is None or place.worst[1] == AGENT_LOST)


def _failing_hosts(facts: Facts, findings: Findings) -> list[Place]:
    """Return the failing hosts that no other reason names: at no failing site, refusing nothing."""
    theirs = {site.name for site in _failing_sites(findings)}
    refusing = {
        (host, (refusal.path, refusal.error_class))
        for refusal in facts.refusals
        for host in refusal.some_hosts
    }
    return [
        host
        for host in findings.hosts
        if host.is_failing
        and host.site not in theirs
        and (host.name, host.worst) not in refusing
        and not _only_loses(findings, host)
    ]


def failing_places(facts: Facts) -> set[str]:
    """Return the hosts and sites that have reasons of their own since more fails there."""
    if facts.findings is None:
        return set()
    sites = _failing_sites(facts.findings)[:_MOST_SHOWN]
    hosts = _failing_hosts(facts, facts.findings)[:_MOST_SHOWN]
    losing = [name for it in facts.findings.losing for name in (it.name, *it.hosts)]
    return {*losing, *(place.name for place in [*sites, *hosts])}


def blamed(facts: Facts, campaign: str | None = None) -> Sequence[str]:
    """Return the place, with a reason of its own, for which most tasks of a campaign failed.

    campaign: None: of all.
    """
    its = [it for it in verdicts_on_failed(facts) if campaign in {None, it.campaign}]
    places = [place for it in its[:1] for place in it.places[:1]]
    return [place for place in places if place in failing_places(facts)]


def usual_run_s(facts: Facts) -> float | None:
    """Return the typical run time of successful attempts, a geometric mean; None if unknown."""
    hosts = [] if facts.findings is None else facts.findings.hosts
    ran = [(host.attempts - host.bad, host.run_s) for host in hosts if host.run_s]
    number = sum(done for done, _ in ran)
    return math.exp(sum(done * math.log(run_s) for done, run_s in ran) / number) if number else None
