"""Comparison of a pilot's jobs as written down with what the batch system says. Pure.

A job is written down before the batch system hears of it. So one that a loop was about to submit
when it died is known by its name: the batch system has it, and it goes on; or it does not, and
after a while it is taken for one that never got there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from taskq.views import PilotJob
from taskq_agent.text import clean

#: Seconds after which a job that the batch system does not know was never submitted: longer than a
#: submission may take, see `drivers/commands.py`, and a loop's term, see `loop.py`.
NEVER_CAME_S: Final = 300.0
#: Failures in a row after which a pilot pauses itself.
MOST_FAILURES: Final = 5
#: Seconds without a submission after a first failure; they double with each, up to `LAST_RETRY_S`.
FIRST_RETRY_S: Final = 15.0
LAST_RETRY_S: Final = 600.0

JobState: TypeAlias = Literal["queued", "running", "ended"]


@dataclass(frozen=True, slots=True)
class SeenJob:
    """What the batch system says of a job.

    native_id: its own name for it; empty: it has none, or does not say it. why: its words on the
    state, cleaned to be stored. exit_code: the agent's, if known. cancelled: whether somebody ended
    it there.
    """

    native_id: str
    state: JobState
    why: str | None = None
    exit_code: int | None = None
    place: str | None = None
    cancelled: bool = False

    def __post_init__(self) -> None:
        if self.why is not None:
            object.__setattr__(self, "why", clean(self.why))


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be written down of a job; None: as before."""

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


@dataclass(frozen=True, slots=True)
class SubmissionHealth:
    """Failures in a row, and what follows. retry_s: submit nothing for so long."""

    failures: int
    trouble: str
    retry_s: float | None = None
    pause_why: str | None = None


def reconcile(jobs: Sequence[PilotJob], seen: Mapping[str, SeenJob]) -> list[Change]:
    """Return what has changed, ordered as the jobs are.

    jobs: all that are live, and the latest of the others. seen: what the batch system says, by
    name; it may know jobs that are not ours, and forget those that ended.
    """
    changes = (_change(job, seen.get(job.name)) for job in jobs)
    return [change for change in changes if change is not None]


def _change(job: PilotJob, seen: SeenJob | None) -> Change | None:
    if seen is None:
        return None if job.status == "ended" else _unknown(job)
    if job.status == "ended" and (job.outcome != "refused" or seen.state == "ended"):
        return None  # else it was taken for one that never came, and came
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
        return replace(change, outcome=_outcome(job, seen))
    same = (job.status, job.why) == (seen.state, seen.why)
    return None if same and seen.native_id in {"", job.native_id} else change


def _unknown(job: PilotJob) -> Change | None:
    """Return what has become of a live job that the batch system does not know."""
    if job.at_work:  # its agent is there, whatever the batch system says
        return None
    gone = Change(job.number, job.name, "ended")
    if job.status != "submitting":
        why = "the batch system does not know it any more"
        return replace(gone, outcome=_outcome(job, None), why=why)
    if job.heard_at is not None:
        return replace(gone, outcome="served")
    if job.age_s < NEVER_CAME_S:
        return None
    return replace(gone, outcome="refused", why="it never reached the batch system")


def _outcome(job: PilotJob, seen: SeenJob | None) -> str:
    if job.heard_at is not None:
        return "served"
    if job.cancelled_at is not None or (seen is not None and seen.cancelled):
        return "cancelled"
    return "died"


def health(
    before: int,
    changes: Sequence[Change],
    *,
    heard: bool,
    refusal: str | None = None,
    alone: bool = True,
) -> SubmissionHealth | None:
    """Return the failures in a row after a round; None: as before.

    before: as they were. heard: whether an agent was heard for the first time since the last.
    refusal: the batch system's words, where a submission has failed. alone: whether no job is live;
    where some are, a refusal may be a limit of the site, so the pilot only waits.
    """
    died = [change for change in changes if change.outcome in ("died", "refused")]
    if not died and refusal is None:
        return SubmissionHealth(0, "") if heard and before else None
    failures = (0 if heard else before) + len(died) + (refusal is not None)
    trouble = refusal if refusal is not None else _obituary(died[0])
    retry_s = min(LAST_RETRY_S, FIRST_RETRY_S * 2.0 ** (min(failures, 20) - 1))
    if failures < MOST_FAILURES or (refusal is not None and not alone):
        return SubmissionHealth(failures, trouble, retry_s)
    what = (
        "submissions failed" if refusal is not None else "jobs died before their agents were heard"
    )
    pause_why = f"{failures} {what}, one after the other; the last: {trouble}"
    return SubmissionHealth(failures, trouble, retry_s, pause_why)


def _obituary(change: Change) -> str:
    """Return what is known of a job that its agent never spoke for."""
    died = "" if change.outcome == "refused" else " died before its agent was heard"
    code = None if change.exit_code is None else f"exit code {change.exit_code}"
    lines = (change.tail or "").strip().splitlines()
    last_line = lines[-1].strip()[:500] if lines else None
    known = (f"job {change.number}{died}", change.why, code, last_line)
    return ": ".join(filter(None, known))
