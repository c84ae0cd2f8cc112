"""A site with a batch system, whose pilot brings a campaign to its end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from taskq import Client
from taskq.views import PilotJob
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
        self.taskq.out("token", "create", "hpc", "--site", "--campaign", "/c", "--to", token)
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

    def told(self) -> str:
        """Return what an operator would look at when it goes wrong."""
        views = [self.taskq.out("pilots", "explain", "hpc"), self.taskq("pilots", "log", "hpc")]
        outputs = [file.read_text()[-500:] for file in self.folder.glob("jobs/*.out")]
        return "\n".join([*map(str, views), *outputs])

    def wait(self, condition: Any, timeout_s: float = 120.0) -> None:
        """Wait until a condition holds."""
        wait_until(condition, timeout_s=timeout_s, on_timeout=self.told)

    def run_to_the_end(self, count: int) -> None:
        """Let a loop act until all tasks are done and all jobs have ended."""
        with self.taskq.process("pilots", "run", "--period", "0.5") as loop:
            self.wait(lambda: self.done() == count, 240)
            self.wait(lambda: all(job.status == "ended" for job in self.jobs().values()))
            loop.terminate()
            assert loop.wait(20) == 0

    def assert_nothing_is_lost(self, count: int) -> None:
        """Look at the books and at each result."""
        status = self.queue.campaign("/c").status()
        assert (status.done, status.failures, status.losses) == (count, 0, 0)
        assert_audit_is_clean(self.queue, "/c")
        self.taskq.out("export", "/c", "--to", self.folder / "results.jsonl")
        lines = (self.folder / "results.jsonl").read_text().splitlines()
        results = [json.loads(line) for line in lines]
        assert sorted(one["result"]["n"] for one in results) == [*range(1, count + 1)]
        assert all(one["payload"]["n"] == one["result"]["n"] for one in results)
        script = "\n".join(file.read_text() for file in (self.folder / "jobs").glob("*.out"))
        assert (self.folder / "site.token").read_text().strip() not in script
