"""Answers of a batch system that lie: empty, with a part of the jobs, late. No job is orphaned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from taskq.model.pilot_views import PilotJob
from taskq.pilots.reconcile import (
    MISSING_POLLS,
    MISSING_S,
    NEVER_CAME_S,
    UNPROVEN,
    Change,
    SeenJob,
    looked_at,
    reconcile,
)

NOW = datetime(2026, 11, 1, tzinfo=timezone.utc)
JOBS = 3
_NOTHING: dict[str, Any] = dict.fromkeys(PilotJob.__dataclass_fields__)


@dataclass
class Truth:
    """A job as it is; None: the batch system has not got it yet."""

    state: str | None = None
    heard: bool = False
    at_work: bool = False
    left: bool = False


class Site:
    """Jobs as they are, as they were a while ago, and as a loop has written them down."""

    def __init__(self) -> None:
        self.truth = [Truth() for _ in range(JOBS)]
        self.before: dict[str, SeenJob] = {}
        self.missing_since: dict[int, float] = {}
        self.now = 0.0
        blank: dict[str, Any] = {
            **_NOTHING,
            "began_at": NOW,
            "age_s": 0.0,
            "at_work": False,
            "missing_polls": 0,
        }
        self.written = [
            PilotJob(**{**blank, "number": n, "name": f"j{n}", "status": "submitting"})
            for n in range(JOBS)
        ]
        self.unseen = [0] * JOBS
        self.unseen_since = [0.0] * JOBS

    def honest(self) -> dict[str, SeenJob]:
        """Return what an answer says that does not lie; the system never forgets here."""
        return {
            f"j{n}": SeenJob(str(n), truth.state)  # type: ignore[arg-type]
            for n, truth in enumerate(self.truth)
            if truth.state is not None
        }

    def poll(self, answer: dict[str, SeenJob]) -> None:
        """Let the loop look, and write down what it makes of it, as note_pilot() does."""
        self.written = [self._as_queried(job) for job in self.written]
        for n in range(JOBS):
            if f"j{n}" in answer:
                self.unseen[n] = 0
            elif not self.unseen[n]:
                self.unseen[n], self.unseen_since[n] = 1, self.now
            else:
                self.unseen[n] += 1
        for change in reconcile(looked_at(self.written), answer):
            self._note(change)

    def _as_queried(self, job: PilotJob) -> PilotJob:
        truth = self.truth[job.number]
        since = self.missing_since.get(job.number)
        return replace(
            job,
            age_s=self.now,
            heard_at=NOW if truth.heard else None,
            at_work=truth.at_work,
            left_why="it got a signal to stop" if truth.left else None,
            missing_s=None if since is None else self.now - since,
        )

    def _note(self, change: Change) -> None:
        job = self.written[change.number]
        if change.missing:
            self.missing_since.setdefault(job.number, self.now)
        else:
            self.missing_since.pop(job.number, None)
        self.written[change.number] = replace(
            job,
            status=change.status,
            native_id=change.native_id or job.native_id,
            why=change.why,
            outcome=change.outcome if change.status == "ended" else None,
            missing_polls=job.missing_polls + 1 if change.missing else 0,
        )


def steps() -> st.SearchStrategy[list[tuple[str, int, float]]]:
    """Return sequences of events, with the job that they are about, and seconds that pass."""
    events = ("come", "begin", "hear", "cut off", "leave", "end", "honest", "empty", "part", "late")
    return st.lists(
        st.tuples(
            st.sampled_from(events), st.integers(0, JOBS - 1), st.sampled_from([1.0, 10.0, 100.0])
        ),
        max_size=60,
    )


def happen(site: Site, event: str, number: int) -> None:
    """Let something become of a job, if it can."""
    truth = site.truth[number]
    if event == "come" and truth.state is None:
        truth.state = "queued"
    elif event == "begin" and truth.state == "queued":
        truth.state = "running"
    elif event == "hear" and truth.state == "running":
        truth.heard = truth.at_work = True
    elif event == "cut off":  # its session is given up, and it goes on
        truth.at_work = False
    elif event in {"end", "leave"} and truth.state == "running":
        truth.state, truth.left, truth.at_work = "ended", event == "leave" and truth.heard, False


def answer_of(site: Site, event: str, number: int) -> dict[str, SeenJob] | None:
    """Return what the batch system says; None: it is not asked."""
    honest = site.honest()
    answers = {
        "empty": {},
        "part": {name: job for name, job in honest.items() if name != f"j{number}"},
        "late": site.before,
        "honest": honest,
    }
    if event == "honest":
        site.before = honest
    return answers.get(event)


def assert_nothing_is_given_up_early(site: Site) -> None:
    """Whatever is written down as over, and is not, was missing for long."""
    for n, (job, truth) in enumerate(zip(site.written, site.truth, strict=True)):
        if job.status == "ended" and truth.state != "ended":
            assert job.outcome in UNPROVEN
            assert site.unseen[n] >= MISSING_POLLS
            assert site.now - site.unseen_since[n] >= MISSING_S or site.now >= NEVER_CAME_S
            assert not truth.at_work


@given(steps())
def test_no_live_job_is_given_up_for_one_lie(history: list[tuple[str, int, float]]) -> None:
    """An end needs evidence, or several answers in a row and minutes; what is seen is adopted."""
    site = Site()
    for event, number, seconds in history:
        site.now += seconds
        answer = answer_of(site, event, number)
        if answer is None:
            happen(site, event, number)
        else:
            site.poll(answer)
            assert_nothing_is_given_up_early(site)
    site.poll(site.honest())
    for job, truth in zip(site.written, site.truth, strict=True):
        if truth.state is not None:
            assert job.status == truth.state, "what turns up again is looked after again"
    for _ in range(MISSING_POLLS):
        site.now += NEVER_CAME_S
        site.poll({name: job for name, job in site.honest().items() if job.state != "ended"})
    assert all(
        job.status == "ended"
        for job, truth in zip(site.written, site.truth, strict=True)
        if truth.state in {None, "ended"}
    )
