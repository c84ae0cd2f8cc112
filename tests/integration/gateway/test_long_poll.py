"""Claims that wait: answered as soon as there is something, and not before their time is up."""

from __future__ import annotations

import time
from typing import Any

import psycopg
import pytest

from taskq import Client
from tests.fixtures.gateways import Realm, StartGateway
from tests.helpers.postgres import Postgres, value
from tests.helpers.waiting import BUSY_S, wait_until
from tests.integration.gateway.peers import Agent

TASKS = '[{"key": "k", "payload": {}}]'


@pytest.fixture
def busy(realm: Realm) -> Agent:
    """Give an agent that has the only task in hand: who claims now can only wait."""
    busy = realm.agent()
    realm.seed()
    assert len(busy.claim()) == 1
    return busy


def waiting_agents(realm: Realm, count: int, wait_s: float = 30.0, **members: Any) -> list[Agent]:
    """Return agents that wait for something to claim."""
    agents = [realm.agent() for _ in range(count)]
    for agent in agents:
        agent.peer.send(agent.wanting(lease=agent.lease(), wait_s=wait_s, **members))
    wait_until(lambda: waiting(realm) == count)
    return agents


def waiting(realm: Realm) -> int:
    return realm.gateway.metric("waiting", realm.manager)


@pytest.mark.usefixtures("busy")
def test_seed_wakes_who_waits(realm: Realm) -> None:
    """Long before its time is up, though this gateway got no notification."""
    (agent,) = waiting_agents(realm, 1)
    realm.seed()
    began = time.monotonic()
    assert len(agent.peer.reply().json["tasks"]) == 1
    assert time.monotonic() - began < BUSY_S


@pytest.mark.usefixtures("busy")
def test_tasks_added_over_http_wake_who_waits(realm: Realm) -> None:
    """At once: this gateway knows of them."""
    (agent,) = waiting_agents(realm, 1)
    realm.manage("submit", path=realm.path, tasks=TASKS, on_conflict="fail")
    assert len(agent.peer.reply().json["tasks"]) == 1


@pytest.mark.thorough
def test_tasks_added_at_another_gateway_wake_who_waits(
    queue: Client, postgres: Postgres, start_gateway: StartGateway
) -> None:
    """That one announces them, since somebody waits at this one, and only then."""
    realm, elsewhere = Realm(queue, start_gateway()), start_gateway()
    there = Realm(queue, elsewhere)
    listens = """
        select count(*) from pg_locks l join pg_database d on d.oid = l.database
         where l.locktype = 'advisory' and d.datname = current_database()"""
    with psycopg.connect(elsewhere.dsn, autocommit=True) as ear:
        ear.execute("listen taskq_tasks")
        there.manage("submit", path=there.path, tasks=TASKS, on_conflict="fail")
        agent = realm.agent()
        agent.peer.send(agent.wanting(lease=agent.lease(), wait_s=30.0, until_empty=False))
        wait_until(lambda: value(postgres, listens) == 1)
        assert list(ear.notifies(timeout=0)) == []
        added = elsewhere.ask(
            "POST",
            "/v1/manage/submit",
            token=realm.manager,
            body={"path": realm.path, "tasks": TASKS, "on_conflict": "fail"},
        )
        assert added.status == 200
        assert len(agent.peer.reply().json["tasks"]) == 1
        wait_until(lambda: len(list(ear.notifies(timeout=0))) == 1)


def test_released_task_wakes_who_waits(realm: Realm, busy: Agent) -> None:
    """It does not matter how a task becomes claimable."""
    (agent,) = waiting_agents(realm, 1)
    busy.peer.ask("DELETE", "/v1/session", token=busy.token)
    assert len(agent.peer.reply().json["tasks"]) == 1


@pytest.mark.usefixtures("busy")
def test_claim_that_waits_in_vain_is_answered_when_its_time_is_up(realm: Realm) -> None:
    """Not much sooner or later, and with the number of unfinished tasks."""
    agent = realm.agent()
    began = time.monotonic()
    reply = agent.exchange(want=1, lease=agent.lease(), wait_s=0.7).json
    assert (reply["tasks"], reply["unfinished"]) == ([], 1)
    assert 0.65 < time.monotonic() - began < 0.7 + BUSY_S


@pytest.mark.thorough
def test_nobody_waits_when_all_is_done(realm: Realm, busy: Agent) -> None:
    """The last report sends them home."""
    (agent,) = waiting_agents(realm, 1, until_empty=True)
    (task,) = busy.exchange(want=1, lease=busy.drawn).json["tasks"]
    assert busy.report(task) == ["accepted"]
    reply = agent.peer.reply().json
    assert (reply["tasks"], reply["unfinished"]) == ([], 0)
    began = time.monotonic()
    last = agent.exchange(want=1, lease=agent.lease(), wait_s=30, until_empty=True)
    assert last.json["unfinished"] == 0
    assert time.monotonic() - began < BUSY_S


@pytest.mark.usefixtures("busy")
def test_as_many_as_there_are_tasks_are_served(realm: Realm) -> None:
    """Nobody is left waiting next to a task."""
    agents = waiting_agents(realm, 30)
    realm.seed(30)
    began = time.monotonic()
    tasks = [agent.peer.reply().json["tasks"][0]["task"] for agent in agents]
    assert len(set(tasks)) == 30
    assert time.monotonic() - began < BUSY_S


def test_reports_count_before_the_wait(realm: Realm, busy: Agent) -> None:
    """Who reports and then waits has reported, and gets the verdict with the tasks."""
    (task,) = busy.exchange(want=1, lease=busy.drawn).json["tasks"]
    realm.seed()
    assert len(realm.agent().claim(wait_s=20)) == 1
    report = {name: task[name] for name in ("campaign", "task", "lease")} | {"outcome": "done"}
    busy.peer.send(busy.wanting(lease=busy.lease(), reports=[report], wait_s=30))
    wait_until(lambda: realm.campaign.status().done == 1)
    realm.seed()
    reply = busy.peer.reply().json
    assert [ack["verdict"] for ack in reply["acks"]] == ["accepted"]
    assert len(reply["tasks"]) == 1


@pytest.mark.usefixtures("busy")
def test_client_that_has_hung_up_gets_no_task(realm: Realm) -> None:
    """A task seeded then goes to a client that is there."""
    gone, there = waiting_agents(realm, 1)[0], realm.agent()
    gone.peer.close()
    wait_until(lambda: waiting(realm) == 0)
    realm.seed()
    assert len(there.claim(wait_s=20)) == 1


@pytest.mark.thorough
@pytest.mark.usefixtures("busy")
def test_revoked_agent_that_waits_gets_no_task(realm: Realm) -> None:
    """When it wakes, it learns that its session is lost."""
    token = realm.token("site", "gone" + realm.path[1:])
    agent = Agent.enrolled(realm.gateway.peer(), token, {"campaign": realm.path})
    agent.peer.send(agent.wanting(lease=agent.lease(), wait_s=20))
    wait_until(lambda: waiting(realm) == 1)
    realm.queue.tokens.revoke("gone" + realm.path[1:])
    realm.seed()
    assert agent.peer.reply().code == "session_lost"
    assert len(realm.agent().claim(wait_s=20)) == 1
