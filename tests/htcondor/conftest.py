"""Needs Debian's condor, and another user than root: only where asked, `make test-htcondor`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fixtures.gateways import start_gateway  # noqa: F401  # a fixture, for the tests here
from tests.htcondor.pool import HTCondorPool


@pytest.fixture(scope="session")
def htcondor() -> Iterator[HTCondorPool]:
    """Give an HTCondor of one node that all tests here share."""
    pool = HTCondorPool()
    try:
        pool.start()
        yield pool
    finally:
        pool.stop()
