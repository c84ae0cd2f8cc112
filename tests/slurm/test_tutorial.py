"""What the tutorial for Slurm has its readers type works as it stands."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers.tutorial import TUTORIALS, File, readers_shell, steps
from tests.slurm.cluster import SlurmCluster

HERE = {"$(hostname -f)": "localhost"}  # this machine's name may lead nowhere


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="the page is for Python 3.10 to 3.12")
def test_library_is_docked_by_jobs_of_slurm(slurm: SlurmCluster, tmp_path: Path) -> None:
    """With the files of the tutorial for a laptop."""
    with readers_shell(tmp_path, slurm.environment) as shell:
        for step in steps((TUTORIALS / "laptop.md").read_text(encoding="utf-8")):
            if isinstance(step, File):
                (tmp_path / step.name).write_text(step.text)
        assert shell.follow(TUTORIALS / "slurm.md", HERE) == 18
