"""Managers who ask for what is dear, or read slowly: what that costs others and the gateway."""

from __future__ import annotations

import asyncio
import gzip
import json
import secrets
import select
import socket
import time
from typing import Any

import pytest

from taskq import Seed
from taskq.campaign.filter_compiler import compiled
from taskq.db.gateway_queries import GatewayQueries
from taskq.gateway import auth, manager_queries
from taskq.gateway.auth import AgentSession, Manager
from taskq.gateway.http.errors import Busy
from taskq.gateway.manager_turns import MOST_AT_ONCE, MOST_KEPT_BYTES, MOST_OF_TOKEN
from taskq.gateway.service import Service
from taskq.gateway.settings import Settings
from taskq.model.errors import Unauthorized
from tests.fixtures.gateways import Realm
from tests.helpers.waiting import wait_until
from tests.integration.gateway.in_process import endpoints, posted
from tests.integration.gateway.peers import Peer, Reply, request_bytes

#: What an answer with 50 of the results takes: half of their hexadecimal digits, compressed.
ANSWER_BYTES = 6_250_000


def post(realm: Realm, name: str, token: str, **values: Any) -> Peer:
    """Return a connection on which a statement was asked for."""
    peer = realm.gateway.peer()
    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)  # the kernel takes little
    peer.send(request_bytes("POST", f"/v1/manage/{name}", token=token, body=values))
    return peer


def counts(realm: Realm, token: str) -> Reply:
    """Return the answer to a cheap request."""
    with post(realm, "counts", token, path=realm.path, depth=0) as peer:
        return peer.reply()


def find(realm: Realm, token: str, terms: str, limit: int = 1_000) -> Peer:
    """Ask for the tasks that match a filter."""
    values = {"filter": terms, "states": ["waiting"], "parts": ["payload"]}
    values |= {"payloads": False, "tasks": None}
    campaign = realm.campaign.campaign_id
    return post(realm, "find_tasks", token, campaign=campaign, after=0, limit=limit, **values)


@pytest.mark.parametrize(
    "path",
    [
        r'exists($."payload"."x" ? (@ like_regex "^(a*)*(b*)*\\1\\2$"))',
        'exists($.** ? (exists(@.** ? (exists(@.** ? (@ == "x"))))))',
        'exists($."payload"."x"[*] ? (@ == $."payload"."x"[*]))',
    ],
)
def test_manager_sends_no_path_or_regular_expression_of_his_own(realm: Realm, path: str) -> None:
    """Neither as it is, nor in a filter: back-references take hours of a short text."""
    realm.seed(1, x="a" * 1_000)
    for terms in (path, json.dumps(path), json.dumps(["=", [path]]), json.dumps([path, ["key"]])):
        with find(realm, realm.manager, terms) as peer:
            reply = peer.reply()
        assert reply.status in {200, 422}
        if reply.status == 200:  # it is the name of a field, which no task has
            rows = gzip.decompress(reply.body).splitlines()[1:]
            assert [json.loads(row)[1] for row in rows] == [False]


@pytest.mark.thorough
def test_dear_filters_of_one_token_keep_no_other_waiting(realm: Realm) -> None:
    """Two of its statements run at a time, each for ten seconds at most, and it hears why."""
    realm.campaign.seed(Seed({"x": [*range(10_000)]}, f"k{n}") for n in range(200))
    several = ", ".join(str(-n) for n in range(1_000, 2_300))
    terms = compiled(f"payload.x in ({several})").terms
    dear = [find(realm, realm.manager, terms) for _ in range(MOST_OF_TOKEN)]
    other = realm.token("manager")
    for _ in range(2 * MOST_AT_ONCE):
        assert counts(realm, other).status == 200
    assert not select.select([peer.socket for peer in dear], [], [], 0)[0]
    for peer in dear:
        reply = peer.reply()
        assert (reply.status, json.loads(reply.body)["error"]["code"]) == (504, "too_long")
        assert b"find_tasks took longer than 10 s; compare fewer values" in reply.body


async def test_requests_of_a_token_are_bounded_in_rate(
    realm: Realm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For managers' verbs and blobs, whose heads cost a look-up each; others go on."""
    monkeypatch.setattr(auth, "ASKED_AT_ONCE", 3)
    monkeypatch.setattr(auth, "ASKED_PER_S", 0.001)
    agent = realm.agent()
    service = Service(realm.queue.database, Settings(), lambda: 1)
    tokens = service.identities
    try:
        for _ in range(3):
            assert isinstance(await tokens.admit(realm.manager, anew=True), Manager)
        for _ in range(9):
            with pytest.raises(Unauthorized):
                await tokens.admit("nobody's")
        for anew in (False, True):
            with pytest.raises(Busy):
                await tokens.admit(realm.manager, anew=anew)
        assert isinstance(await tokens.admit(realm.token("manager")), Manager)
        assert isinstance(await tokens.admit(agent.token), AgentSession)
        monkeypatch.setattr(auth, "ASKED_WAIT_S", 1e9)
        waiting = asyncio.create_task(tokens.admit(realm.manager))
        assert isinstance(await tokens.admit(agent.token), AgentSession)
        assert not waiting.done()
        waiting.cancel()
    finally:
        await service.close()


async def test_refused_large_statement_keeps_its_turn_for_a_rest(
    realm: Realm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody rests after a small one that is refused, or a large one that is not."""
    monkeypatch.setattr(manager_queries, "REFUSED_REST_FACTOR", 1e12)
    head = json.dumps({"path": realm.path, "on_conflict": "skip"}).encode()

    async def submit(payload: str, count: int) -> int:
        tasks = ", ".join(f'{{"key": "{n}", "payload": {payload}}}' for n in range(count))
        body = head + f"\n[{tasks}]".encode()
        return await posted(port, "/v1/manage/submit?rest=tasks", realm.manager, body)

    async with endpoints(realm.queue.database) as port:
        monkeypatch.setattr(manager_queries, "REFUSED_REST_S", 1e9)
        assert await submit('{"n": 1e5000}', 1) == 422
        assert await submit('{"n": 1}', 9_000) == 200
        monkeypatch.setattr(manager_queries, "REFUSED_REST_S", 0.2)
        for payload, count in ((f'{{"n": "{"x" * 70_000}"}}', 1), ('{"n": 1e5000}', 9_000)):
            began = time.monotonic()
            assert await submit(payload, count) == 422
            assert time.monotonic() - began > 0.2


@pytest.fixture
def results(realm: Realm) -> list[int]:
    """Give tasks whose results are an eighth of a megabyte each, compressed."""
    realm.seed(80)
    agent = realm.agent()
    for task in agent.claim_many(80):
        assert agent.report(task, result={"x": secrets.token_hex(ANSWER_BYTES // 50)}) == [
            "accepted"
        ]
    return [task.task_id for task in realm.campaign.tasks()]


@pytest.mark.thorough
def test_answers_that_are_not_taken_are_bounded_and_cost_their_token(
    realm: Realm, results: list[int]
) -> None:
    """Its further requests are refused, those of others go on; what is kept is bounded for all."""
    values = {"campaign": realm.campaign.campaign_id, "tasks": results[:50]}

    def read_slowly(token: str) -> list[Peer]:
        peers = [post(realm, "results_of", token, **values) for _ in range(MOST_OF_TOKEN)]
        wait_until(lambda: len(select.select([peer.socket for peer in peers], [], [], 1)[0]) == 4)
        return peers

    slow = read_slowly(realm.manager)
    assert counts(realm, realm.manager).status == 503
    assert counts(realm, realm.token("manager")).status == 200
    for _ in range(24):
        slow += read_slowly(realm.token("manager"))
    kept = sum(peer.socket.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 200" for peer in slow)
    assert kept <= MOST_KEPT_BYTES // ANSWER_BYTES + 1 + MOST_AT_ONCE  # those that were just made
    for peer in slow:
        peer.close()
    wait_until(lambda: counts(realm, realm.manager).status == 200)


@pytest.mark.thorough
def test_results_of_more_than_an_answer_holds_come_in_parts(
    realm: Realm, results: list[int]
) -> None:
    """What is refused as too large is asked for by halves."""
    campaign = realm.campaign.campaign_id
    with post(realm, "results_of", realm.manager, campaign=campaign, tasks=results) as peer:
        assert peer.reply().status == 413
    queries = GatewayQueries(realm.gateway.url, realm.manager, patience_s=0)
    rows = queries.rows("results_of", campaign=campaign, tasks=results)
    assert [row["task_id"] for row in rows] == results
    queries.close()
