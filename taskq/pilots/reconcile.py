"""Comparison of a pilot's stored jobs with the batch system's answer. Pure.

A job is written down before the batch system gets it. So if a loop dies while it submits a job, the
name shows what happened: either the batch system has the job, and it goes on; or it does not, and
after a while the job counts as never submitted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from taskq.model.pilot_views import PilotJob
from taskq_agent.text import clean

#: Seconds after which a job unknown to the batch system was never submitted: longer than a
#: submission may take (`drivers.commands`), and a loop's term (`loop`).
NEVER_CAME_S: Final = 300.0
#: Without evidence a job counts as gone after so many answers in a row without it, the first of
#: them so many seconds ago.
MISSING_POLLS: Final = 5
MISSING_S: Final = 180.0
#: Outcomes without evidence.
UNPROVEN: Final = frozenset({"refused", "vanished"})
#: Failures in a row after which a pilot pauses itself.
MOST_FAILURES: Final = 5
#: Seconds without submissions after a first failure; they double with each, up to `LAST_RETRY_S`.
FIRST_RETRY_S: Final = 15.0
LAST_RETRY_S: Final = 600.0

JobState: TypeAlias = Literal["queued", "running", "ended"]
#: Why a batch system ended a job, where its words say so. cancelled: somebody asked for it.
EndReason: TypeAlias = Literal["memory", "node", "preempted", "time", "cancelled"]
#: Reasons for which neither the job nor its tasks are to blame.
_TAKEN: Final = ("preempted", "cancelled")


@dataclass(frozen=True, slots=True)
class SeenJob:
    """What the batch system says of a job.

    native_id: the batch system's own name for it; empty if it has none or does not say it. why: its
    words on the state, cleaned for the database. exit_code: the agent's, if known. reason: why the
    batch system ended it; None if the job ended alone, or nobody knows.
    """

    native_id: str
    state: JobState
    why: str | None = None
    exit_code: int | None = None
    place: str | None = None
    reason: EndReason | None = None

    @property
    def taken(self) -> bool:
        """Whether the job was ended for others' sake, so its tasks are not to blame."""
        return self.reason in _TAKEN

    def __post_init__(self) -> None:
        if self.why is not None:
            object.__setattr__(self, "why", clean(self.why))


@dataclass(frozen=True, slots=True)
class Change:
    """A change to store for a job; None means as before.

    missing: the batch system's answer did not have it. heard: whether its agent was ever heard.
    idle: its agent left without an attempt. reason, taken: as of `SeenJob`.
    """

    number: int
    name: str
    status: str
    native_id: str | None = None
    place: str | None = None
    outcome: str | None = None
    why: str | None = None
    exit_code: int | None = None
    tail: str | None = None
    cancelled: bool = False
    missing: bool = False
    heard: bool = False
    idle: bool = False
    reason: EndReason | None = None
    taken: bool = False


@dataclass(frozen=True, slots=True)
class SubmissionHealth:
    """Failures in a row, and their consequence. retry_s: submit nothing for so long."""

    failures: int
    trouble: str
    retry_s: float | None = None
    pause_why: str | None = None


@dataclass(frozen=True, slots=True)
class PilotRound:
    """What a loop did for a pilot.

    acted: whether this loop acts for the pilot now, and this machine can.
    """

    name: str
    acted: bool
    submitted: int = 0
    cancelled: int = 0
    ended: int = 0
    trouble: str | None = None


def looked_at(jobs: Sequence[PilotJob]) -> list[PilotJob]:
    """Return the jobs to ask the batch system about: the live ones, and those that may be alive."""
    return [job for job in jobs if job.status != "ended" or job.outcome in UNPROVEN]


def reconcile(jobs: Sequence[PilotJob], seen: Mapping[str, SeenJob]) -> list[Change]:
    """Return what has changed, in the order of the jobs.

    jobs: those of `looked_at`. seen: the batch system's answer, by name. It may know jobs that are
    not ours, and forget jobs that have ended.
    """
    changes = (_change(job, seen.get(job.name)) for job in jobs)
    return [change for change in changes if change is not None]


def _change(job: PilotJob, seen: SeenJob | None) -> Change | None:
    if seen is None:
        return _turned_up(job) if job.status == "ended" else _missing(job)
    if job.status == "ended" == seen.state:
        return None
    change = Change(
        job.number,
        job.name,
        seen.state,
        native_id=seen.native_id or None,
        place=seen.place,
        why=seen.why,
        exit_code=seen.exit_code,
    )
    if seen.state == "ended":
        return _over(job, replace(change, reason=seen.reason, taken=seen.taken))
    same = (job.status, job.why, job.missing_polls) == (seen.state, seen.why, 0)
    return None if same and seen.native_id in {"", job.native_id} else change


def _turned_up(job: PilotJob) -> Change | None:
    """Return that a job given up is running after all, if its agent is at work."""
    return Change(job.number, job.name, "running") if job.at_work else None


def _missing(job: PilotJob) -> Change | None:
    """Return what is known of a live job that is missing from the batch system's answer."""
    same = Change(job.number, job.name, job.status, why=job.why)
    if job.at_work:  # its agent is there, whatever the batch system says
        return same if job.missing_polls else None
    gone = replace(same, status="ended", why="the batch system does not know it any more")
    if job.left_why is not None:  # its agent has said goodbye
        return _over(job, gone)
    asked = job.cancelled_at is not None and job.status == "queued"
    if job.status == "submitting":
        is_long = job.age_s >= NEVER_CAME_S
    else:
        is_long = asked or (job.missing_s or 0.0) >= MISSING_S
    if job.missing_polls + 1 < MISSING_POLLS or not is_long:
        return replace(same, missing=True)
    if asked:
        return _over(job, gone)
    if job.status == "submitting" and job.heard_at is None:
        return replace(gone, outcome="refused", why="it never reached the batch system")
    return replace(gone, outcome="vanished", heard=job.heard_at is not None)


def _over(job: PilotJob, change: Change) -> Change:
    """Return the end of a job that is over by evidence."""
    outcome = "died"
    if job.heard_at is not None:
        outcome = "served"
    elif job.cancelled_at is not None or change.taken:
        outcome = "cancelled"
    idle = outcome == "served" and job.attempts == 0
    return replace(change, outcome=outcome, heard=job.heard_at is not None, idle=idle)


def health(
    before: int,
    changes: Sequence[Change],
    *,
    heard: bool,
    refusal: str | None = None,
    alone: bool = True,
    waiting: bool = False,
) -> SubmissionHealth | None:
    """Return the failures in a row after a round; None means as before.

    before: the failures in a row so far. heard: whether an agent was heard for the first time since
    the last failure. refusal: the batch system's words, if a submission has failed. alone: whether
    no job is live. If some are, a refusal may be a limit of the site, so the pilot only waits. Jobs
    that vanish or never come together, unheard, count as one failure: the batch system's rather
    than each job's. waiting: whether tasks wait for such jobs. If they do, a job whose agent left
    without an attempt is a failure too; it never pauses the pilot, since its agents are heard.
    """
    died = [change for change in changes if change.outcome == "died"]
    died += [ended for ended in changes if ended.outcome in UNPROVEN and not ended.heard][:1]
    bad = died or [ended for ended in changes if ended.idle and waiting][:1]
    if not bad and refusal is None:
        return SubmissionHealth(0, "") if heard and before else None
    failures = (0 if heard else before) + len(bad) + (refusal is not None)
    trouble = refusal if refusal is not None else _obituary(bad[0])
    retry_s = min(LAST_RETRY_S, FIRST_RETRY_S * 2.0 ** (min(failures, 20) - 1))
    only_idle = refusal is None and not died
    if failures < MOST_FAILURES or only_idle or (refusal is not None and not alone):
        return SubmissionHealth(failures, trouble, retry_s)
    what = (
        "submissions failed" if refusal is not None else "jobs died before their agents were heard"
    )
    pause_why = f"{failures} {what}, one after the other; the last: {trouble}"
    return SubmissionHealth(failures, trouble, retry_s, pause_why)


def heard_since(ago_s: float | None, jobs: Sequence[PilotJob]) -> bool:
    """Return whether an agent was first heard since so many seconds ago, which ends a series.

    It means nothing good if the latest agent that has left ran no attempt, until one has run some.
    """
    known = [job for job in jobs if job.status == "ended" and job.attempts is not None]
    latest = max(known, key=lambda job: job.number, default=None)
    since_s = math.inf if ago_s is None else ago_s
    return any(
        (job.heard_ago_s or math.inf) < since_s
        and (latest is None or latest.attempts != 0 or bool(job.attempts))
        for job in jobs
    )


def _obituary(change: Change) -> str:
    """Return what is known of a job whose agent was never heard."""
    died = "" if change.outcome in UNPROVEN else " died before its agent was heard"
    if change.idle:
        died = " ended without an attempt, though tasks wait; `taskq explain` may say why"
    code = None if change.exit_code is None else f"exit code {change.exit_code}"
    lines = (change.tail or "").strip().splitlines()
    last_lines = " | ".join(line.strip()[:500] for line in lines[-2:]) or None
    known = (f"job {change.number}{died}", change.why, code, last_lines)
    return ": ".join(filter(None, known))
