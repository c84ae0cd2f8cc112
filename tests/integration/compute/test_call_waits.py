"""Calls at a gateway end for their submitter when they end, not when it asks next."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import taskq
from taskq import Client
from taskq.compute import futures, waiting
from taskq.db.gateway_queries import GatewayQueries
from taskq.model.errors import NotOverGateway, Unavailable
from tests.fixtures.gateways import GatewayProcess
from tests.fixtures.transports import gateway_token
from tests.helpers.waiting import wait_until
from tests.payloads import called

WAIT_S = 120.0
NEVER_S = 3_600.0


@pytest.fixture(scope="module")
def far(near_queue: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Give a queue at a gateway, with agents at its database."""
    dsn = near_queue.database.dsn
    gateway = GatewayProcess(dsn, tmp_path_factory.mktemp("gateway"))
    try:
        with (
            taskq.local_agents(near_queue, 2, "/"),
            Client(GatewayQueries(gateway.url, gateway_token(dsn))) as far,
        ):
            yield far
    finally:
        gateway.kill()


@pytest.fixture
def _asks_never_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for ends only when a wait has brought something."""
    monkeypatch.setattr(futures, "LOOK_S", NEVER_S)
    monkeypatch.setattr(waiting, "LOOK_S", NEVER_S)


@pytest.mark.thorough
@pytest.mark.usefixtures("_asks_never_again")
def test_wait_brings_results_errors_and_cancelled_calls(far: Client) -> None:
    """Each of which would otherwise never be found."""
    with taskq.Executor(far, path=f"/{secrets.token_hex(4)}") as executor:
        assert [executor.submit(called.square, n).result(WAIT_S) for n in range(3)] == [0, 1, 4]
        both = [executor.submit(called.square, n) for n in (7, 8)]
        assert [future.result(WAIT_S) for future in both] == [49, 64]
        with pytest.raises(called.BadLigand):
            executor.submit(called.refuse, 5).result(WAIT_S)


@pytest.mark.thorough
@pytest.mark.usefixtures("_asks_never_again")
def test_calls_submitted_while_others_run_end_on_their_own(far: Client, tmp_path: Path) -> None:
    """A wait that has begun does not know them; they have one of their own."""
    go = tmp_path / "go"
    with taskq.Executor(far, path=f"/{secrets.token_hex(4)}") as executor:
        long = executor.submit(called.wait_for, str(go))
        wait_until(long.running)
        assert executor.submit(called.square, 3).result(WAIT_S) == 9
        assert not long.done()
        go.touch()
        long.result(WAIT_S)


@pytest.mark.usefixtures("_asks_never_again")
def test_run_ends_when_its_last_call_has_ended(far: Client) -> None:
    """As single calls do."""
    assert [*far.map(called.square, [3], name=f"/{secrets.token_hex(4)}").results()] == [9]


@pytest.mark.thorough
@pytest.mark.parametrize("error", [NotOverGateway("results_when_ended"), Unavailable("busy")])
def test_calls_end_where_nobody_can_wait(
    far: Client, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """As at a gateway of an older release, or one at which too many wait: by asking."""
    asked = []

    def refused(*_: Any) -> Any:
        asked.append(time.monotonic())
        raise error

    monkeypatch.setattr(GatewayQueries, "results_when_ended", refused)
    with taskq.Executor(far, path=f"/{secrets.token_hex(4)}") as executor:
        assert [executor.submit(called.square, n).result(WAIT_S) for n in range(3)] == [0, 1, 4]
    assert 1 <= len(asked) <= 3  # not again for each call
