"""Faults of a gateway are counted by their kinds, and agents come again when they may."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks.load.agent_load import AgentLoad
from benchmarks.load.work import LoadTarget, LoadWork
from tests.helpers.memory_gateway import TOKEN, HttpGateway, Reply, error, gateway_of
from tests.helpers.memory_queue import MemoryQueue

pytestmark = pytest.mark.thorough

WORK = LoadWork(3, enrol=TOKEN, content=True)
ALONE = replace(WORK, agents=1)
SOON_S = 100.0
RETRY_S = 0.3


@pytest.fixture
def gateway() -> Iterator[HttpGateway]:
    with gateway_of(MemoryQueue({"n": number} for number in range(10))) as serving:
        yield serving


def first(gateway: HttpGateway, count: int, reply: Reply) -> None:
    """Let a number of exchanges come to grief."""
    left = iter(range(count))
    lock = threading.Lock()

    def substitute(path: str) -> Reply | None:
        with lock:
            unlucky = path == "/v1/exchange" and next(left, None) is not None
        return reply if unlucky else None

    gateway.substitute = substitute


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (error(503, "busy", Retry_After="0.05"), "busy"),
        (error(429, "busy", Retry_After="0.05"), "busy"),
        (error(500, "defect"), "failed"),
        (Reply(200, b'{"tasks": 7}'), "failed"),
        (Reply(200, b"x" * 10, (("Content-Length", "20"),), hang_up=True), "broken"),
    ],
)
def test_agents_ask_again_after_trouble(gateway: HttpGateway, reply: Reply, kind: str) -> None:
    """Each is served in the end, and the trouble is reported."""
    first(gateway, WORK.agents, reply)
    with AgentLoad(WORK, [LoadTarget("127.0.0.1", gateway.port)]) as load:
        load.wait(lambda totals: totals.served == WORK.agents, SOON_S)
        assert load.totals().errors == {kind: WORK.agents}


def test_kept_connection_that_was_closed_is_opened_again(gateway: HttpGateway) -> None:
    """Gateways close what was idle for long, and that is no error."""
    first(gateway, 1, Reply(hang_up=True))
    with AgentLoad(ALONE, [LoadTarget("127.0.0.1", gateway.port)]) as load:
        load.wait(lambda totals: totals.served == 1, SOON_S)
        assert (load.totals().reopened, load.totals().errors) == (1, {})


def test_agents_that_are_refused_ask_no_more(gateway: HttpGateway) -> None:
    """There is no point in it."""
    first(gateway, 1, error(403, "forbidden"))
    with AgentLoad(WORK, [LoadTarget("127.0.0.1", gateway.port)]) as load:
        load.wait(lambda totals: totals.served + totals.refused == WORK.agents, SOON_S)
        assert load.totals().errors == {"refused": 1}
    exchanges = [request for request in gateway.seen if request.path == "/v1/exchange"]
    assert len(exchanges) == WORK.agents


def test_agent_waits_for_the_time_of_retry_after_before_it_comes_again(
    gateway: HttpGateway,
) -> None:
    """A crowd that came back at once would be a load that no real agents make."""
    came_at: list[float] = []

    def busy_at_first(path: str) -> Reply | None:
        if path != "/v1/exchange":
            return None
        came_at.append(time.monotonic())
        return error(503, "busy", Retry_After=str(RETRY_S)) if len(came_at) == 1 else None

    gateway.substitute = busy_at_first
    with AgentLoad(ALONE, [LoadTarget("127.0.0.1", gateway.port)]) as load:
        load.wait(lambda totals: totals.served == 1, SOON_S)
    first_at, again_at = came_at
    assert again_at - first_at >= RETRY_S


def test_attempt_that_is_given_away_twice_is_noticed(gateway: HttpGateway) -> None:
    """That must never be, so a measurement in which it was is worth nothing."""
    with gateway_of(MemoryQueue([{"n": 0}])) as other:
        other.tokens = gateway.tokens
        with AgentLoad(
            LoadWork(2, enrol=TOKEN, content=True),
            [LoadTarget("127.0.0.1", gateway.port), LoadTarget("127.0.0.1", other.port)],
        ) as load:
            load.wait(lambda totals: totals.claimed == 2, SOON_S)
            assert load.totals().errors == {"twice": 1}
