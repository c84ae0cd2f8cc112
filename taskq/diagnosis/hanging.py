"""Reasons in attempts that run far longer than others of their campaign."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from taskq.diagnosis.facts import MAX_OVERDUE, Facts
from taskq.diagnosis.reasons import Reason, some, verb
from taskq.model.words import command, counted, duration, instant

_MOST_SHOWN: Final = 3
#: The probability with which attempts that hang by chance are all on one host.
_CHANCE: Final = 0.01


def overdue(facts: Facts) -> Iterator[Reason]:
    """Name the attempts that run far longer than others of their campaign."""
    path = facts.status.path
    found = facts.overdue
    if not found or facts.blockers:  # what stands still for all is nobody's fault
        return
    names = [
        f"{task.key}{'' if task.campaign == path else f' of {task.campaign}'} on "
        f"{task.host or 'an unnamed host'} since {instant(task.claimed_at)} "
        f"({duration(task.run_s)})"
        for task in found
    ]
    first, number = found[0], len(found)
    campaigns = {it.campaign: f"{math.ceil(it.limit_s)}s" for it in found[::-1]}
    limits = [
        command("campaign", "change", campaign, "--time-limit", enough)
        for campaign, enough in [*campaigns.items()][: -_MOST_SHOWN - 1 : -1]
    ]
    host = _where_all_hang(facts)
    remedies: list[str] = []
    if _none_ended_since(facts):
        advice = "No task that was claimed after them has ended: these may be longer tasks, or all "
        advice += "hang. Look at what they do before you cancel one or set a time limit"
    elif host:
        advice = f"All are on host {host}, and none elsewhere: the host is at fault, not these "
        advice += "tasks. Repair or ban it; a time limit ends these attempts, and their tasks wait "
        advice += "again"
        why = f"{counted(number, 'attempt')} {verb(number, 'hangs', 'hang')} there"
        remedies = [command("host", "ban", "--why", why, "--until", "1d", names=[host]), *limits]
    else:
        advice = "Cancel a task that hangs; a time limit ends these attempts too, and their tasks "
        advice += "wait again"
        remedies = [command("cancel", it.campaign, f"--key={it.key}") for it in found]
        remedies = [*remedies[:_MOST_SHOWN], *limits]
    yield Reason(
        "overdue",
        f"{counted(number, 'attempt')}{' or more' if number == MAX_OVERDUE else ''} "
        f"{verb(number, 'takes', 'take')} far longer than others: {some(names)}. In "
        f"{first.campaign} nine of ten end within {duration(first.usual_s)}. {advice}.",
        tasks=number,
        lost=number,
        commands=[command("logs", names=[first.campaign, first.key]), *remedies],
        figures={"longest_s": first.run_s, "usual_s": first.usual_s},
        since=min(it.claimed_at + timedelta(seconds=it.limit_s) for it in found),
        cost=float(number),
    )


def _none_ended_since(facts: Facts) -> bool:
    """Return whether no task claimed later has ended, though several are overdue.

    So it is where a file goes on with longer tasks: then to cancel them is to lose healthy work.
    """
    claimed = facts.findings.odd.claimed if facts.findings else {}
    ended = [claimed.get(it.campaign) for it in facts.overdue]
    later = [at is None or at > it.claimed_at for at, it in zip(ended, facts.overdue, strict=True)]
    return len(later) > 1 and not any(later)


def _where_all_hang(facts: Facts) -> str:
    """Return the host on which all attempts hang, if chance would hardly put them on one."""
    hosts = {it.host for it in facts.overdue}
    slots = {it.name: it.slots for it in (facts.findings.hosts if facts.findings else ())}
    here = slots.get(host := hosts.pop(), 0)
    hang, whole = min(len(facts.overdue), here), sum(slots.values())
    if hosts or not hang or here == whole:
        return ""
    # By chance all of these are in slots of one host: hypergeometric, for the choice of any host.
    at_one = sum(math.comb(number, hang) for number in slots.values()) / math.comb(whole, hang)
    return host if at_one < _CHANCE else ""
