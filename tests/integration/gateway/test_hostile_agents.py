"""Hostile clients with a right to speak, next to healthy agents of one gateway.

How fast the healthy ones stay is measured by `make bench CASES=gateway-hostile`; here counts what
they get.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.fixtures.gateways import Realm
from tests.helpers.meanwhile import meanwhile, repeated
from tests.integration.gateway.peers import Agent, report_of

HEALTHY = 6
TURNS = 25
MADE_UP = 10**12


def work(agents: list[Agent]) -> None:
    """Let agents report a task and claim the next, at the same time, some times each."""
    troubles: list[str] = []

    def turns(agent: Agent) -> None:
        tasks: list[dict[str, Any]] = []
        for _ in range(TURNS):
            reports = [report_of(task) for task in tasks]
            reply = agent.exchange(reports=reports, want=1, lease=agent.lease())
            answer = reply.json if reply.status == 200 else {"acks": [], "tasks": []}
            if any(ack["verdict"] != "accepted" for ack in answer["acks"]):
                troubles.append(f"a report was not accepted: {answer}")
            tasks = answer["tasks"]
            if len(tasks) != 1:
                troubles.append(f"a claim got no task: {reply}")

    with ThreadPoolExecutor(len(agents)) as pool:
        list(pool.map(turns, agents))
    assert troubles == []


def two_under_one_lease_id(realm: Realm) -> list[Callable[[], None]]:
    """Claim from two sessions at the same time, and hand back."""
    agents = [realm.agent(), realm.agent()]

    def turn() -> None:
        lease = agents[0].lease()
        for agent in agents:
            agent.peer.send(agent.request(want=1, lease=lease))
        tasks = [agent.peer.reply().json["tasks"] for agent in agents]
        assert [len(own) for own in tasks] == [1, 1]
        for agent, own in zip(agents, tasks, strict=True):
            assert agent.report(*own) == ["accepted"]

    return [turn]


def a_spent_lease_id(realm: Realm) -> list[Callable[[], None]]:
    """Claim under one that tasks have had before."""
    agent, lease = realm.agent(), str(uuid.uuid4())

    def turn() -> None:
        # It would wait, and would have others wait with it.
        tasks = agent.claim(lease=lease, wait_s=5)
        if tasks:
            agent.exchange(reports=[report_of(task, "released") for task in tasks])

    return [turn]


def made_up_campaigns(realm: Realm) -> list[Callable[[], None]]:
    """Report on a thousand in each exchange."""

    def turn_of(agent: Agent) -> Callable[[], None]:
        fences = [{"campaign": MADE_UP + n, "task": n, "lease": agent.lease()} for n in range(999)]

        def turn() -> None:
            assert set(agent.report(*fences)) == {"unknown"}

        return turn

    return [turn_of(realm.agent()) for _ in range(2)]


def one_session_on_many_connections(realm: Realm) -> list[Callable[[], None]]:
    """Report what is not known, on all of them."""
    agent = realm.agent()
    agents = [agent.at(realm.gateway.peer()) for _ in range(40)]
    fence = {"campaign": MADE_UP, "task": 1, "lease": agent.lease()}

    def turn() -> None:
        for value in agents:
            value.peer.send(value.request(reports=[report_of(fence)]))
        for value in agents:
            assert value.peer.reply().status == 200

    return [turn]


@pytest.mark.parametrize(
    "hostile",
    [
        two_under_one_lease_id,
        a_spent_lease_id,
        made_up_campaigns,
        one_session_on_many_connections,
    ],
)
def test_healthy_agents_get_a_task_for_each_claim(
    realm: Realm, hostile: Callable[[Realm], list[Callable[[], None]]]
) -> None:
    """And all that they report is accepted, as if nobody else were there."""
    realm.seed(2_000)
    agents = [realm.agent() for _ in range(HEALTHY)]
    with meanwhile(*map(repeated, hostile(realm))):
        work(agents)
