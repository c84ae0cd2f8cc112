"""Campaigns that agents cannot run, at a gateway: left out, not waited for, and reported."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from taskq import CampaignSpec, Client, Handler
from tests.fixtures.gateways import Realm, StartGateway
from tests.helpers.campaigns import servable
from tests.helpers.waiting import wait_until
from tests.helpers.worker_node import AgentResult
from tests.integration.gateway.peers import report_of
from tests.integration.gateway.site import Site, upkeep

LATER_S = 100.0
TASKS = 6
#: Exchanges that a wait of some turns may cost at most, if nobody is woken for nothing.
FEW = 3


def refusal_of(task: dict[str, object]) -> dict[str, object]:
    """Return the report of a node that cannot run a task."""
    return report_of(
        task, "released", refused=True, error_class="prepare-failed", error="no receptor"
    )


def left_out(realm: Realm) -> list[list[int]]:
    """Return the realm's campaign as a claim leaves it out."""
    row = realm.queue.database.row("campaign_by_id", campaign=realm.campaign.campaign_id)
    assert row is not None
    return [[row["campaign"], row["revision"]]]


def exchanges(realm: Realm) -> int:
    return realm.gateway.metric("exchanges_total", realm.manager)


def test_refused_task_waits_for_others_uncounted_and_is_recorded(realm: Realm) -> None:
    """It uses up no attempt; `failures` has its class, the host and the text."""
    realm.seed()
    agent = realm.agent(host="n7")
    (task,) = agent.claim()
    reply = agent.exchange(
        reports=[refusal_of(task)], want=1, lease=agent.lease(), without=left_out(realm)
    )
    assert [ack["verdict"] for ack in reply.json["acks"]] == ["accepted"]
    assert reply.json["tasks"] == []
    status = realm.campaign.status()
    assert (status.waiting, status.failures, status.failed) == (1, 0, 0)
    (found,) = realm.campaign.failure_causes()
    assert (found.error_class, found.some_hosts) == ("prepare-failed", {"n7": 1})
    assert found.example_error == "no receptor"
    (again,) = realm.agent(host="n8").claim()
    assert (again["task"], again["attempt"]) == (task["task"], 2)


@pytest.mark.thorough
def test_agent_is_not_woken_for_what_it_leaves_out(realm: Realm) -> None:
    """However much of it is there; others get it, and so does it once the campaign has changed."""
    realm.seed()
    without = left_out(realm)
    agent = realm.agent()
    before = exchanges(realm)
    agent.peer.send(agent.wanting(wait_s=30.0, without=without))
    wait_until(lambda: realm.gateway.metric("waiting", realm.manager) == 1)
    realm.seed(3)
    other = realm.agent()
    reply = other.exchange(want=1, lease=other.lease(), wait_s=2.5, without=without)
    assert reply.json["tasks"] == []
    assert realm.gateway.metric("waiting", realm.manager) == 1
    assert exchanges(realm) - before <= FEW
    assert len(realm.agent().claim(want=4)) == 4
    realm.campaign.change(realm.campaign.spec())
    realm.seed()
    (task,) = agent.peer.reply().json["tasks"]
    assert task["revision"] == without[0][1] + 1


def test_request_without_the_field_is_served_as_ever(realm: Realm) -> None:
    """As agents of an earlier release send it, which end their session without a word, too."""
    realm.seed()
    agent = realm.agent(host="old")
    assert len(agent.claim()) == 1
    assert agent.peer.ask("DELETE", "/v1/session", token=agent.token).status == 204
    assert realm.campaign.status().waiting == 1
    (left,) = [agent for agent in realm.queue.left_agents(realm.path) if agent.host == "old"]
    assert (left.reason, left.exit_code) == (None, None)


def test_too_many_campaigns_to_leave_out_are_refused(realm: Realm) -> None:
    """Each costs anyone who is asked; an agent names those it leaves out longest."""
    agent = realm.agent()
    reply = agent.exchange(want=1, lease=agent.lease(), without=[[n, 1] for n in range(17)])
    assert reply.status == 400


def test_agents_that_leave_give_the_gateway_their_reason(realm: Realm) -> None:
    """With the code of their process; what is no text for people is left out."""
    agent = realm.agent(host="n9")
    farewell = {"reason": "this node is broken:\x1b[31m no space", "exit_code": 69}
    agent.peer.ask("DELETE", "/v1/session", token=agent.token, body=farewell)
    (left,) = [agent for agent in realm.queue.left_agents(realm.path) if agent.host == "n9"]
    assert (left.reason, left.exit_code) == ("this node is broken: no space", 69)


def test_hopeless_campaign_sends_home_who_stays_until_it_is_empty(realm: Realm) -> None:
    """A campaign without a handler is not waited for, and named."""
    orphan = realm.queue.create_campaign(f"{realm.path}/orphan")
    orphan.submit({})
    agent = realm.agent()
    reply = agent.exchange(want=1, lease=agent.lease(), wait_s=30.0, until_empty=True).json
    assert (reply["tasks"], reply["unfinished"]) == ([], 1)
    assert reply["unservable"]["tasks"] == 1
    assert f"{orphan.path} has no handler" in reply["unservable"]["reasons"][0]


@pytest.mark.thorough
def test_nodes_leave_the_campaign_that_none_can_run_and_finish_the_other(
    queue: Client, dsn: str, start_gateway: StartGateway, tmp_path: Path
) -> None:
    """It pauses with the reason; who stays until all is done ends with that, and not before."""
    site = Site(tmp_path)
    gateway = start_gateway(*site.certificate)
    place = Realm(queue, gateway)
    handler = Handler("command", argv=("no-such-program",))
    bad = queue.create_campaign(CampaignSpec(f"{place.path}/bad", handler=handler))
    good = servable(queue, f"{place.path}/good")
    for campaign in (bad, good):
        campaign.seed({"n": n} for n in range(TASKS))
    with upkeep(dsn), ExitStack() as stack:
        nodes = [
            stack.enter_context(
                site.node(place.site).at_work(
                    gateway.url,
                    ca=site.ca,
                    host=f"n{number}",
                    campaign_backoff=0.2,
                    until_empty=True,
                )
            )
            for number in range(3)
        ]
        ran = [AgentResult(node) for node in nodes]
    assert [result.code for result in ran] == [3] * 3, [result.err for result in ran]
    assert all("paused itself" in json.dumps(result.summary) for result in ran)
    assert good.status().done == TASKS
    status = bad.status()
    assert (status.state, status.waiting, status.failures) == ("paused", TASKS, 0)
    assert "command-not-found" in (status.paused_why or "")
    assert {agent.exit_code for agent in queue.left_agents(place.path)} == {3}
