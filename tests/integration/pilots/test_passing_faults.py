"""Loops of pilots when jobs come to nothing, or the machine fails for a while."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from taskq.pilots.reconcile import SeenJob
from tests.fixtures.queues import Hire
from tests.helpers.waiting import wait_until
from tests.integration.pilots.support import PilotScene


def serve(scene: PilotScene, hire: Hire, attempts: int) -> None:
    """Let the agent of the latest job come, run so many attempts, and leave; the job ends."""
    name = scene.batch.names()[-1]
    scene.batch.become("running", name)
    agent = hire("/c", agent=name)
    scene.round()
    agent.leave(attempts)
    scene.batch.become("ended", name, why="COMPLETED")


def test_jobs_whose_agents_run_nothing_slow_the_loop_down_and_say_why(
    scene: PilotScene, hire: Hire
) -> None:
    """Such as with a Python that cannot run the campaign; one that runs some ends that."""
    scene.add(max_jobs=1)
    scene.seed(9)
    waits = []
    for failures in (1, 2, 3):
        assert scene.round().submitted == 1
        serve(scene, hire, attempts=0)
        assert scene.round().submitted == 0
        pilot = scene.pilot()
        assert (pilot.failures, pilot.status) == (failures, "active")
        assert f"job {failures} ended without an attempt, though tasks wait" in str(pilot.trouble)
        waits.append(pilot.retry_in_s or 0.0)
        scene.let_the_wait_pass()
    assert waits == sorted(waits)
    assert waits[-1] > 2 * waits[0]
    assert "ended without an attempt" in " ".join(scene.queue.pilots.plan("hpc").why)
    assert scene.round().submitted == 1
    serve(scene, hire, attempts=3)
    assert scene.round().submitted == 1
    assert (scene.pilot().failures, scene.pilot().trouble) == (0, None)


def test_job_whose_agent_finds_nothing_to_do_is_no_failure(scene: PilotScene, hire: Hire) -> None:
    """Others have taken its tasks meanwhile."""
    scene.add(max_jobs=1)
    scene.seed(1)
    scene.round()
    other = hire("/c")
    assert other.claim()
    serve(scene, hire, attempts=0)
    scene.round()
    assert scene.pilot().failures == 0


def test_loop_outlives_what_a_machine_refuses_for_a_while(
    scene: PilotScene, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a new process, or the name of a user; the log says when it works again."""
    caplog.set_level("INFO")
    scene.add()
    scene.seed(5)
    faults: list[Exception] = [OSError("no more processes"), KeyError("uid not found")] * 2
    jobs = scene.batch.jobs

    def fail(names: Sequence[str]) -> dict[str, SeenJob]:
        if faults:
            raise faults.pop(0)
        return jobs(names)

    monkeypatch.setattr(scene.batch, "jobs", fail)
    scene.round()
    stop = threading.Event()
    thread = threading.Thread(target=scene.loop().run, args=(stop, 0.01))
    scene.let_the_term_pass()
    thread.start()
    wait_until(lambda: "works again" in caplog.text)
    stop.set()
    thread.join()
    assert "no more processes" in caplog.text
    assert not faults
