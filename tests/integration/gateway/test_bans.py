"""Bans over HTTP: agents of a banned host are told why, and are not let in again."""

from __future__ import annotations

import uuid

import pytest

from tests.fixtures.gateways import Realm
from tests.integration.gateway.peers import Reply, hello


@pytest.mark.thorough
def test_agents_of_a_banned_host_are_told_why(realm: Realm) -> None:
    """With the answer to a heartbeat, in the same statement as others that are not meant."""
    host = f"n{uuid.uuid4().hex}"
    bad, good = realm.agent(host=host), realm.agent(host="n1")
    realm.seed(2)
    (task,) = bad.claim(1)
    assert realm.queue.fleet.ban("host", host, why="its disk dies") == 1
    orders = bad.beat(task).json["orders"]
    assert (orders["drain"], orders["why"]) == (True, f"the host {host} is banned: its disk dies")
    assert not good.beat().json["orders"]["drain"]
    assert bad.report(task) == ["accepted"]
    said = hello(realm.path, host=host)
    reply = realm.gateway.ask("POST", "/v1/sessions", token=realm.site, body=said)
    assert (reply.status, reply.code) == (403, "forbidden")
    assert "is banned: its disk dies" in reply.json["error"]["message"]
    realm.queue.fleet.unban("host", host)
    reply = realm.gateway.ask("POST", "/v1/sessions", token=realm.site, body=said)
    assert reply.status == 200


@pytest.mark.thorough
def test_agent_that_waits_for_a_task_is_told_too(realm: Realm) -> None:
    """Its claim ends, as the heartbeat that it stands for finds out; the next brings the order."""
    host = f"n{uuid.uuid4().hex}"
    agent = realm.agent(host=host)
    realm.queue.fleet.ban("host", host, why="x")
    assert agent.claim(1, wait_s=30.0) == []
    assert agent.beat().json["orders"]["drain"]


def test_agents_of_a_bound_token_are_at_its_site_whatever_they_say(
    realm: Realm,
) -> None:
    """So a ban of the site, and limits there, hold for them; without that they go by their word."""
    site = f"s{uuid.uuid4().hex}"
    bound, free = realm.token("site", at_site=site), realm.token("site")

    def said(token: str, at: str) -> Reply:
        body = hello(realm.path, site=at)
        return realm.gateway.ask("POST", "/v1/sessions", token=token, body=body)

    numbers = [said(token, "elsewhere").json["session"] for token in (bound, free)]
    sites = {one.session_id: one.site for one in realm.queue.agents(realm.path)}
    assert [sites[number] for number in numbers] == [site, "elsewhere"]
    assert realm.queue.fleet.ban("site", site, why="power cut") == 1
    assert said(bound, "elsewhere").status == 403
    assert said(free, "elsewhere").status == 200
