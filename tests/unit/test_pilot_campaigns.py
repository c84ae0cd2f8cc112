"""Whole campaigns of a pilot, played with the plan alone: seeded, and nobody waits.

A batch system gives jobs cores after a while, and ends them at their walls. Agents take the next
task that fits into the time that they have left, as far as the longest that has ended tells.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from taskq.pilots.planner import PilotJobs, PilotState, Waiting, decide
from taskq.pilots.settings import PilotSettings

PERIOD_S = 10
#: From the start of a job to its agent's first claim.
START_S = 2
SETTLING_S = 15
LATELY_S = 60
#: The plan gets the mean of so many attempts that ended last.
LATEST = 100


@dataclass
class Job:
    """A batch job. ends_at: of the task in each slot; None: it is free."""

    cores: int
    submitted_at: int
    began_at: int | None = None
    ended_at: int | None = None
    ends_at: list[tuple[int, int] | None] = field(default_factory=list)
    idle_since: int = 0
    next_at: int = 0


class Campaign:
    """Tasks, jobs and a clock of whole seconds.

    most: jobs that the batch system runs at a time. wait_s: how long one waits there at least.
    """

    def __init__(
        self, settings: PilotSettings, tasks: list[int], *, most: int, wait_s: int = 0
    ) -> None:
        self.settings = settings
        self.waiting = tasks
        self.work_s = sum(tasks)
        self.most, self.wait_s = most, wait_s
        self.now = 0
        self.jobs: list[Job] = []
        self.latest: list[int] = []
        self.done_s = 0

    @property
    def ideal_s(self) -> float:
        """How long all cores would take, had they all been there at once."""
        longest_s = max(self.waiting, default=0)
        cores = self.most * self.settings.cores
        return max(longest_s, self.work_s / cores) + self.wait_s + START_S

    @property
    def share(self) -> float:
        """The share of the jobs' core time that payloads had."""
        held_s = sum(
            (job.ended_at - job.began_at) * job.cores
            for job in self.jobs
            if job.began_at is not None and job.ended_at is not None
        )
        return self.done_s / held_s

    def run(self) -> int:
        """Play it to the end of the last job; return when the last task had ended."""
        ended_at = 0
        while self.waiting or any(job.ended_at is None for job in self.jobs):
            assert self.now < 1_000_000, "it never ends"
            if self.now % PERIOD_S == 0:
                self._decide()
            self._run_jobs()
            if self.waiting or any(any(job.ends_at) for job in self.jobs):
                ended_at = self.now + 1
            self.now += 1
        return ended_at

    def _decide(self) -> None:
        made = decide(self.settings, [self._demand()], self._fleet(), PilotState())
        self.jobs += [Job(self.settings.cores, self.now) for _ in range(made.submit)]
        for job in [job for job in self.jobs if job.began_at is None][: made.cancel]:
            self.jobs.remove(job)

    def _demand(self) -> Waiting:
        latest = self.latest[-LATEST:]
        working = sum(slot is not None for job in self.jobs for slot in job.ends_at)
        return Waiting(
            campaign_id=1,
            path="/c",
            claimable=len(self.waiting),
            working=working,
            unfinished=len(self.waiting) + working,
            usual_s=sum(latest) / len(latest) if latest else None,
            time_limit_s=None,
            requires=(),
            tags_suit=True,
            time_suits=True,
        )

    def _fleet(self) -> PilotJobs:
        live = [job for job in self.jobs if job.ended_at is None]
        ages = [self.now - job.began_at for job in live if job.began_at is not None]
        heard = [age for age in ages if age >= START_S]
        settled = [age for age in heard if age - START_S > SETTLING_S]
        return PilotJobs(
            queued=tuple(
                float(self.now - job.submitted_at) for job in live if job.began_at is None
            ),
            starting=len(ages) - len(heard),
            serving=tuple(map(float, settled)),
            settling=len(heard) - len(settled),
            started_lately=sum(age < LATELY_S for age in ages),
            slots=len(heard) * self.settings.cores,
        )

    def _run_jobs(self) -> None:
        running = sum(job.began_at is not None and job.ended_at is None for job in self.jobs)
        for job in self.jobs:
            if job.ended_at is not None:
                continue
            if job.began_at is None:
                if running < self.most and self.now - job.submitted_at >= self.wait_s:
                    running += 1
                    job.began_at = self.now
                    job.ends_at = [None] * job.cores
                    job.idle_since = self.now + START_S
                continue
            self._serve(job, job.began_at)

    def _serve(self, job: Job, began_at: int) -> None:
        left_s = began_at + int(self.settings.lifetime_s) - self.now
        if left_s <= 0:  # what runs is handed back, and its time is lost
            self.waiting += [slot[1] for slot in job.ends_at if slot is not None]
            job.ends_at, job.ended_at = [], self.now
            return
        all_busy = job.ends_at and all(job.ends_at) and self.now < job.next_at
        if self.now < began_at + START_S or all_busy:
            return
        for n, slot in enumerate(job.ends_at):
            if slot is not None and slot[0] <= self.now:
                self.latest.append(slot[1])
                self.done_s += slot[1]
                job.ends_at[n] = None
            if job.ends_at[n] is None and self.waiting and self._longest_s() <= left_s:
                task = self.waiting.pop(0)
                job.ends_at[n] = self.now + task, task
        if any(job.ends_at):
            job.idle_since = self.now
            job.next_at = min(slot[0] for slot in job.ends_at if slot is not None)
        elif self.now - job.idle_since >= self.settings.idle_timeout:
            job.ends_at, job.ended_at = [], self.now

    def _longest_s(self) -> int:
        return max(self.latest[-LATEST:], default=0)


def settings(**values: object) -> PilotSettings:
    """Return settings with jobs of eight cores, whose agents leave when they have been idle."""
    table: dict[str, object] = {"cores": 8, "idle_timeout": 10.0, "max_jobs": 8, "backlog": 2}
    return PilotSettings(folder="/jobs", **{**table, **values})  # type: ignore[arg-type]


def drawn(seed: int, count: int, length: Callable[[random.Random], float]) -> list[int]:
    """Return lengths of tasks in seconds."""
    draw = random.Random(seed)
    return [max(1, round(length(draw))) for _ in range(count)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("values", "most", "wait_s", "count", "length", "slower", "share"),
    [
        pytest.param(
            {"time_limit": 120.0}, 2, 0, 386, lambda draw: draw.uniform(2, 12), 1.3, 0.8,
            id="walls-of-2-min",
        ),
        pytest.param(
            {"time_limit": 120.0}, 4, 20, 2_000, lambda draw: draw.uniform(2, 8), 1.2, 0.88,
            id="walls-of-2-min-and-a-queue",
        ),
        pytest.param(
            {"time_limit": 3_600.0}, 4, 0, 4_000, lambda draw: draw.uniform(2, 8), 1.05, 0.95,
            id="short-tasks-in-long-jobs",
        ),
        pytest.param(
            {"time_limit": 3_600.0}, 8, 60, 4_000, lambda draw: draw.expovariate(1 / 60), 1.2, 0.92,
            id="exponential-tasks",
        ),
        pytest.param(
            {"time_limit": 36_000.0, "max_jobs": 4}, 4, 300, 500,
            lambda draw: draw.uniform(600, 3_600), 1.15, 0.93,
            id="long-tasks-in-long-jobs",
        ),
    ],
)  # fmt: skip
def test_campaign_takes_little_longer_than_it_must(
    seed: int,
    values: dict[str, object],
    most: int,
    wait_s: int,
    count: int,
    length: Callable[[random.Random], float],
    slower: float,
    share: float,
) -> None:
    """And its jobs' cores are its payloads'."""
    campaign = Campaign(settings(**values), drawn(seed, count, length), most=most, wait_s=wait_s)
    ideal_s = campaign.ideal_s
    ratio = campaign.run() / ideal_s
    assert campaign.done_s == campaign.work_s
    assert ratio <= slower
    assert campaign.share >= share
