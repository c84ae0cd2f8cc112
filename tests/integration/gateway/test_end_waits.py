"""Requests that wait for the end of a call: answered at once, and bounded."""

from __future__ import annotations

import gzip
import json
import time
from typing import Any

import pytest

from taskq.gateway.end_waits import MOST_WAITED_TASKS, MOST_WAITS_OF_TOKEN
from taskq.gateway.manager_turns import MOST_OF_TOKEN
from tests.fixtures.gateways import Realm, StartGateway
from tests.helpers.waiting import BUSY_S, wait_until
from tests.integration.gateway.peers import Peer, Reply, request_bytes

LONG_S = 4 * BUSY_S


def waiting(realm: Realm, tasks: list[int], *, wait_s: Any = 30, token: str = "") -> Peer:
    """Return a connection on which somebody waits for the end of some tasks."""
    peer = realm.gateway.peer()
    body = {"campaign": realm.campaign.campaign_id, "tasks": tasks}
    path = f"/v1/manage/results_when_ended?wait_s={wait_s}"
    peer.send(request_bytes("POST", path, token=token or realm.manager, body=body))
    return peer


def kept_back(realm: Realm) -> int:
    return realm.gateway.metric("awaiting", realm.manager)


def ended(reply: Reply) -> list[int]:
    """Return the tasks whose results are in an answer."""
    assert reply.status == 200, reply
    head, *rows = map(json.loads, gzip.decompress(reply.body).splitlines())
    assert head[0][0] == "task_id"
    return [row[0] for row in rows]


def seeded(realm: Realm, count: int = 1) -> list[int]:
    """Return new tasks."""
    realm.seed(count)
    return [task.task_id for task in realm.campaign.tasks()]


def test_report_ends_the_wait_for_its_task(realm: Realm) -> None:
    """Also for others that wait for it, and not for those that wait for another one."""
    agent, tasks = realm.agent(), seeded(realm, 2)
    (claimed,) = agent.claim()
    (rest,) = {*tasks} - {claimed["task"]}
    first, second, other = (waiting(realm, some) for some in (tasks, [claimed["task"]], [rest]))
    wait_until(lambda: kept_back(realm) == 3)
    assert agent.report(claimed) == ["accepted"]
    assert ended(first.reply()) == ended(second.reply()) == [claimed["task"]]
    wait_until(lambda: kept_back(realm) == 1)
    other.close()
    wait_until(lambda: kept_back(realm) == 0)


def test_task_that_has_ended_is_not_waited_for(realm: Realm) -> None:
    """The statement runs first, so no end before the wait is missed."""
    agent, tasks = realm.agent(), seeded(realm)
    (claimed,) = agent.claim()
    assert agent.report(claimed) == ["accepted"]
    began = time.monotonic()
    assert ended(waiting(realm, tasks).reply()) == tasks
    assert time.monotonic() - began < BUSY_S


@pytest.mark.parametrize("how", ["at another gateway", "cancelled", "removed"])
def test_end_elsewhere_ends_the_wait(realm: Realm, start_gateway: StartGateway, how: str) -> None:
    """Which no report at this gateway shows."""
    tasks = seeded(realm)
    with waiting(realm, tasks) as peer:
        wait_until(lambda: kept_back(realm) == 1)
        began = time.monotonic()
        if how == "at another gateway":
            agent = realm.agent(start_gateway(on=realm.gateway.dsn))
            (claimed,) = agent.claim()
            assert agent.report(claimed) == ["accepted"]
        else:
            realm.campaign.cancel()
        if how == "removed":
            realm.campaign.remove()
        reply = peer.reply()
        assert time.monotonic() - began < BUSY_S
    if how == "removed" and reply.status != 200:  # if it was already gone when the wait ended
        assert reply.status == 403
    else:
        assert ended(reply) == (tasks if how == "at another gateway" else [])


def test_wait_ends_with_its_time(realm: Realm) -> None:
    """Without a row, since nothing has ended."""
    began = time.monotonic()
    assert ended(waiting(realm, seeded(realm), wait_s=0.5).reply()) == []
    assert 0.45 < time.monotonic() - began < BUSY_S


def test_waits_hold_no_place_of_other_requests(realm: Realm) -> None:
    """And no connection to PostgreSQL: more wait than may ask or run statements."""
    tasks = seeded(realm)
    peers = [waiting(realm, tasks, wait_s=30) for _ in range(2)]
    for count in range(2, 4 * MOST_OF_TOKEN):
        wait_until(
            lambda count=count: kept_back(realm) == count,
            timeout_s=20,
            on_timeout=lambda: f"{kept_back(realm)} {len(peers)}",
        )
        peers.append(waiting(realm, tasks))
    assert realm.manage("counts", path=realm.path, depth=0).status == 200
    agent = realm.agent()
    (claimed,) = agent.claim()
    assert agent.report(claimed) == ["accepted"]
    assert [ended(peer.reply()) for peer in peers] == [tasks] * len(peers)


@pytest.mark.thorough
def test_waits_of_a_token_are_bounded(realm: Realm) -> None:
    """The next one is put off; others wait."""
    tasks, peers = seeded(realm), []
    for count in range(MOST_WAITS_OF_TOKEN):
        peers.append(waiting(realm, tasks))
        if count % MOST_OF_TOKEN == MOST_OF_TOKEN - 1:
            wait_until(lambda: kept_back(realm) == len(peers))
    wait_until(lambda: kept_back(realm) == MOST_WAITS_OF_TOKEN)
    assert waiting(realm, tasks).reply().status == 503
    other = waiting(realm, tasks, token=realm.token("manager"))
    wait_until(lambda: kept_back(realm) == MOST_WAITS_OF_TOKEN + 1)
    other.close()
    realm.gateway.hang_up()
    wait_until(lambda: kept_back(realm) == 0)


@pytest.mark.parametrize(
    ("tasks", "wait_s"),
    [([], 1), ([1] * (MOST_WAITED_TASKS + 1), 1), (["1"], 1), ([1], "nan"), ([1], -1), ([True], 1)],
)
def test_senseless_wait_is_refused(realm: Realm, tasks: list[Any], wait_s: Any) -> None:
    """As other senseless values are."""
    assert waiting(realm, tasks, wait_s=wait_s).reply().status == 400


def test_only_managers_of_a_campaign_wait_for_its_tasks(realm: Realm) -> None:
    """The right is looked up before the wait, and again behind it."""
    tasks = seeded(realm)
    stranger = Realm(realm.queue, realm.gateway).manager
    assert waiting(realm, tasks, token=stranger).reply().status == 403
    revoked = realm.token("manager", "soon-gone")
    with waiting(realm, tasks, token=revoked) as peer:
        wait_until(lambda: kept_back(realm) == 1)
        realm.queue.tokens.revoke("soon-gone")
        realm.campaign.cancel()
        assert peer.reply().status == 401


def test_wait_is_answered_before_a_gateway_ends(realm: Realm, start_gateway: StartGateway) -> None:
    """So that its client asks another one."""
    gateway = start_gateway(on=realm.gateway.dsn)
    own = Realm(realm.queue, gateway)
    tasks = seeded(own)
    peer = waiting(own, tasks)
    wait_until(lambda: kept_back(own) == 1)
    gateway.process.terminate()
    assert ended(peer.reply()) == []
    peer.close()
    gateway.ended()
