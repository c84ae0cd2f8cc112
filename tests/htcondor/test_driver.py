"""The driver of HTCondor on a real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskq.pilots.drivers.commands import BatchSystemError
from taskq.pilots.reconcile import SeenJob
from tests.helpers.driver_contract import BatchScene, DriverContract
from tests.htcondor.pool import HTCondorPool


def _scene(htcondor: HTCondorPool, folder: Path) -> BatchScene:
    """Return the pool, where nothing fits a job that wants a Mac."""

    def end(_: str, job: SeenJob) -> None:
        htcondor.run("condor_rm", job.native_id)

    return BatchScene(
        "htcondor",
        folder,
        end,
        environment=htcondor.environment,
        stuck={"options": ['requirements = (OpSys == "macOS")']},
        keeps_output=False,  # what is removed brings no output back
    )


class TestHTCondor(DriverContract):
    """What every driver promises."""

    @pytest.fixture
    def scene(self, htcondor: HTCondorPool, tmp_path: Path) -> BatchScene:
        """Give the pool."""
        return _scene(htcondor, tmp_path)


def test_job_that_has_had_its_time_is_ended(htcondor: HTCondorPool, tmp_path: Path) -> None:
    """Which is no end that somebody wanted."""
    scene = _scene(htcondor, tmp_path)
    driver = scene.driver()
    name = f"{scene.prefix}-1"
    driver.prepare({})
    script = driver.script([name], "/c", ["taskq"])
    assert " > 660)" in script
    driver.submit([name], script.replace(" > 660)", " > 2)"), None)
    ended = scene.wait_for(driver, name, "ended")
    assert (ended.why or "").startswith("REMOVED: The job attribute PeriodicRemove")
    assert ended.reason == "time"


def test_job_that_is_held_has_died(htcondor: HTCondorPool, tmp_path: Path) -> None:
    """With the reason, and the queue is rid of it."""
    scene = _scene(htcondor, tmp_path)
    driver = scene.driver(**scene.stuck)
    name = scene.submit(driver)
    waiting = scene.wait_for(driver, name, "queued")
    htcondor.run("condor_hold", "-reason", "disk on fire", waiting.native_id)
    ended = scene.wait_for(driver, name, "ended")
    assert "HELD: disk on fire" in (ended.why or "")
    assert ended.reason is None
    argv = ("condor_q", "-autoformat", "JobStatus", "-constraint", f'TaskqJob == "{name}"')
    scene.wait(lambda: htcondor.run(*argv).stdout.strip() == "3")
    assert "disk on fire" in (driver.jobs([name])[name].why or "")
    assert driver.jobs([name])[name].reason is None


def test_refusal_of_htcondor_is_reported_in_its_words(
    htcondor: HTCondorPool, tmp_path: Path
) -> None:
    """No job was made."""
    scene = _scene(htcondor, tmp_path)
    driver = scene.driver(options=["requirements = (("])
    with pytest.raises(BatchSystemError, match=r"condor_submit failed .*[Rr]equirements"):
        scene.submit(driver)
    assert driver.jobs([f"{scene.prefix}-1"]) == {}
