"""Decision about a pilot: how many jobs to submit or to cancel now, and the facts behind it. Pure.

A job is worth its start only if there is work for it. So there are never more jobs than the waiting
tasks could fill, and each could get `least_work` for each of its cores, judged by the run times of
the campaigns' latest attempts. The batch system gets a few at a time (`backlog`), and more as it
lets them through: twice as many as began within the last minute.

`plan_words` says all this in sentences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from taskq.pilots.settings import PilotSettings

#: A job is cancelled only after it has waited for so long: retried tasks may still want it.
PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """The waiting tasks of a campaign; fields as in `pilot_demand.sql`."""

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
    batch: int = 1
    memory: int | None = None
    retry_memory: int | None = None

    @property
    def starts(self) -> int:
        """How many slots the waiting tasks fill: many may have one start."""
        return -(-self.claimable // self.batch)


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


class Misfit(Enum):
    """Why waiting tasks of a campaign do not count: these agents could not run them."""

    TAGS = "tags"
    TIME_LIMIT = "time limit"
    RUN_TIME = "run time"


class PlanReason(Enum):
    """What decided how many jobs are submitted or cancelled."""

    REMOVED = "removed"
    PAUSED = "paused"
    #: Nothing can be claimed now, but there is more to come.
    TO_COME = "to come"
    #: Nothing is left for jobs that have waited for long.
    NOTHING_LEFT = "nothing left"
    NOTHING_WAITS = "nothing waits"
    FAILED_LATELY = "failed lately"
    #: The jobs to come will do.
    ENOUGH = "enough"
    #: These limits leave no room for another job, or for all that are needed.
    MAX_JOBS = "max_jobs"
    BACKLOG = "backlog"
    NEEDED = "needed"


@dataclass(frozen=True, slots=True)
class Work:
    """What the agents could do.

    waiting: tasks that they could claim now; starts: those that begin together count as one;
    working: tasks that somebody works on. known: starts whose run time is known; spent_s: their
    time in sum; longest_usual_s: of the campaign with the longest. left_out: campaigns whose tasks
    do not count.
    """

    waiting: int
    starts: int
    working: int
    known: int
    spent_s: float
    longest_usual_s: float
    left_out: tuple[tuple[Waiting, Misfit], ...]


@dataclass(frozen=True, slots=True)
class AtHand:
    """The agents at work. jobs: how many whole jobs they are worth.

    ending: jobs that will end before they could do another task, and so count for nothing.
    """

    jobs: float
    ending: int


@dataclass(frozen=True, slots=True)
class Filled:
    """How many jobs the waiting tasks could fill.

    rest: tasks that would fill less than half of a job of several nodes; 0 if there are none.
    left: whether these are left to other agents, and have no job.
    """

    jobs: int
    rest: int = 0
    left: bool = False


@dataclass(frozen=True, slots=True)
class WorthIt:
    """How many jobs would have enough work. assumed_s: each task of unknown length lasts as long.

    each_s: of work for each core or slot of a job.
    """

    jobs: int
    assumed_s: float
    each_s: float


@dataclass(frozen=True, slots=True)
class WantedJobs:
    """How many jobs are wanted in addition to the agents at work, and what that follows from."""

    jobs: int
    at_hand: AtHand
    filled: Filled
    worth_it: WorthIt


@dataclass(frozen=True, slots=True)
class Decision:
    """How many jobs to submit and to cancel, why, and what it was decided from.

    wanted: None if it does not matter. to_come: unfinished tasks that cannot be claimed now.
    """

    settings: PilotSettings
    fleet: PilotJobs
    state: PilotState
    work: Work
    reason: PlanReason
    submit: int = 0
    cancel: int = 0
    wanted: WantedJobs | None = None
    to_come: int = 0


def decide(
    settings: PilotSettings, waiting: Sequence[Waiting], fleet: PilotJobs, state: PilotState
) -> Decision:
    """Return what to do at this moment."""
    work = _work(settings, waiting)
    if state.status == "removed":
        idle = Decision(settings, fleet, state, work, PlanReason.REMOVED)
        return replace(idle, cancel=len(fleet.queued))
    if state.status == "paused":
        return Decision(settings, fleet, state, work, PlanReason.PAUSED)
    if work.starts:
        return _decide_on_more(settings, fleet, state, work)
    to_come = sum(
        max(0, campaign.unfinished - campaign.working - campaign.claimable)
        for campaign in waiting
        if campaign.tags_suit
    )
    patient = sum(1 for waited_s in fleet.queued if waited_s >= PATIENCE_S)
    if to_come > 0:
        return Decision(settings, fleet, state, work, PlanReason.TO_COME, to_come=to_come)
    reason = PlanReason.NOTHING_LEFT if patient else PlanReason.NOTHING_WAITS
    return Decision(settings, fleet, state, work, reason, cancel=patient)


def _work(settings: PilotSettings, waiting: Sequence[Waiting]) -> Work:
    """Sum up what these agents could claim now."""
    judged = [(campaign, _misfit(settings, campaign)) for campaign in waiting if campaign.claimable]
    served = [campaign for campaign, misfit in judged if misfit is None]
    learnt = [campaign for campaign in served if campaign.usual_s is not None]
    return Work(
        waiting=sum(campaign.claimable for campaign in served),
        starts=sum(campaign.starts for campaign in served),
        working=sum(campaign.working for campaign in waiting),
        known=sum(campaign.starts for campaign in learnt),
        spent_s=sum(campaign.starts * (campaign.usual_s or 0) for campaign in learnt),
        longest_usual_s=max((campaign.usual_s or 0 for campaign in learnt), default=0.0),
        left_out=tuple((campaign, misfit) for campaign, misfit in judged if misfit is not None),
    )


def _misfit(settings: PilotSettings, campaign: Waiting) -> Misfit | None:
    if not campaign.tags_suit:
        return Misfit.TAGS
    if not campaign.time_suits:
        return Misfit.TIME_LIMIT
    if campaign.time_limit_s is None and (campaign.usual_s or 0) > settings.lifetime_s:
        return Misfit.RUN_TIME
    return None


def _decide_on_more(
    settings: PilotSettings, fleet: PilotJobs, state: PilotState, work: Work
) -> Decision:
    wanted = _wanted(settings, work, fleet)
    need = wanted.jobs - fleet.coming
    room = settings.most - fleet.live
    in_queue = fleet.submitting + len(fleet.queued)
    room_in_queue = max(settings.backlog, 2 * fleet.started_lately) - in_queue
    submit = 0
    if state.retry_in_s > 0:
        reason = PlanReason.FAILED_LATELY
    elif need <= 0:
        reason = PlanReason.ENOUGH
    else:
        submit = max(0, min(need, room, room_in_queue))
        reason = PlanReason.NEEDED
        if submit < need:
            reason = PlanReason.MAX_JOBS if room <= max(0, room_in_queue) else PlanReason.BACKLOG
    return Decision(settings, fleet, state, work, reason, submit=submit, wanted=wanted)


def _wanted(settings: PilotSettings, work: Work, fleet: PilotJobs) -> WantedJobs:
    worth_it = _worth_it(settings, work, fleet)
    at_hand = _at_hand(settings, work, fleet)
    filled = _filled(settings, work.starts, at_hand.jobs)
    jobs = max(0, min(filled.jobs, worth_it.jobs - math.floor(at_hand.jobs)))
    return WantedJobs(jobs, at_hand, filled, worth_it)


def _filled(settings: PilotSettings, tasks: int, at_hand: float) -> Filled:
    """Return how many jobs the waiting tasks could fill.

    A job of several nodes that would be less than half full is a waste: its tasks are left to the
    full jobs, or to the agents at work if those have a slot for each.
    """
    jobs, rest = divmod(tasks, settings.job_slots)
    if settings.nodes == 1 or rest >= settings.job_slots / 2:
        return Filled(math.ceil(tasks / settings.job_slots))
    if not rest:
        return Filled(jobs)
    left = jobs > 0 or rest <= at_hand * settings.job_slots
    return Filled(jobs + (not left), rest, left)


def _worth_it(settings: PilotSettings, work: Work, fleet: PilotJobs) -> WorthIt:
    """Return how many jobs would have enough work."""
    unknown = work.starts - work.known
    # As long as none has ended, they last at least as long as agents have worked on them.
    assumed_s = max(fleet.serving, default=0.0) if unknown else 0.0
    spent_s = work.spent_s + unknown * assumed_s
    fewest = max(1, settings.backlog) if unknown else 1
    least_s = _least_work_s(settings)
    jobs = max(fewest, math.ceil(spent_s / (settings.job_slots * least_s)))
    return WorthIt(jobs, assumed_s, least_s)


def _least_work_s(settings: PilotSettings) -> float:
    """Return how much work is worth a job: no more than the job can do."""
    return min(settings.least_work, settings.lifetime_s)


def _at_hand(settings: PilotSettings, work: Work, fleet: PilotJobs) -> AtHand:
    """Return how many jobs the agents at work are worth.

    A job that ends before it could do `least_work` counts for a part of a job. One that could not
    end even one more task counts for none. Settling jobs count among those to come.
    """
    least_s = _least_work_s(settings)
    left_s = [settings.lifetime_s - ran_s for ran_s in fleet.serving]
    useful_s = [left for left in left_s if left >= work.longest_usual_s]
    slots = settings.job_slots
    there = max(0.0, fleet.slots / slots - fleet.settling)
    others = max(0.0, there - len(fleet.serving))
    parts = sum(min(1.0, max(0.0, useful) / least_s) for useful in useful_s)
    # Of a job's agents some may have left.
    return AtHand(min(there, others + parts), len(left_s) - len(useful_s))
