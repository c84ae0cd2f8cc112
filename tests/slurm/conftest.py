"""Needs Debian's slurmctld, slurmd and munge, so it is run only where asked: `make test-slurm`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fixtures.gateways import start_gateway  # noqa: F401  # a fixture, for the tests here
from tests.helpers.waiting import wait_until
from tests.slurm.cluster import SlurmCluster


@pytest.fixture(scope="session")
def slurm_daemons() -> Iterator[SlurmCluster]:
    """Give a Slurm of two nodes that all tests here share."""
    cluster = SlurmCluster()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def slurm(slurm_daemons: SlurmCluster) -> Iterator[SlurmCluster]:
    """Give it without a job, whatever the test before has left: agents that nobody waits for."""
    yield slurm_daemons
    slurm_daemons.cancel_all()
    wait_until(lambda: not slurm_daemons.jobs(), timeout_s=60, on_timeout=slurm_daemons.logs)
