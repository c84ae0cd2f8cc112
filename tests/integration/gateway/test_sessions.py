"""Sessions over HTTP: opened, kept, used and ended, and the same for repeated requests."""

from __future__ import annotations

import json
import re

import pytest

from taskq.db.tokens import hashed, session_token
from taskq_agent.protocol import ANSWER_HEADER
from tests.fixtures.gateways import Realm
from tests.helpers.waiting import wait_until
from tests.integration.gateway.peers import Agent, Reply, hello, request_bytes


def open_session(realm: Realm, body: object, token: str = "") -> Reply:
    return realm.gateway.ask("POST", "/v1/sessions", token=token or realm.site, body=body)


def but_time(reply: Reply) -> dict[str, object]:
    """Return what an answer says, but for the time of the server's clock."""
    return {name: value for name, value in reply.json.items() if name != "now"}


def test_repeated_hello_finds_the_same_session_and_token(realm: Realm) -> None:
    """An agent whose answer was lost says it again; two sessions would expire each other."""
    said = hello(realm.path)
    first = open_session(realm, said)
    again = open_session(realm, said)
    assert (again.status, but_time(again)) == (first.status, but_time(first))  # not the date
    assert first.json.keys() == {"session", "heartbeat_s", "lease_s", "token", "now", "banned"}
    assert first.json["token"] == session_token(realm.site, said["key"])


def test_hello_without_a_length_finds_the_same_session(realm: Realm) -> None:
    """The application answers that one, and the connection itself the usual ones."""
    said = hello(realm.path)
    body = json.dumps(said).encode()
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    head = ("transfer-encoding: chunked",)
    with realm.gateway.peer() as peer:
        reply = peer.ask("POST", "/v1/sessions", token=realm.site, body=chunks, headers=head)
        again = peer.ask("POST", "/v1/sessions", token=realm.site, body=said)
    assert (again.status, but_time(again)) == (reply.status, but_time(reply))
    of_time = {name: reply.headers[name] for name in ("date", "content-length")}
    assert reply.headers == again.headers | of_time


def test_hello_of_an_older_release_opens_a_session(realm: Realm) -> None:
    """Members that came later have defaults."""
    said = hello(realm.path)
    reply = open_session(realm, {"key": said["key"], "campaign": realm.path})
    assert reply.status == 200


def test_hello_of_a_newer_release_opens_a_session(realm: Realm) -> None:
    """Members that this release does not know are passed over."""
    reply = open_session(realm, hello(realm.path, accelerators=[{"kind": "gpu"}], until=1e300))
    assert reply.status == 200


def test_exchange_of_another_release_is_answered(realm: Realm, agent: Agent) -> None:
    """Fewer members or more, all the way down."""
    assert agent.exchange().status == 200
    realm.seed()
    (task,) = agent.claim(1, mood="good", wait_s=0.0)
    report = {"campaign": task["campaign"], "task": task["task"], "lease": task["lease"]}
    reply = agent.exchange(reports=[{**report, "outcome": "done", "joules": 17}])
    assert reply.json["acks"] == [{**report, "verdict": "accepted"}]


@pytest.mark.thorough
def test_session_in_an_exchange_is_ignored(realm: Realm, agent: Agent) -> None:
    """The token says whose exchange it is; nobody can name another."""
    other = realm.agent()
    realm.seed(2)
    (task,) = agent.claim(1, session=other.session)
    assert other.beat(task).json["stop"] == [
        {"campaign": task["campaign"], "task": task["task"], "lease": task["lease"]}
    ]
    assert agent.report(task, session=other.session) == ["accepted"]


def test_claim_brings_what_its_campaign_shares(realm: Realm, agent: Agent) -> None:
    """An agent can work on what an answer holds and needs nothing else."""
    realm.seed()
    reply = agent.exchange(want=1, lease=agent.lease()).json
    (shared,) = reply["campaigns"]
    assert shared["path"] == realm.path
    assert shared["handler"]["argv"] == ["true"]
    assert shared["campaign"] == reply["tasks"][0]["campaign"]


def test_closed_session_gives_back_what_it_held(realm: Realm, agent: Agent) -> None:
    """Who leaves is waited for no longer."""
    realm.seed(2)
    agent.claim(2)
    reply = agent.peer.ask("DELETE", "/v1/session", token=agent.token)
    assert (reply.status, reply.body) == (204, b"")
    assert realm.campaign.status().waiting == 2
    assert agent.exchange(want=1, lease=agent.lease()).code == "session_lost"
    assert agent.beat().code == "session_lost"


@pytest.mark.parametrize("body", [None, b"", b'{"reason": "why", "exit_code": 3}'])
def test_end_of_a_session_is_answered_without_a_body(agent: Agent, body: bytes | None) -> None:
    """On the way past the application, and on the way through it; the connection goes on."""
    reply = agent.peer.ask("DELETE", "/v1/session", token=agent.token, body=body)
    assert (reply.status, list(reply.headers)) == (204, ["date", ANSWER_HEADER.lower()])
    assert agent.exchange(want=1, lease=agent.lease()).code == "session_lost"


@pytest.mark.thorough
@pytest.mark.parametrize("body", [b"{", b'{"exit_code": "x"}', b"[]"])
def test_session_stays_open_if_its_end_cannot_be_read(agent: Agent, body: bytes) -> None:
    """Nobody knows what was meant."""
    reply = agent.peer.ask("DELETE", "/v1/session", token=agent.token, body=body)
    assert reply.code == "malformed"
    assert agent.beat().status == 200


def test_session_ends_though_its_agent_hangs_up(realm: Realm, agent: Agent) -> None:
    """A killed job does not wait for the answer."""
    realm.seed()
    agent.claim()
    agent.peer.send(request_bytes("DELETE", "/v1/session", token=agent.token, body=b"{}"))
    agent.peer.close()
    wait_until(lambda: realm.campaign.status().waiting == 1)


@pytest.mark.thorough
def test_all_of_many_agents_that_leave_at_once_are_recorded(realm: Realm) -> None:
    """Nobody has to come again, and their tasks wait again."""
    realm.seed(300)
    agents = [realm.agent() for _ in range(300)]
    assert sum(len(agent.claim()) for agent in agents) == 300
    for agent in agents:
        agent.peer.send(request_bytes("DELETE", "/v1/session", token=agent.token))
    assert {agent.peer.reply().status for agent in agents} == {204}
    assert realm.campaign.status().waiting == 300


def test_session_may_be_closed_again(agent: Agent) -> None:
    """Every request may be repeated as it is: who lost the answer need not know that it did."""
    replies = [agent.peer.ask("DELETE", "/v1/session", token=agent.token) for _ in range(2)]
    assert [reply.status for reply in replies] == [204, 204]


def test_session_token_is_kept_nowhere(realm: Realm, agent: Agent) -> None:
    """Derived from the site's token and the key; nothing that is written holds it."""
    assert re.fullmatch("tqs_[A-Za-z0-9_-]{43}", agent.token)
    shown = realm.gateway.ask("GET", "/metrics", token=realm.manager).body.decode()
    shown += realm.gateway.errors()
    for secret in (agent.token, realm.site, realm.manager):
        assert secret not in shown
        assert hashed(secret).hex() not in shown
