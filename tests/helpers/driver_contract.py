"""What every driver promises, tested on batch systems that run jobs.

A subclass gives the fixture `scene`. The agents of these jobs are scripts of the test.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from taskq.pilots.drivers import DRIVERS_BY_NAME, Driver, with_exit_codes
from taskq.pilots.drivers.commands import BatchSystemError
from taskq.pilots.pilot_file import pilot_settings
from taskq.pilots.reconcile import SeenJob
from taskq.pilots.settings import SETTINGS
from tests.helpers.waiting import wait_until

SECRET = "tqe_" + "x" * 43
LASTS = "trap 'echo caught; exit 9' TERM\necho up\nwhile :; do sleep 0.1; done"


@dataclass
class BatchScene:
    """A batch system, and what tests have to know of it.

    kind: the driver's name. folder: of the test. table: further settings. stuck: settings with
    which a job waits for ever; none: jobs do not wait here. end: end a job from outside, as an
    operator does. keeps_output: whether the output of a job that was ended so can be read.
    """

    kind: str
    folder: Path
    end: Callable[[str, SeenJob], None]
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    table: Mapping[str, Any] = field(default_factory=dict)
    stuck: Mapping[str, Any] | None = None
    keeps_output: bool = True
    prefix: str = field(default_factory=lambda: f"taskq-test-{secrets.token_hex(4)}")
    make: Callable[..., Driver] | None = None
    patience_s: float = 90.0

    @property
    def token(self) -> Path:
        """Return the file of the token."""
        file = self.folder / "site.token"
        if not file.exists():
            file.touch(mode=0o600)
            file.write_text(SECRET)
        return file

    def driver(self, agent: str = LASTS, **more: Any) -> Driver:
        """Return a driver whose jobs have this script for an agent."""
        file = f"agent-{secrets.token_hex(4)}"
        table = {
            "folder": str(self.folder / "jobs"),
            "time_limit": "10m",
            "gateways": ["https://gw.example.org"],
            "token_file": str(self.token),
            # It is made in the job's folder, before it is called as an interpreter would be.
            "python": f"./{file}",
            "setup": f"cat > {file}-$$ <<'END'\n#!/bin/sh\n{agent}\nEND\n"
            f"chmod 700 {file}-$$; mv {file}-$$ {file}\n",
            **self.table,
            **more,
        }
        make = self.make or DRIVERS_BY_NAME[self.kind]
        return make(pilot_settings(self.kind, table), self.environment)

    def submit(self, driver: Driver, number: int = 1) -> str:
        """Submit a job as a loop does, and return its name."""
        name = f"{self.prefix}-{number}"
        self.submit_together(driver, [name])
        return name

    def submit_together(self, driver: Driver, names: Sequence[str]) -> list[SeenJob]:
        """Submit jobs of these names as a loop does."""
        place = driver.prepare({})
        return driver.submit(names, driver.script(names, "/c", ["taskq"]), place)

    def wait(self, condition: Callable[[], object]) -> None:
        """Wait until a condition holds."""
        wait_until(condition, timeout_s=self.patience_s)

    def wait_for(self, driver: Driver, name: str, *states: str) -> SeenJob:
        """Wait until a job is so; `gone`: the batch system does not know it."""
        seen: list[SeenJob | None] = []

        def is_so() -> bool:
            answer = driver.jobs([name])
            seen.append(with_exit_codes(driver, [name], answer).get(name))
            return ("gone" if seen[-1] is None else seen[-1].state) in states

        wait_until(is_so, timeout_s=self.patience_s, on_timeout=lambda: f"{seen[-1]}")
        return seen[-1] or SeenJob("", "ended", "gone")


class DriverContract:
    """The promises of `taskq.pilots.drivers.Driver`."""

    def test_job_runs_and_its_end_is_known(self, scene: BatchScene) -> None:
        """With its agent's exit code and the end of its output, on standard error too."""
        driver = scene.driver("echo up; echo trouble >&2; exit 7")
        name = scene.submit(driver)
        ended = scene.wait_for(driver, name, "ended")
        assert (ended.exit_code, ended.reason) == (7, None)
        place = ended.place
        wait_until(lambda: "trouble" in (driver.tail(name, place) or ""), timeout_s=60)
        assert (driver.tail(name, place) or "").split() == ["up", "trouble"]

    def test_job_is_known_by_its_name_alone(self, scene: BatchScene) -> None:
        """As to a loop that was started anew."""
        name = scene.submit(scene.driver())
        other = scene.driver()
        running = scene.wait_for(other, name, "running")
        assert running.native_id
        assert other.jobs([f"{scene.prefix}-2"]) == {}
        assert other.jobs([name, f"{scene.prefix}-2"]).keys() == {name}
        scene.end(name, running)
        scene.wait_for(other, name, "ended", "gone")

    def test_driver_shows_each_job_of_a_pilot_with_its_own_end(self, scene: BatchScene) -> None:
        """Each with its own end."""
        failing, lasting = scene.driver("exit 3"), scene.driver()
        first, second = scene.submit(failing), scene.submit(lasting, 2)
        assert scene.wait_for(failing, first, "ended").exit_code == 3
        running = scene.wait_for(failing, second, "running")
        assert failing.jobs([first, second]).keys() == {first, second}
        scene.end(second, running)

    def test_agent_gets_sigterm_when_its_job_is_ended(self, scene: BatchScene) -> None:
        """It then hands back the tasks that it holds."""
        driver = scene.driver()
        name = scene.submit(driver)
        running = scene.wait_for(driver, name, "running")
        if scene.keeps_output:
            wait_until(lambda: "up" in (driver.tail(name, running.place) or ""), timeout_s=60)
        scene.end(name, running)
        scene.wait_for(driver, name, "ended", "gone")
        if scene.keeps_output:
            wait_until(lambda: "caught" in (driver.tail(name, running.place) or ""), timeout_s=60)

    def test_job_that_waits_can_be_cancelled(self, scene: BatchScene) -> None:
        """And never begins."""
        if scene.stuck is None:
            return
        driver = scene.driver(**scene.stuck)
        name = scene.submit(driver)
        waiting = scene.wait_for(driver, name, "queued")
        assert waiting.why
        driver.cancel([waiting])
        scene.wait_for(driver, name, "ended", "gone")
        driver.cancel([waiting])
        assert "up" not in (driver.tail(name, waiting.place) or "")

    def test_job_that_began_is_not_cancelled(self, scene: BatchScene) -> None:
        """It has tasks by now."""
        driver = scene.driver()
        name = scene.submit(driver)
        running = scene.wait_for(driver, name, "running")
        driver.cancel([SeenJob(running.native_id, "queued", place=running.place)])
        assert driver.jobs([name])[name].state == "running"
        scene.end(name, running)
        scene.wait_for(driver, name, "ended", "gone")

    def test_jobs_submitted_together_have_names_and_outputs_of_their_own(
        self, scene: BatchScene
    ) -> None:
        """Each ends alone and can be cancelled alone."""
        drivers = SETTINGS["array"].drivers
        if scene.kind not in drivers or scene.stuck is None:
            return
        shared = f"{scene.prefix}-1"
        names = [f"{shared}_{n}" for n in range(3)]
        ends = scene.driver('while [ "$1" != --name ]; do shift; done; echo "$2"; exit "${2##*_}"')
        scene.submit_together(ends, names)
        for n, name in enumerate(names):
            ended = scene.wait_for(ends, name, "ended")
            assert (ended.exit_code, ended.reason) == (n, None), ended
            wait_until(lambda name=name: ends.tail(name, None) == name, timeout_s=60)  # type: ignore[misc]
        waits = scene.driver(**scene.stuck)
        names = [f"{scene.prefix}-4_{n}" for n in range(3)]
        known = [job.native_id for job in scene.submit_together(waits, names)]
        waiting = [scene.wait_for(scene.driver(), name, "queued") for name in names]
        assert [job.native_id for job in waiting] == known
        waits.cancel(waiting[:2])
        for name in names[:2]:
            scene.wait_for(waits, name, "ended", "gone")
        assert waits.jobs(names)[names[2]].state == "queued"
        waits.cancel(waiting)
        scene.wait_for(waits, names[2], "ended", "gone")

    def test_agent_finds_its_file_token_and_end(self, scene: BatchScene) -> None:
        """And no other user finds the token, nor is it in what is shown of a job."""
        words = 'head -c 11 "$1"; echo; while [ "$1" != --token-file ]; do shift; done; cat "$2"'
        driver = scene.driver(f'{words}; echo; echo "$TASKQ_END_TIME"')
        assert SECRET not in driver.script([f"{scene.prefix}-1"], "/c", ["taskq"])
        name = scene.submit(driver)
        place = scene.wait_for(driver, name, "ended").place
        wait_until(lambda: driver.tail(name, place), timeout_s=60)
        file, token, end = (driver.tail(name, place) or "").split("\n")
        assert (file, token) == ("#!/usr/bin/", SECRET)
        assert abs(int(end) - 600 - time.time()) < 120

    def test_token_that_others_may_read_is_not_used(self, scene: BatchScene) -> None:
        """Nothing is submitted."""
        driver = scene.driver()
        scene.token.chmod(0o640)
        with pytest.raises(BatchSystemError, match="chmod 600"):
            driver.prepare({})

    def test_driver_names_the_program_that_is_missing_here(self, scene: BatchScene) -> None:
        """Before anything is tried."""
        assert scene.driver().missing() is None
        nothing = {**scene.environment, "PATH": str(scene.folder)}
        scene.environment = nothing
        assert "is not on PATH here" in (scene.driver().missing() or "")
