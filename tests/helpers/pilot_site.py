"""A site with a batch system, whose pilot brings a campaign to its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from taskq import Client
from taskq.model.pilot_views import PilotJob
from taskq.pilots.drivers import DRIVERS_BY_NAME
from taskq.pilots.loop import PilotLoop
from tests.helpers.audit import assert_audit_is_clean
from tests.helpers.command_line import NOTHING, CommandLine
from tests.helpers.waiting import wait_until

TASK = 'sleep {s}; echo "{{\\"n\\": $1}}"'  # the result is the task's number


class PilotSite:
    """The campaign /c, a gateway, and the pilot `hpc`.

    kind: its driver. environment: for the programs of the batch system. words: further ones of
    `pilots add`.
    """

    def __init__(
        self,
        queue: Client,
        kind: str,
        url: str,
        folder: Path,
        *,
        environment: Mapping[str, str] = NOTHING,
        words: Sequence[object] = (),
    ) -> None:
        dsn = queue.database.dsn
        self.queue = queue
        self.folder = folder
        self.kind = kind
        self._words = words
        self.taskq = CommandLine(dsn)
        self.taskq.environment |= {**environment, "TASKQ_DSN": dsn}
        self.taskq.out("campaign", "create", "/c", "--", "sh", "-c", TASK, "sh", "{n}")
        token = folder / "site.token"
        self.taskq.out(
            "token", "create", "hpc", "--kind", "site", "--campaign", "/c", "--to", token
        )
        self._gateway = ("--gateway", url, "--token-file", token)

    def add(self, *words: object, gateway: bool = True) -> None:
        """Add the pilot."""
        self.taskq.out(
            *("pilots", "add", self.kind, "hpc", "--campaign", "/c", "--cores", 2),
            *("--least-work", "5s", "--idle-timeout", "4s", "--folder", self.folder / "jobs"),
            *(self._gateway if gateway else ()),
            *self._words,
            *words,
        )

    def seed(self, count: int, *, task_s: float = 3) -> None:
        """Add tasks of so many seconds."""
        self.taskq.out("seed", "/c", "--sweep", f"n=1:{count}", "--sweep", f"s={task_s}")

    def pilot(self) -> dict[str, Any]:
        """Return the pilot as `list` shows it."""
        (pilot,) = self.taskq.json("pilots", "list")
        return dict(pilot)

    def jobs(self) -> dict[int, PilotJob]:
        """Return its jobs by number."""
        return {job.number: job for job in self.queue.pilots.jobs("hpc")}

    def done(self) -> int:
        """Return how many tasks are done."""
        return self.queue.campaign("/c").status().done

    def state(self) -> str:
        """Return what an operator would look at when it goes wrong."""
        views = [self.taskq.out("pilots", "explain", "hpc"), self.taskq("pilots", "log", "hpc")]
        outputs = [file.read_text()[-500:] for file in self.folder.glob("jobs/**/*.out")]
        return "\n".join([*map(str, views), *outputs])

    def wait(self, condition: Any, timeout_s: float = 120.0) -> None:
        """Wait until a condition holds."""
        wait_until(condition, timeout_s=timeout_s, on_timeout=self.state)

    def run_to_the_end(self, count: int) -> None:
        """Let a loop act until all tasks are done and all jobs have ended."""
        with self.taskq.process("pilots", "run", "--interval", "0.5") as loop:
            self.wait(lambda: self.done() == count, 240)
            self.wait(lambda: all(job.status == "ended" for job in self.jobs().values()))
            loop.terminate()
            assert loop.wait(60) == 0

    def run_with_one_ended(self, count: int, end: Callable[[str], object]) -> dict[int, PilotJob]:
        """Let three jobs work, end the first in the midst of it; return all when all is done."""
        self.seed(count)
        self.add("--max-jobs", 3, "--time-limit", "10m")
        with self.taskq.process("pilots", "run", "--interval", "0.5") as loop:
            self.wait(lambda: self.pilot()["serving"] == 3)
            self.wait(lambda: self.done() > 6)
            end(self.jobs()[1].native_id or "")
            self.wait(lambda: self.jobs()[1].status == "ended")
            loop.terminate()
            assert loop.wait(60) == 0
        self.run_to_the_end(count)
        jobs = self.jobs()
        assert {job.outcome for job in jobs.values()} == {"served"}
        assert jobs[1].left_why == "it got a signal to stop"
        self.assert_nothing_is_lost(count)
        return jobs

    def loop(self, **more: Any) -> PilotLoop:
        """Return a loop of this process."""
        return PilotLoop(self.queue.database, self.taskq.environment, **more)

    def find_after_death(self, count: int = 1) -> list[PilotJob]:
        """Let a loop die when it has submitted so many jobs, and the next one find them."""

        class Killed(BaseException):
            pass

        class DiesAfterSubmission(DRIVERS_BY_NAME[self.kind]):
            def submit(self, *words: Any) -> Any:
                super().submit(*words)
                raise Killed

        first = self.loop(make=lambda _, *given: DiesAfterSubmission(*given))
        with pytest.raises(Killed):
            first.round()
        assert [job.status for job in self.jobs().values()] == ["submitting"] * count
        first.leave()
        second = self.loop()
        (done,) = second.round()
        second.leave()
        assert (done.acted, done.submitted, done.trouble) == (True, 0, None)
        jobs = [*self.jobs().values()]
        assert [(job.status, job.native_id is not None) for job in jobs] == [
            ("queued", True)
        ] * count
        return jobs

    def remove(self) -> None:
        """Remove the pilot, and wait until its jobs that wait are gone."""
        self.taskq.out("pilots", "rm", "hpc", "--yes")
        loop = self.loop()
        self.wait(lambda: loop.round() == [])

    def run_one_that_dies(self) -> PilotJob:
        """Let a job die before its agent is heard, for the interpreter is not there."""
        self.seed(2)
        self.add("--interpreter", "/no/such/python3", "--time-limit", "2m", "--max-jobs", 1)
        loop = self.loop()
        loop.round()
        self.wait(lambda: loop.round() and self.jobs()[1].outcome == "died")
        job = self.jobs()[1]
        assert job.exit_code == 127
        assert "/no/such/python3: not found" in (job.tail or "")
        assert self.pilot()["failures"] == 1
        return job

    def assert_nothing_is_lost(self, count: int, *, losses: int = 0) -> None:
        """Look at the books and at each result."""
        status = self.queue.campaign("/c").status()
        assert (status.done, status.failures, status.losses) == (count, 0, losses)
        assert_audit_is_clean(self.queue, "/c")
        self.taskq.out("export", "/c", "--to", self.folder / "results.jsonl")
        lines = (self.folder / "results.jsonl").read_text().splitlines()
        results = [json.loads(line) for line in lines]
        assert sorted(result["result"]["n"] for result in results) == [*range(1, count + 1)]
        assert all(result["payload"]["n"] == result["result"]["n"] for result in results)
        script = "\n".join(file.read_text() for file in (self.folder / "jobs").glob("**/*.out"))
        assert (self.folder / "site.token").read_text().strip() not in script
