"""A batch system in memory: jobs do what the test says."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from taskq.pilots.drivers.commands import BatchSystemError
from taskq.pilots.drivers.hosts import PartialAnswer
from taskq.pilots.reconcile import JobState, SeenJob
from taskq.pilots.script import job_script
from taskq.pilots.settings import PilotSettings


class Killed(BaseException):
    """The process of the loop is killed here."""


class ScriptedBatch:
    """Jobs by name. scripts: what was submitted, in order, also twice.

    refusal: why it takes no jobs. place: where the next one goes. silent: places that give no
    answer. silence: why it gives no answers. dies: kill the loop `before` or
    `after` the next submission. outputs: what jobs have written. takes: how many jobs of one
    submission it takes; if there are more, it loses the others and its answer. submissions: how
    many there were.
    """

    def __init__(self) -> None:
        self.system: Hashable = self
        self.asked: list[list[str]] = []
        self.known: dict[str, SeenJob] = {}
        self.scripts: list[tuple[str, str]] = []
        self.cancelled: list[str] = []
        self.outputs: dict[str, str] = {}
        self.refusal: str | None = None
        self.silence: str | None = None
        self.lacks: str | None = None
        self.place: str | None = None
        self.silent: frozenset[str] = frozenset()
        self.dies = ""
        self.prepared = 0
        self.submissions = 0
        self.takes = 1_000

    def missing(self) -> str | None:
        """Return what this machine lacks."""
        return self.lacks

    def prepare(self, places: Mapping[str, int]) -> str | None:
        """Count the calls."""
        del places
        self.prepared += 1
        return self.place

    def script(self, names: Sequence[str], path: str, program: Sequence[str]) -> str:
        """Return a script as on any batch system."""
        return job_script(PilotSettings(folder="/jobs"), path=path, names=names, program=program)

    def submit(self, names: Sequence[str], script: str, place: str | None) -> list[SeenJob]:
        """Take jobs, at most `takes` of them."""
        if self.dies == "before":
            raise Killed
        if self.refusal is not None:
            raise BatchSystemError(self.refusal)
        self.submissions += 1
        for name in names[: self.takes]:
            self.scripts.append((name, script))
            self.known[name] = SeenJob(str(len(self.scripts)), "queued", "PENDING", place=place)
        if self.dies == "after":
            raise Killed
        if len(names) > self.takes:
            raise BatchSystemError("the connection was lost")
        return [self.known[name] for name in names]

    def jobs(self, names: Sequence[str]) -> dict[str, SeenJob]:
        """Return those of these names that are known."""
        self.asked.append([*names])
        if self.silence is not None:
            raise BatchSystemError(self.silence)
        known = {name: self.known[name] for name in names if name in self.known}
        if self.silent:
            said = {name: job for name, job in known.items() if job.place not in self.silent}
            raise PartialAnswer("some are silent", said, self.silent)
        return known

    def cancel(self, jobs: Sequence[SeenJob]) -> None:
        """End jobs that wait."""
        numbers = {job.native_id for job in jobs}
        for name, known in self.known.items():
            if known.native_id in numbers and known.state == "queued":
                self.cancelled.append(name)
                self.known[name] = replace(
                    known, state="ended", why="CANCELLED", reason="cancelled"
                )

    def exit_code(self, name: str) -> None:
        """Return None: scripts leave nothing."""

    def tail(self, name: str, place: str | None) -> str | None:
        """Return what a job has written."""
        del place
        return self.outputs.get(name)

    def become(self, state: JobState, *names: str, why: str | None = None) -> None:
        """Let jobs, by default all, be in this state."""
        for name in names or tuple(self.known):
            self.known[name] = replace(self.known[name], state=state, why=why or state.upper())

    def names(self) -> list[str]:
        """Return the names that were submitted."""
        return [name for name, _ in self.scripts]
