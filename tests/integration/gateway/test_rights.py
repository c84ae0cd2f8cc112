"""Who may do what: a token opens its own doors and no others."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from taskq.db.tokens import hashed
from taskq_agent.lease_ids import new_lease
from tests.fixtures.gateways import GatewayProcess, Realm, StartGateway, opened
from tests.helpers.waiting import wait_until
from tests.integration.gateway.peers import Agent, fence, hello, report_of

pytestmark = pytest.mark.thorough

DATA = b"a large result"
BLOB = f"/v1/blobs/{hashlib.sha256(DATA).hexdigest()}"
OF_AGENTS: dict[tuple[str, str], Any] = {
    ("POST", "/v1/exchange"): {},
    ("POST", "/v1/beat"): {},
    ("POST", "/v1/checkpoint"): {"campaign": 1, "task": 1, "lease": new_lease()},
    ("DELETE", "/v1/session"): None,
}
OF_MANAGERS: dict[tuple[str, str], Any] = {
    ("GET", "/metrics"): None,
    ("POST", "/v1/manage/counts"): {"path": "/", "depth": 0},
    ("POST", "/v1/manage/set_status"): {"path": "/", "status": "open"},
    ("POST", "/v1/manage/submit"): {"path": "/", "tasks": "[]", "on_conflict": "fail"},
}


@pytest.fixture
def other(realm: Realm) -> Realm:
    """Give another campaign at the same gateway."""
    return Realm(realm.queue, realm.gateway)


@pytest.mark.parametrize(
    ("method", "path"), [*OF_AGENTS, *OF_MANAGERS, ("PUT", BLOB), ("GET", BLOB)]
)
@pytest.mark.parametrize("shown", ["", "Basic Og==", "Bearer ", "Bearer tqs_x", "Bearer \xff\x80"])
def test_nothing_without_a_token(
    shared_gateway: GatewayProcess, method: str, path: str, shown: str
) -> None:
    """Whatever else is shown in its place: 401."""
    headers = (f"authorization: {shown}",) if shown else ()
    body = {**OF_AGENTS, **OF_MANAGERS}.get((method, path))
    reply = shared_gateway.ask(method, path, body=body, headers=headers)
    assert (reply.status, reply.code) == (401, "unauthorized")


@pytest.mark.parametrize(("method", "path"), OF_MANAGERS)
def test_agent_cannot_do_what_managers_do(
    realm: Realm, agent: Agent, method: str, path: str
) -> None:
    """Neither with its session's token nor with its site's."""
    body = OF_MANAGERS[method, path]
    assert realm.gateway.ask(method, path, token=agent.token, body=body).status == 403
    assert realm.gateway.ask(method, path, token=realm.site, body=body).status in {401, 403}


@pytest.mark.parametrize(("method", "path"), OF_AGENTS)
def test_nobody_works_without_a_session(realm: Realm, method: str, path: str) -> None:
    """A site's token opens sessions only, a manager's none."""
    for token in (realm.site, realm.manager):
        reply = realm.gateway.ask(method, path, token=token, body=OF_AGENTS[method, path])
        assert reply.status in {401, 410}


@pytest.mark.parametrize("whose", ["manager", "session"])
def test_only_a_site_opens_sessions(realm: Realm, agent: Agent, whose: str) -> None:
    """A session cannot open others, which would outlive it."""
    token = {"manager": realm.manager, "session": agent.token}[whose]
    reply = realm.gateway.ask("POST", "/v1/sessions", token=token, body=hello(realm.path))
    assert (reply.status, reply.code) == (401, "unauthorized")


def test_site_is_limited_to_its_campaigns(realm: Realm, other: Realm) -> None:
    """It opens no session for another campaign."""
    body = hello(other.path)
    reply = realm.gateway.ask("POST", "/v1/sessions", token=realm.site, body=body)
    assert (reply.status, reply.code) == (403, "forbidden")


def test_session_claims_in_its_campaigns_only(other: Realm, agent: Agent) -> None:
    """Even if it names another one."""
    other.seed(5)
    reply = agent.exchange(want=5, lease=agent.lease(), campaign=other.path, path=other.path)
    assert reply.json["tasks"] == []
    assert other.campaign.status().waiting == 5


@pytest.mark.parametrize("outcome", ["done", "failed", "released"])
def test_lease_of_another_site_is_unknown(other: Realm, agent: Agent, outcome: str) -> None:
    """Who has learnt of a fence still cannot end the attempt, nor finds out that there is one."""
    other.seed()
    stranger = other.agent()
    (task,) = stranger.claim()
    assert agent.report(task, outcome=outcome) == ["unknown"]
    assert other.campaign.status().working == 1
    assert stranger.report(task) == ["accepted"]
    assert agent.report(task) == ["unknown"]


def test_heartbeat_keeps_nobody_elses_lease(other: Realm, agent: Agent) -> None:
    """To name a foreign lease stops the one who names it, not the one who has it."""
    other.seed()
    stranger = other.agent()
    (task,) = stranger.claim()
    assert agent.beat(task).json["stop"] == [fence(task)]
    assert stranger.beat(task).json["stop"] == []


def test_manager_is_limited_to_its_campaigns(realm: Realm, other: Realm) -> None:
    """It neither sees, steers nor feeds another one, nor the one above."""
    for path in (other.path, "/", f"{realm.path}x", f"{realm.path}/../{other.path[1:]}"):
        replies = [
            realm.manage("counts", path=path, depth=0),
            realm.manage("set_status", path=path, status="cancelled"),
            realm.manage(
                "submit", path=path, tasks='[{"key": "k", "payload": {}}]', on_conflict="fail"
            ),
        ]
        assert {reply.status for reply in replies} <= {403, 422}
    assert other.campaign.status().state == "open"


def test_agent_reads_no_blob_but_its_inputs(other: Realm, agent: Agent) -> None:
    """What another campaign has uploaded is not to be had by its digest."""
    stranger = other.agent()
    assert stranger.peer.ask("PUT", BLOB, token=stranger.token, body=DATA).status == 204
    assert agent.peer.ask("GET", BLOB, token=agent.token).status == 403


def test_token_is_bound_to_networks(realm: Realm) -> None:
    """A session is opened from there only; what a client says of its address is no proof."""
    token = realm.token("site", networks=["127.0.0.2/32"])
    body = hello(realm.path)
    claims = ("x-forwarded-for: 127.0.0.2", "forwarded: for=127.0.0.2")
    reply = realm.gateway.ask("POST", "/v1/sessions", token=token, body=body, headers=claims)
    assert (reply.status, reply.code) == (403, "forbidden")
    with realm.gateway.peer(source="127.0.0.2") as peer:
        assert peer.ask("POST", "/v1/sessions", token=token, body=body).status == 200


def test_revoked_site_works_nowhere(realm: Realm) -> None:
    """Neither the token nor the sessions that it has opened, though the gateway remembers them."""
    token = realm.token("site", "revoked" + realm.path[1:])
    agent = Agent.enrolled(realm.gateway.peer(), token, {"campaign": realm.path})
    realm.seed(2)
    (task, _) = agent.claim(2)
    assert agent.peer.ask("PUT", BLOB, token=agent.token, body=DATA).status == 204
    realm.queue.tokens.revoke("revoked" + realm.path[1:])
    assert realm.campaign.status().waiting == 2
    lost = {401, 403, 410}
    assert agent.exchange(want=1, lease=agent.lease()).status in lost
    assert agent.beat(task).status in lost
    assert agent.exchange(reports=[report_of(task)]).json["acks"][0]["verdict"] != "accepted"
    body = hello(realm.path)
    assert realm.gateway.ask("POST", "/v1/sessions", token=token, body=body).status in lost
    assert agent.peer.ask("PUT", BLOB, token=agent.token, body=DATA).status in lost
    assert agent.peer.ask("GET", BLOB, token=agent.token).status in lost


def test_revoked_manager_is_turned_away_within_30_s(realm: Realm) -> None:
    """Also by a gateway that has seen the token just before."""
    token = realm.token("manager", "revoked" + realm.path[1:])
    assert realm.gateway.ask("GET", "/metrics", token=token).status == 200
    realm.queue.tokens.revoke("revoked" + realm.path[1:])
    ask = realm.gateway.ask
    wait_until(lambda: ask("GET", "/metrics", token=token).status == 401, timeout_s=60)


@pytest.mark.parametrize("words", [["--verbose"], ["--verbose", "--log-json"]])
def test_tokens_are_never_logged(start_gateway: StartGateway, dsn: str, words: list[str]) -> None:
    """Neither they nor their hashes, at the highest level, whatever goes wrong."""
    gateway = start_gateway(*words, expected=["."])
    with opened(dsn) as queue:
        realm = Realm(queue, gateway)
        agent = realm.agent()
        realm.seed()
        agent.claim()
        gateway.ask("POST", "/v1/manage/submit", token=agent.token, body={})
        gateway.ask("POST", "/v1/exchange", token=agent.token, body=b"{")
        gateway.ask("POST", "/v1/exchange", token=realm.site, body={"reports": 1})
        shown = gateway.ask("GET", "/metrics", token=realm.manager).body.decode()
    gateway.stop()
    shown += gateway.errors()
    for secret in (agent.token, realm.site, realm.manager):
        assert secret not in shown
        assert secret[4:] not in shown
        assert hashed(secret).hex() not in shown
