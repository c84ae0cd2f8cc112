"""A farm of real processes under a nemesis; `make chaos` does the same for much longer."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from benchmarks.own_server import own_server
from taskq.embedded import Server
from tests.chaos.pilot_trial import run_pilot_trial
from tests.chaos.trial import run_trial


@pytest.fixture(scope="module")
def durable_server() -> Iterator[Server]:
    """Give a server with its ordinary settings: it forgets nothing that it has acknowledged."""
    with own_server() as server:
        yield server


@pytest.mark.parametrize(
    ("seed", "seconds"),
    [(1, 4.0), (2, 15.0), (3, 15.0), pytest.param(5, 15.0, marks=pytest.mark.thorough)],
)
def test_nothing_is_lost_whatever_dies(
    durable_server: Server, seed: int, seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    """Each task ends in one accepted outcome, under one lease at a time, as its clients saw it."""
    caplog.set_level(logging.CRITICAL, logger="psycopg.pool")
    trial = run_trial(durable_server, seed, seconds)
    assert not trial.wrong, f"history and logs are in {trial.kept}: {trial.wrong}"


@pytest.mark.thorough
def test_nothing_is_lost_whatever_becomes_of_jobs_and_loops(
    durable_server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """No more jobs run than may; tasks go on from the last checkpoint that was saved."""
    caplog.set_level(logging.CRITICAL, logger="psycopg.pool")
    trial = run_pilot_trial(durable_server, 1, 15.0)
    assert not trial.wrong, f"history and logs are in {trial.kept}: {trial.wrong}"
