"""Plan of a pilot: how many jobs to submit or to cancel now, and why. Pure.

A job is worth its start only if there is work for it. So there are never more jobs than the waiting
tasks could fill, and each could get `least_work` for each of its cores, judged by the run times of
the campaigns' latest attempts. The batch system gets a few at a time (`backlog`), and more as it
lets them through: twice as many as began within the last minute.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from taskq.model.requirements import missing
from taskq.model.words import HOUR_S, MINUTE_S, counted
from taskq.pilots.settings import PilotSettings

#: A job is cancelled only after it has waited for so long: retried tasks may still want it.
PATIENCE_S: Final = 60.0

#: Tags for what each slot of an agent has, and the option that each comes from.
RESOURCE_TAGS: Final = {"cores": "--cores", "mem": "--memory", "gpus": "--gpus"}

_SHOWN_CAMPAIGNS = 3
_SHOWN_REASONS = 3


@dataclass(frozen=True, slots=True)
class Waiting:
    """The waiting tasks of a campaign; fields as in `sql/functions/pilot_demand.sql`."""

    campaign_id: int
    path: str
    claimable: int
    working: int
    unfinished: int
    usual_s: float | None
    time_limit_s: float | None
    requires: tuple[str, ...]
    tags_suit: bool
    time_suits: bool


@dataclass(frozen=True, slots=True)
class PilotJobs:
    """The pilot's live jobs, and all agents that serve its campaigns.

    queued: for how many seconds each has waited in the batch system; waits: its words for that, of
    the jobs for which it has any. missing: live jobs that its latest answer lacked. serving: for
    how many seconds each job whose agent was heard has run. settling: jobs whose agent was first
    heard a moment ago and may not have claimed yet. started_lately: jobs that began within the last
    minute. slots: of all agents that serve the campaigns and offer at least what this pilot's
    agents do.
    """

    submitting: int = 0
    queued: tuple[float, ...] = ()
    waits: tuple[str, ...] = ()
    missing: int = 0
    starting: int = 0
    serving: tuple[float, ...] = ()
    settling: int = 0
    started_lately: int = 0
    slots: int = 0

    @property
    def coming(self) -> int:
        """Jobs whose agents will claim soon."""
        return self.submitting + len(self.queued) + self.starting + self.settling

    @property
    def live(self) -> int:
        """All jobs that are not over."""
        return self.coming + len(self.serving)


@dataclass(frozen=True, slots=True)
class PilotState:
    """What keeps a pilot from submitting. retry_in_s: 0 if there is nothing to wait for."""

    status: str = "active"
    paused_why: str | None = None
    failures: int = 0
    trouble: str | None = None
    retry_in_s: float = 0.0


@dataclass(slots=True)
class Plan:
    """How many jobs to submit and to cancel, and sentences that say why."""

    submit: int = 0
    cancel: int = 0
    why: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Work:
    """What these agents could do. known: tasks with known run times; spent_s: their time in sum."""

    tasks: int
    known: int
    spent_s: float
    longest_usual_s: float


def plan(
    settings: PilotSettings, waiting: Sequence[Waiting], fleet: PilotJobs, state: PilotState
) -> Plan:
    """Return the plan for this moment."""
    made = Plan()
    work = _work(settings, waiting, made.why)
    made.why.append(_about_fleet(settings, fleet))
    if fleet.waits:
        made.why.append(_sentence(f"The queue says: {_most_common(fleet.waits)}"))
    if fleet.missing:
        made.why.append(
            f"{counted(fleet.missing, 'job')} not in the batch system's latest answer: still "
            "counted, until several answers in a row lack them."
        )
    if state.trouble is not None and not (state.retry_in_s or state.paused_why):
        made.why.append(_sentence(f"The last trouble: {state.trouble}"))
    if state.status == "removed":
        made.cancel = len(fleet.queued)
        made.why.append("It is being removed: nothing is submitted, what is queued is cancelled.")
    elif state.status == "paused":
        why = f": {state.paused_why}" if state.paused_why else ""
        made.why.append(_sentence(f"It is paused, so nothing is submitted{why}"))
    elif work.tasks == 0:
        _plan_the_end(waiting, fleet, made)
    else:
        _plan_more(settings, work, fleet, state, made)
    return made


def _work(settings: PilotSettings, waiting: Sequence[Waiting], why: list[str]) -> _Work:
    """Sum up what these agents could claim now, and say what is left out."""
    lifetime_s = settings.lifetime_s
    served, left_out = [], []
    for one in waiting:
        if not one.claimable:
            continue
        reason = None
        if not one.tags_suit:
            reason = _unmet(settings, one.requires)
        elif not one.time_suits:
            limit = _time(one.time_limit_s or 0)
            reason = f"its time limit of {limit} does not fit into a job ({_time(lifetime_s)})"
        elif one.time_limit_s is None and (one.usual_s or 0) > lifetime_s:
            usual = _time(one.usual_s or 0)
            reason = f"its tasks take {usual} on average, longer than a job ({_time(lifetime_s)})"
        if reason is None:
            served.append(one)
        else:
            left_out.append(
                f"{counted(one.claimable, 'task')} of {one.path} not counted: {reason}."
            )
    tasks = sum(one.claimable for one in served)
    working = sum(one.working for one in waiting)
    in_work = f"{working:,} {'is' if working == 1 else 'are'} worked on"
    why.append(f"{counted(tasks, 'task')} waiting for agents like these, {in_work}.")
    why += left_out[:_SHOWN_CAMPAIGNS]
    if len(left_out) > _SHOWN_CAMPAIGNS:
        why.append(f"{len(left_out) - _SHOWN_CAMPAIGNS:,} more campaigns are not counted either.")
    learnt = [one for one in served if one.usual_s is not None]
    return _Work(
        tasks=tasks,
        known=sum(one.claimable for one in learnt),
        spent_s=sum(one.claimable * (one.usual_s or 0) for one in learnt),
        longest_usual_s=max((one.usual_s or 0 for one in learnt), default=0.0),
    )


def _unmet(settings: PilotSettings, requires: Sequence[str]) -> str:
    """Return why tasks with these requirements are not for the pilot's agents."""
    unmet = missing(requires, settings.all_offers)
    names = {re.split("[>=]", tag)[0] for tag in unmet}
    if not names <= RESOURCE_TAGS.keys():
        return f"it requires {' '.join(unmet)}, which --offer does not name"
    whole = replace(settings, slots=1)
    fits = not missing(unmet, whole.all_offers)
    more = " and ".join(option for name, option in RESOURCE_TAGS.items() if name in names)
    what = "fewer --slots" if fits else f"more {more}, or say by --offer what they have"
    share = " ".join(tag for tag in settings.all_offers if tag.partition("=")[0] in RESOURCE_TAGS)
    return f"it requires {' '.join(unmet)}, and a slot of these agents has {share}; give {what}"


def _plan_the_end(waiting: Sequence[Waiting], fleet: PilotJobs, made: Plan) -> None:
    """Plan when nothing can be claimed: cancel long-queued jobs if nothing will come either."""
    to_come = sum(
        max(0, one.unfinished - one.working - one.claimable) for one in waiting if one.tags_suit
    )
    patient = sum(1 for waited_s in fleet.queued if waited_s >= PATIENCE_S)
    if to_come > 0:
        made.why.append(
            f"Nothing is submitted: {counted(to_come, 'task')} unfinished, but not to be claimed "
            "now (delayed, paused, or at a limit of running tasks)."
        )
    elif patient:
        made.cancel = patient
        made.why.append(f"Nothing is left for {counted(patient, 'queued job')}: cancelled.")
    else:
        made.why.append("Nothing is submitted; agents leave when they have been idle.")


def _plan_more(
    settings: PilotSettings, work: _Work, fleet: PilotJobs, state: PilotState, made: Plan
) -> None:
    by_time = _jobs_by_time(settings, work, fleet, made.why)
    jobs_at_hand = _at_hand(settings, work, fleet, made.why)
    by_number = _jobs_by_number(settings, work.tasks, jobs_at_hand, made.why)
    at_hand = math.floor(jobs_at_hand)
    wanted = max(0, min(by_number, by_time - at_hand))
    made.why.append(
        f"In addition to the {at_hand:,} at work, {counted(wanted, 'job')} wanted: {by_number:,} "
        f"could be filled, and {by_time:,} in all would each have "
        f"{_time(_least_work_s(settings))} of work "
        f"a {'core' if settings.slot_count == settings.cores else 'slot'}."
    )
    need = wanted - fleet.coming
    room = settings.most - fleet.live
    in_queue = fleet.submitting + len(fleet.queued)
    most_in_queue = max(settings.backlog, 2 * fleet.started_lately)
    if state.retry_in_s > 0:
        failures = "1 failure" if state.failures == 1 else f"{state.failures} failures in a row"
        trouble = f"; the last: {state.trouble}" if state.trouble else ""
        text = f"Nothing is submitted for {_time(state.retry_in_s)}, after {failures}{trouble}"
        made.why.append(_sentence(text))
    elif need <= 0:
        made.why.append(f"So none is submitted: {counted(fleet.coming, 'job')} to come.")
    elif room <= 0:
        made.why.append(f"So none is submitted: there may be {settings.most:,} at most (max_jobs).")
    elif most_in_queue <= in_queue:
        made.why.append(
            f"So none is submitted: {in_queue:,} wait in the batch system already (backlog "
            f"{settings.backlog:,}; {fleet.started_lately:,} began within a minute)."
        )
    else:
        made.submit = min(need, room, most_in_queue - in_queue)
        limit = ""
        if made.submit < need:
            limit = " (max_jobs)" if room <= most_in_queue - in_queue else " (backlog)"
        made.why.append(f"So {counted(made.submit, 'job')} submitted now{limit}.")


def _jobs_by_number(settings: PilotSettings, tasks: int, at_hand: float, why: list[str]) -> int:
    """Return how many jobs the waiting tasks could fill.

    A job of several nodes that would be less than half full is a waste: its tasks are left to the
    full jobs, or to the agents at work if those have a slot for each.
    """
    jobs, rest = divmod(tasks, settings.job_slots)
    if settings.nodes == 1 or rest >= settings.job_slots / 2:
        return math.ceil(tasks / settings.job_slots)
    if not rest:
        return jobs
    filled = f"{math.ceil(rest / settings.slot_count):,} of the {settings.nodes:,} nodes of a job"
    left = jobs > 0 or rest <= at_hand * settings.job_slots
    then = "left to other agents" if left else "the others will idle"
    why.append(f"The last {counted(rest, 'task')} would fill {filled}: {then}.")
    return jobs + (not left)


def _jobs_by_time(settings: PilotSettings, work: _Work, fleet: PilotJobs, why: list[str]) -> int:
    """Return how many jobs would have enough work, and say how long it takes."""
    unknown = work.tasks - work.known
    spent_s = work.spent_s
    if work.known:
        mean = _time(work.spent_s / work.known)
        of_them = "They" if work.known == work.tasks else f"{work.known:,} of them"
        why.append(f"{of_them} take {mean} each, as the latest did.")
    fewest = 1
    if unknown:
        # As long as none has ended, they last at least as long as agents have worked on them.
        assumed_s = max(fleet.serving, default=0.0)
        spent_s += unknown * assumed_s
        fewest = max(1, settings.backlog)
        learnt = f"at least {_time(assumed_s)} is assumed" if assumed_s else "a few jobs find out"
        why.append(f"How long {counted(unknown, 'task')} take is not known yet: {learnt}.")
    return max(fewest, math.ceil(spent_s / (settings.job_slots * _least_work_s(settings))))


def _least_work_s(settings: PilotSettings) -> float:
    """Return how much work is worth a job: no more than the job can do."""
    return min(settings.least_work, settings.lifetime_s)


def _at_hand(settings: PilotSettings, work: _Work, fleet: PilotJobs, why: list[str]) -> float:
    """Return how many jobs the agents at work are worth.

    A job that ends before it could do `least_work` counts for a part of a job. One that could not
    end even one more task counts for none. Settling jobs count among those to come.
    """
    least_s = _least_work_s(settings)
    left_s = [settings.lifetime_s - ran_s for ran_s in fleet.serving]
    useful_s = [one for one in left_s if one >= work.longest_usual_s]
    if len(useful_s) < len(left_s):
        ending = counted(len(left_s) - len(useful_s), "job")
        why.append(f"{ending} at work will end before another task could.")
    slots = settings.job_slots
    there = max(0.0, fleet.slots / slots - fleet.settling)
    others = max(0.0, there - len(fleet.serving))
    parts = sum(min(1.0, max(0.0, one) / least_s) for one in useful_s)
    return min(there, others + parts)  # of a job's agents some may have left


def _about_fleet(settings: PilotSettings, fleet: PilotJobs) -> str:
    parts = {
        "serving": len(fleet.serving) + fleet.settling,
        "starting": fleet.starting,
        "queued": len(fleet.queued),
        "being submitted": fleet.submitting,
    }
    said = ", ".join(f"{number:,} {what}" for what, number in parts.items() if number)
    slots = "" if settings.slots is None else f" with {counted(settings.slots, 'slot')}"
    nodes = "" if settings.nodes == 1 else f"{settings.nodes:,} nodes, each of "
    jobs = f"jobs of {nodes}{counted(settings.cores, 'core')}{slots}"
    return (
        f"Live {jobs}: {said or 'none'}, of {settings.most:,} "
        f"at most; all agents like these have {counted(fleet.slots, 'slot')}."
    )


def _most_common(words: Sequence[str]) -> str:
    """Return the words that most jobs share first, with how many jobs have them."""
    shown = Counter(words).most_common(_SHOWN_REASONS)
    return "; ".join(f"{why} ({counted(number, 'job')})" for why, number in shown)


def _sentence(text: str) -> str:
    """End a quoted text with exactly one full stop."""
    return f"{text.rstrip().rstrip('.')}."


def _time(seconds: float) -> str:
    if seconds < MINUTE_S:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"  # noqa: PLR2004  # two digits
    if seconds < HOUR_S:
        return f"{seconds / MINUTE_S:.3g} min"
    return f"{seconds / HOUR_S:.3g} h"
