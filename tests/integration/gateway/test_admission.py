"""A gateway that has too much to do: claims wait outside first, then beats, reports last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from taskq import Client
from taskq.db.connections import Database
from taskq.dispatch.fair_share import Scope
from taskq.gateway import exchanges, messages
from taskq.gateway.auth import AgentSession
from taskq.gateway.errors import failure
from taskq.gateway.exchanges import REPORT_AGAIN_S
from taskq.gateway.http.errors import Busy, retry_after_s
from taskq.gateway.service import Service
from taskq.gateway.settings import Settings
from taskq_agent.lease_ids import LeaseIds
from taskq_agent.protocol import Answer, Orders, Report, Request
from taskq_agent.wire import dumps
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.scripted_agent import ScriptedAgent

LEASES = LeaseIds()
#: Seconds between the two signals by which batch systems kill a job.
KILLED_S = 30


@pytest.fixture
def agents(queue: Client, hire: Hire, monkeypatch: pytest.MonkeyPatch) -> list[ScriptedAgent]:
    """Give agents at a campaign with tasks, where few of them are too many."""
    servable(queue, tasks=50)
    monkeypatch.setattr(exchanges, "MOST_CLAIMS", 3)
    monkeypatch.setattr(exchanges, "MOST_REPORTS", 6)
    return [hire() for _ in range(10)]


@asynccontextmanager
async def serving(database: Database) -> AsyncIterator[Service]:
    """Give a service."""
    served = Service(database, Settings(), lambda: 10)
    try:
        yield served
    finally:
        await served.close()


def begun(
    served: Service, double: ScriptedAgent, message: messages.Exchange
) -> asyncio.Task[Answer]:
    """Begin an exchange, together with all that are begun before anybody waits."""
    agent = AgentSession(double.session, Scope("/c"), 1)
    return asyncio.create_task(served.exchanges.once(agent, message))


def claim(*reports: Report) -> messages.Exchange:
    return read(Request(0, reports, want=1, lease=LEASES()))


def read(request: Request) -> messages.Exchange:
    """Return an exchange as the gateway reads it."""
    return messages.read_exchange(dumps(request).encode())


async def test_claims_wait_outside_while_reports_come_in(
    agents: list[ScriptedAgent], database: Database
) -> None:
    """Beyond the first limit a claim is refused, and that of who reports is put off."""
    (task,) = agents[9].claim()
    report = Report(task.campaign, task.task, task.lease, "done")
    async with serving(database) as served:
        taken = [begun(served, agent, claim()) for agent in agents[:3]]
        with pytest.raises(Busy) as refused:
            await begun(served, agents[3], claim())
        refusal = failure(refused.value)
        assert (refusal.status, refusal.code, refusal.retry) == (503, "busy", True)
        message = claim(report)
        taken += [begun(served, agent, claim()) for agent in agents[4:7]]
        answer = served.exchanges.with_orders(message, await begun(served, agents[9], message))
        assert [ack.verdict for ack in answer.acks] == ["accepted"]
        assert answer.tasks == ()
        assert isinstance(answer.orders, Orders)
        assert answer.orders.claim_after_s
        assert answer.orders.claim_after_s > 0
        assert [len((await task).tasks) for task in taken] == [1] * 6
        assert len((await begun(served, agents[3], claim())).tasks) == 1


async def test_reports_have_a_limit_of_their_own(
    agents: list[ScriptedAgent], database: Database
) -> None:
    """Memory is finite: an agent keeps what it cannot hand in."""
    tasks = [agent.claim()[0] for agent in agents[:7]]
    reports = [Report(task.campaign, task.task, task.lease, "done") for task in tasks]
    async with serving(database) as served:
        taken = [
            begun(served, agent, read(Request(0, (report,))))
            for agent, report in zip(agents[:6], reports, strict=False)
        ]
        with pytest.raises(Busy) as refused:
            await begun(served, agents[6], read(Request(0, (reports[6],))))
        assert refused.value.after_s
        assert refused.value.after_s <= REPORT_AGAIN_S < KILLED_S / 2
        verdicts = [(await task).acks[0].verdict for task in taken]
        assert verdicts == ["accepted"] * 6


async def test_agents_leave_together_while_claims_and_reports_are_refused(
    agents: list[ScriptedAgent], database: Database, queue: Client
) -> None:
    """By statements for many on a connection of their own, and none of them is refused."""
    leaving = agents[6:]
    assert all(agent.claim() for agent in leaving)
    async with serving(database) as served:
        await served.check_ready()
        served.identities.agent("any")  # which notes the server that answers
        for hired in leaving:
            agent = AgentSession(hired.session, Scope("/c"), 1)
            served.identities.remember(f"{hired.session}", agent)
        taken = [begun(served, agent, claim()) for agent in agents[:3]]
        left = [
            asyncio.create_task(served.close_session(f"{agent.session}", b"")) for agent in leaving
        ]
        with pytest.raises(Busy):
            await begun(served, agents[3], claim())
        await asyncio.gather(*left)
        await asyncio.gather(*taken)
    assert queue.campaign("/c").status().working == 3


async def test_exchanges_that_outlived_their_client_are_dropped(
    agents: list[ScriptedAgent], database: Database, queue: Client
) -> None:
    """What nobody waits for any more is not claimed."""
    async with serving(database) as served:
        taken = [begun(served, agent, claim()) for agent in agents[:3]]
        taken[1].cancel()
        assert len((await taken[0]).tasks) == len((await taken[2]).tasks) == 1
    assert queue.campaign("/c").status().working == 2


def test_retry_after_spreads_the_crowd() -> None:
    """So many seconds, by chance, that those who are sent away do not come back together."""
    times = {retry_after_s(20_000) for _ in range(200)}
    assert min(times) > 2
    assert 4 < max(times) < 4.5
    assert len(times) > 75
    assert 5 < retry_after_s(100_000) <= 10
    assert 0.5 <= retry_after_s(1) <= 1
