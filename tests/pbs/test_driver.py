"""The driver of PBS on a real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskq.pilots.drivers.commands import BatchSystemError
from tests.helpers.driver_contract import BatchScene, DriverContract
from tests.pbs.conftest import delete_job


@pytest.fixture
def scene(tmp_path: Path) -> BatchScene:
    """Give the PBS of this machine, where a job can be held."""
    return BatchScene(
        "pbs", tmp_path, lambda _, job: delete_job(job.native_id), stuck={"options": ["-h"]}
    )


class TestPBS(DriverContract):
    """What every driver promises."""


def test_job_that_has_had_its_time_is_ended(scene: BatchScene) -> None:
    """Which is no end that somebody wanted."""
    driver = scene.driver()
    name = f"{scene.prefix}-1"
    driver.prepare({})
    script = driver.script([name], "/c", ["taskq"])
    assert "walltime=600\n" in script
    driver.submit([name], script.replace("walltime=600\n", "walltime=2\n"), None)
    ended = scene.wait_for(driver, name, "ended")
    assert (ended.why or "").endswith("exceeded resource walltime")
    assert (ended.exit_code, ended.reason) == (None, "time")
    assert "caught" in (driver.tail(name, None) or "")


def test_job_that_was_deleted_was_cancelled(scene: BatchScene) -> None:
    """Whether it had begun or not."""
    waiting, running = scene.driver(**(scene.stuck or {})), scene.driver()
    first, second = scene.submit(waiting), scene.submit(running, 2)
    delete_job(scene.wait_for(waiting, first, "queued").native_id)
    delete_job(scene.wait_for(waiting, second, "running").native_id)
    assert scene.wait_for(waiting, first, "ended").reason == "cancelled"
    assert scene.wait_for(waiting, second, "ended").reason == "cancelled"


def test_pbs_grants_the_resources_that_the_settings_ask_for(scene: BatchScene) -> None:
    """Memory in the spelling of other batch systems, and resources of the chunk."""
    driver = scene.driver(
        memory="64M", options=["arch=linux", "-P wisdom", "-l place=scatter", "-m a"]
    )
    name = scene.submit(driver)
    running = scene.wait_for(driver, name, "running")
    assert "ncpus=1:mem=65536kb)" in (running.why or "")
    delete_job(running.native_id)


def test_refusal_of_pbs_is_reported_in_its_words(scene: BatchScene) -> None:
    """No job was made."""
    driver = scene.driver(partition="nosuch")
    with pytest.raises(BatchSystemError, match=r"qsub failed .*Unknown queue"):
        scene.submit(driver)
    assert driver.jobs([f"{scene.prefix}-1"]) == {}
