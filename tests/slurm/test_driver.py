"""The driver of Slurm on a real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskq.pilots.reconcile import SeenJob
from tests.helpers.driver_contract import BatchScene, DriverContract
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
