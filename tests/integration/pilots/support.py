"""A pilot on a scripted batch system, and the loops that act for it."""

from __future__ import annotations

from typing import Any

from taskq import Client
from taskq.db.access import Queries
from taskq.model.pilot_views import PilotJob, PilotView
from taskq.pilots.loop import PilotLoop
from taskq.pilots.reconcile import MISSING_POLLS, MISSING_S, PilotRound
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres
from tests.helpers.scripted_batch import ScriptedBatch


class PilotScene:
    """The pilot `hpc` for the campaign /c, whose tasks nobody has tried."""

    def __init__(self, queue: Client, postgres: Postgres, folder: str) -> None:
        self.queue = queue
        self.batch = ScriptedBatch()
        self._postgres = postgres
        self._folder = folder
        self._loops: list[PilotLoop] = []
        #: What loops ask; by default PostgreSQL.
        self.queries: Queries = queue.queries
        self.table: dict[str, Any] = {}
        self.campaign = servable(queue)

    def add(self, **settings: Any) -> None:
        """Store the pilot: jobs of two cores, four of them, all queued at once."""
        self.queue.pilots.create("hpc", "slurm", "/c", self.settings(**settings))

    def settings(self, **more: Any) -> dict[str, Any]:
        """Return the settings of a pilot as `add` stores it."""
        table = {"folder": self._folder, "cores": 2, "max_jobs": 4, "backlog": 4}
        return {**table, **self.table, **more}

    def seed(self, count: int) -> None:
        """Add tasks."""
        self.campaign.seed({"n": n} for n in range(count))

    def loop(self) -> PilotLoop:
        """Return a new loop."""
        loop = PilotLoop(self.queries, {}, make=lambda *_: self.batch)
        self._loops.append(loop)
        return loop

    def round(self, loop: PilotLoop | None = None) -> PilotRound:
        """Let a loop, by default the first, look once."""
        if loop is None:
            loop = self._loops[0] if self._loops else self.loop()
        (done,) = loop.round()
        return done

    def pilot(self) -> PilotView:
        """Return the pilot."""
        return self.queue.pilots.pilot("hpc")

    def jobs(self) -> list[PilotJob]:
        """Return its jobs by number."""
        return sorted(self.queue.pilots.jobs("hpc"), key=lambda job: job.number)

    def statuses(self) -> list[str]:
        """Return how the jobs are, or how they have ended, by number."""
        return [job.outcome or job.status for job in self.jobs()]

    def let_the_term_pass(self) -> None:
        """Let another loop act: the one that does so is not heard any more."""
        self._postgres.execute("update taskq.pilot set held_until = now() - interval '1 s'")

    def let_the_wait_pass(self) -> None:
        """Let the pause after a failure be over."""
        self._postgres.execute("update taskq.pilot set retry_at = null")

    def age(self, seconds: float) -> None:
        """Make all jobs so much older."""
        self._postgres.execute(
            "update taskq.pilot_job set began_at = began_at - make_interval(secs => %s)", [seconds]
        )

    def rounds_without_it(self, loop: PilotLoop | None = None) -> None:
        """Let so many rounds and so much time pass that a job which is missing is given up."""
        for _ in range(MISSING_POLLS):
            self._postgres.execute(
                "update taskq.pilot_job set missing_at = missing_at - make_interval(secs => %s)",
                [MISSING_S],
            )
            self.let_the_wait_pass()
            self.round(loop)
