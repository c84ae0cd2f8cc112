"""Needs Debian's slurmctld, slurmd and munge, so it is run only where asked: `make test-slurm`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fixtures.gateways import start_gateway  # noqa: F401  # a fixture, for the tests here
from tests.slurm.cluster import SlurmCluster


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmCluster]:
    """Give a Slurm of one node that all tests here share."""
    cluster = SlurmCluster()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
