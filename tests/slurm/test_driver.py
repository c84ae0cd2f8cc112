"""The driver of Slurm on a real one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from taskq.pilots.reconcile import SeenJob
from tests.helpers.batch_commands import run_command
from tests.helpers.driver_contract import BatchScene, DriverContract
from tests.helpers.waiting import wait_until
from tests.slurm.cluster import SlurmCluster


class TestSlurm(DriverContract):
    """What every driver promises."""

    @pytest.fixture
    def scene(self, slurm: SlurmCluster, tmp_path: Path) -> BatchScene:
        """Give the cluster, where a job can be held."""

        def end(_: str, job: SeenJob) -> None:
            slurm.run("scancel", "--full", job.native_id)

        return BatchScene(
            "slurm",
            tmp_path,
            end,
            environment=slurm.environment,
            stuck={"options": ["--hold"]},
        )

    def test_agents_of_many_nodes_have_what_their_job_has(self, scene: BatchScene) -> None:
        """Its end, its environment and, in an array, its name; and SIGTERM of its script alone."""
        words = 'echo "$TASKQ_END_TIME"; while [ "$1" != --name ]; do shift; done; echo "$2"'
        two = {"nodes": 2, "options": ["--export=NONE"]}
        driver = scene.driver(f'{words}; exit "$SLURM_NODEID"', **two)
        names = [f"{scene.prefix}-1_{n}" for n in range(2)]
        scene.submit_together(driver, names)
        for name in names:
            assert scene.wait_for(driver, name, "ended").exit_code == 1, "the highest of both"
            tail = driver.tail(name, None) or ""
            assert sorted(re.findall(r"^([01]): \d{10}$", tail, re.MULTILINE)) == ["0", "1"]
            assert sorted(re.findall(rf"^([01]): {name}$", tail, re.MULTILINE)) == ["0", "1"]
        driver = scene.driver(**two)
        name = scene.submit(driver, 3)
        wait_until(lambda: (driver.tail(name, None) or "").count("up") == 2, timeout_s=60)
        number = driver.jobs([name])[name].native_id
        run_command(("scancel", "--batch", "--signal=TERM", number), scene.environment)
        assert scene.wait_for(driver, name, "ended").exit_code == 9
        wait_until(lambda: (driver.tail(name, None) or "").count("caught") == 2, timeout_s=60)
