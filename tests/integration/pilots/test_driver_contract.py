"""The drivers that need no batch system: this machine, and hosts by ssh."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from taskq.pilots.drivers.hosts import Hosts
from taskq.pilots.reconcile import SeenJob
from tests.helpers.driver_contract import BatchScene, DriverContract

# What stands for ssh: another shell, here.
_REMOTE = '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nexec sh -c "$3"\n'


def _end(_: str, job: SeenJob) -> None:
    os.killpg(int(job.native_id), signal.SIGTERM)


class TestLocal(DriverContract):
    """What every driver promises, of this machine."""

    @pytest.fixture
    def scene(self, tmp_path: Path) -> BatchScene:
        """Give this machine."""
        return BatchScene("local", tmp_path, _end)


@pytest.mark.thorough
class TestSsh(DriverContract):
    """What every driver promises, of other hosts."""

    @pytest.fixture
    def scene(self, tmp_path: Path) -> BatchScene:
        """Give two hosts that are this one."""
        remote = tmp_path / "bin/remote"
        remote.parent.mkdir()
        remote.write_text(_REMOTE)
        remote.chmod(0o700)
        return BatchScene(
            "ssh",
            tmp_path,
            _end,
            environment={**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
            table={"hosts": ["node1"], "jobs_per_host": 2},
            make=lambda settings, environment: Hosts(
                settings,
                environment,
                remote_shell=[remote.name],
            ),
        )
