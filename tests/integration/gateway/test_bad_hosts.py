"""A bad host among good ones, all through one gateway, whose statements serve them together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
import pytest

from taskq import RetryPolicy
from taskq.upkeep.keeper import keeping
from tests.fixtures.gateways import Realm, StartGateway, opened
from tests.helpers.campaigns import servable
from tests.helpers.waiting import wait_until
from tests.integration.gateway.peers import Agent, report_of

pytestmark = pytest.mark.thorough

LATER_S = 180.0
#: The keeper does it in one round of four.
MARKED = """
with judged as materialized (select taskq.judge_hosts())
select s.session_id from taskq.session s, judged where s.suspect is not null
"""


@pytest.fixture
def realm(start_gateway: StartGateway, dsn: str) -> Iterator[Realm]:
    """Give a campaign at a gateway of its own, with a keeper."""
    with opened(dsn) as queue, keeping(queue.database):
        yield Realm(queue, start_gateway())


def worked(agent: Agent, outcome: str, finished: Callable[[], bool]) -> int:
    """Claim and report until all is finished; return how many attempts were made."""
    attempts = 0
    while not finished():
        tasks = agent.claim(1, wait_s=0.2)
        attempts += len(tasks)
        reports = [report_of(task, outcome, error_class="no-scratch") for task in tasks]
        if reports:
            assert agent.exchange(reports=reports).status == 200
    return attempts


def test_no_good_task_is_lost_to_a_bad_host(realm: Realm) -> None:
    """Two agents of it are as fast as three others; each task is tried three times."""
    retry = RetryPolicy(max_attempts=3, max_losses=5, backoff_s=0, backoff_max_s=0)
    realm.campaign.change(replace(realm.campaign.spec(), retry=retry))
    realm.seed(40)
    hosts = ["bad", "bad", "one", "two", "three"]
    agents = [realm.agent(host=host) for host in hosts]
    over = threading.Event()
    timer = threading.Timer(LATER_S, over.set)
    timer.start()

    def finished() -> bool:
        return over.is_set() or realm.campaign.status().unfinished == 0

    with ThreadPoolExecutor(len(agents)) as pool:
        ended = [
            pool.submit(worked, agent, "failed" if host == "bad" else "done", finished)
            for agent, host in zip(agents, hosts, strict=True)
        ]
        attempts = [future.result() for future in ended]
    timer.cancel()
    status = realm.campaign.status()
    assert (status.done, status.failed) == (40, 0)
    assert status.failures == attempts[0] + attempts[1] > 0


def test_agent_learns_from_a_heartbeat_that_its_host_is_suspicious(realm: Realm) -> None:
    """A malformed tally is refused."""
    bad, good = realm.agent(host="bad"), realm.agent(host="good")
    campaign = realm.campaign.campaign_id

    def warning(agent: Agent, done: int, failed: int) -> str:
        tally = {"campaign": campaign, "done": done, "failed": failed}
        reply = agent.beat(tally=[tally])
        assert reply.status == 200
        return str(reply.json["suspect"])

    assert warning(good, 20, 0) == ""
    wait_until(lambda: warning(bad, 0, 9) != "", timeout_s=LATER_S)
    assert warning(bad, 0, 9) == "9 of 9 first attempts failed here, 0 of 20 on other hosts"
    assert warning(good, 20, 0) == ""
    assert bad.beat(tally=[{"campaign": 1, "done": -1, "failed": 0}]).status == 400


def test_agents_of_another_token_slow_nobody(realm: Realm, dsn: str) -> None:
    """Whatever they say of their hosts and campaigns, of their own campaign or of another's."""
    queue, fleet = realm.queue, realm.queue.tokens.create("site", "fleet", ["/"])[0]
    other = servable(queue, "/other")
    liars_token = queue.tokens.create("site", "liars", ["/other"])[0]

    def agent(token: str, host: str, campaign: str) -> Agent:
        peer = realm.gateway.peer()
        return Agent.enrolled(peer, token, {"campaign": campaign, "host": host})

    def beat(agent: Agent, campaign: int, done: int, failed: int) -> None:
        tally = {"campaign": campaign, "done": done, "failed": failed}
        assert agent.beat(tally=[tally]).status == 200

    victims = [realm.agent(host="victim"), agent(fleet, "victim", "/")]
    for value in (*victims, realm.agent(host="neighbour"), agent(fleet, "neighbour", "/")):
        beat(value, other.campaign_id, 22, 10)
    liars = [agent(liars_token, host, "/other") for host in ("victim", "liar")]
    for campaign in (other.campaign_id, realm.campaign.campaign_id):
        beat(liars[0], campaign, 0, 2**31 - 1)
        beat(liars[1], campaign, 2**31 - 1, 0)
        with psycopg.connect(dsn, autocommit=True) as postgres:
            wait_until(lambda: postgres.execute(MARKED).fetchall() == [(liars[0].session,)])
    assert [agent.beat().json["suspect"] for agent in victims] == ["", ""]


def test_agents_that_must_avoid_a_task_pass_it_on_to_who_may_have_it(realm: Realm) -> None:
    """However many of them wait before it; and they stay away for a while, with nothing in hand."""
    retry = RetryPolicy(max_attempts=3, max_losses=5, backoff_s=0, backoff_max_s=0)
    realm.campaign.change(replace(realm.campaign.spec(), retry=retry))
    realm.seed()
    bad = [realm.agent(host="bad") for _ in range(6)]
    good = realm.agent(host="good")
    (task,) = bad[0].claim()
    for number, agent in enumerate([*bad[1:], good], 1):
        agent.peer.send(agent.wanting(lease=agent.lease(), wait_s=30.0))
        wait_until(lambda: realm.gateway.metric("waiting", realm.manager) == number)  # noqa: B023
    assert bad[0].report(task, outcome="failed") == ["accepted"]
    (again,) = good.peer.reply().json["tasks"]
    assert (again["task"], again["attempt"]) == (task["task"], 2)
    for agent in bad[1:]:
        reply = agent.peer.reply().json
        assert reply["tasks"] == []
        assert reply["orders"]["claim_after_s"] > 0
