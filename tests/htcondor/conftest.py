"""Needs Debian's condor, and another user than root: only where asked, `make test-htcondor`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.gateways import start_gateway  # noqa: F401  # a fixture, for the tests here
from tests.htcondor.pool import HTCondorPool


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave these tests out, unless they were named."""
    here = Path(__file__).parent
    asked = [config.invocation_params.dir / one.partition("::")[0] for one in config.args]
    named = any(one.resolve().is_relative_to(here) for one in asked)
    return None if named or collection_path.name == "conftest.py" else True


@pytest.fixture(scope="session")
def htcondor() -> Iterator[HTCondorPool]:
    """Give an HTCondor of one node that all tests here share."""
    pool = HTCondorPool()
    try:
        pool.start()
        yield pool
    finally:
        pool.stop()
