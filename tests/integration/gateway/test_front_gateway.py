"""A gateway with a front: agents are served faster, and notice nothing else of it, ever."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import psycopg
import pytest

from taskq.db.connections import Database
from taskq.front.address import FrontAddress
from taskq.front.entries import Keys
from taskq.front.refiller import refilling
from tests.fixtures.databases import fresh_database
from tests.fixtures.gateways import GatewayProcess, Realm, opened
from tests.fixtures.redis_servers import PROGRAMS, RedisServer
from tests.helpers.postgres import assert_counts_are_true
from tests.helpers.variants import rest_thorough
from tests.helpers.waiting import wait_until
from tests.integration.gateway.peers import Agent

POOL_S = 40.0
PATIENCE_S = 100.0
#: What a gateway may say when a front goes and comes.
OF_FRONTS = ("the front fails, claims go on without it", "the front works")


class Fronted(NamedTuple):
    """A gateway, its queue's database, and the Redis between them."""

    gateway: GatewayProcess
    database: Database
    redis: RedisServer

    @property
    def keys(self) -> Keys:
        """The names in Redis."""
        return Keys((self.database.row("front_state") or {})["name"])

    def metric(self, name: str, token: str) -> float:
        """Return one of the front's numbers."""
        text = self.gateway.ask("GET", "/metrics", token=token).body.decode()
        found = re.search(rf"^taskq_front_{name} (\S+)$", text, re.MULTILINE)
        assert found, text
        return float(found[1])


@pytest.fixture(scope="module")
def fronted(
    server_dsn: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fronted]:
    """Give a gateway with a front, which tests leave as they have found it."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="taskq-redis-"))
        server = RedisServer(PROGRAMS["valkey"], Path(folder))
        stack.callback(server.close)
        database = Database(stack.enter_context(fresh_database(server_dsn, template))).open()
        stack.callback(database.close)
        stack.enter_context(refilling(database, FrontAddress.parsed(server.url), POOL_S))
        wait_until(lambda: (database.row("front_state") or {})["epoch"], timeout_s=PATIENCE_S)
        gateway = GatewayProcess(
            database.dsn,
            tmp_path_factory.mktemp("gateway"),
            *("--redis", server.url),
            expected=OF_FRONTS,
        )
        try:
            yield Fronted(gateway, database, server)
        finally:
            gateway.stop()


@pytest.fixture
def place(fronted: Fronted) -> Iterator[Realm]:
    """Give a campaign with tasks; the counts equal a recount in the end."""
    with opened(fronted.database.dsn) as queue:
        place = Realm(queue, fronted.gateway)
        place.seed(500)
        yield place
        place.campaign.pause()  # nothing of it is leased ahead any more
        fronted.gateway.hang_up()
        with psycopg.connect(fronted.database.dsn, row_factory=psycopg.rows.dict_row) as behind:
            assert_counts_are_true(behind, place.path)


def served_ahead(agent: Agent, want: int = 1) -> list[dict[str, Any]]:
    """Claim until tasks come from the front; what comes from PostgreSQL before is handed back."""
    found: list[dict[str, Any]] = []

    def is_served() -> bool:
        tasks = agent.claim(want, ahead=True)
        if tasks and tasks[0]["lease"] != agent.drawn:
            found.extend(tasks)
        elif tasks:
            verdicts = agent.report(*tasks, outcome="released", started=False)
            assert verdicts == ["accepted"] * len(tasks)
        return bool(found)

    wait_until(is_served, timeout_s=PATIENCE_S)
    return found


@pytest.mark.thorough
def test_agent_that_says_so_gets_tasks_under_leases_of_their_own(place: Realm) -> None:
    """Each has a lease that the agent did not draw, and a report on it counts."""
    agent = place.agent()
    tasks = served_ahead(agent, 3)
    assert len({task["lease"] for task in tasks} | {agent.drawn}) == len(tasks) + 1
    assert {task["attempt"] for task in tasks} == {1}
    assert agent.beat(*tasks).json["stop"] == []
    assert agent.report(*tasks) == ["accepted"] * len(tasks)
    assert agent.report(*tasks) == ["duplicate"] * len(tasks)


@pytest.mark.thorough
def test_agent_that_does_not_say_so_is_served_by_postgresql_only(place: Realm) -> None:
    """An older agent would not know what to do with other leases than its own."""
    served_ahead(place.agent())
    agent = place.agent()
    tasks = [task for _ in range(20) for task in agent.claim(1) if task["lease"] == agent.drawn]
    assert len(tasks) == 20
    assert agent.report(*tasks) == ["accepted"] * 20


def test_repeated_claim_gets_the_same_tasks(place: Realm) -> None:
    """Its answer may have been lost on the way."""
    agent = place.agent()
    tasks = served_ahead(agent, 2)
    for want in (2, 5):
        again = agent.exchange(want=want, lease=agent.drawn, ahead=True).json["tasks"]
        assert again == tasks
    assert agent.report(*tasks) == ["accepted"] * len(tasks)


def test_session_of_a_revoked_token_gets_nothing_even_if_it_only_claims(place: Realm) -> None:
    """It does not beat nor report, so that the front alone has to find out."""
    token = place.token("site", "doomed")
    agent = Agent.enrolled(place.gateway.peer(), token, {"campaign": place.path})
    served_ahead(agent)
    place.queue.tokens.revoke("doomed")
    wait_until(
        lambda: agent.exchange(want=1, lease=agent.lease(), ahead=True).status in {401, 410},
        timeout_s=PATIENCE_S,
    )


def test_paused_campaign_hands_nothing_out_after_a_second(place: Realm) -> None:
    """And what was leased ahead of it waits again."""
    agent = place.agent()
    agent.report(*served_ahead(agent))
    place.campaign.pause()

    def gets_nothing() -> bool:
        tasks = agent.claim(1, ahead=True)
        assert agent.report(*tasks) == ["accepted"] * len(tasks)
        return not tasks

    wait_until(gets_nothing, timeout_s=PATIENCE_S)
    assert all(gets_nothing() for _ in range(20))
    wait_until(
        lambda: place.campaign.status().working == 0,
        timeout_s=PATIENCE_S,
        on_timeout=lambda: str(place.campaign.status()),
    )


def test_gateway_counts_what_its_front_does(place: Realm, fronted: Fronted) -> None:
    """Anyone who runs it sees whether it is of use."""
    hits, popped = (fronted.metric(f"{name}_total", place.manager) for name in ("hits", "popped"))
    agent = place.agent()
    tasks = served_ahead(agent, 3)
    assert fronted.metric("hits_total", place.manager) > hits
    assert fronted.metric("popped_total", place.manager) >= popped + len(tasks)
    assert fronted.metric("in_use", place.manager) == 1
    for name in ("misses", "stale", "forged", "outdated", "errors"):
        assert fronted.metric(f"{name}_total", place.manager) >= 0
    assert fronted.metric("depth", place.manager) >= 0
    agent.report(*tasks)


def test_agents_send_heartbeats_often_enough_to_name_tasks_leased_ahead(
    place: Realm, fronted: Fronted
) -> None:
    """An entry may be handed out in the first half of its time; the other half has heartbeats."""
    hello = {**place.agent().hello, "key": "9e5b2e6c-5e0a-4d57-9a58-0a4ad3c4c1c5"}
    welcome = fronted.gateway.ask("POST", "/v1/sessions", token=place.site, body=hello).json
    assert 0 < welcome["heartbeat_s"] <= POOL_S / 4


def fill_with_garbage(fronted: Fronted, campaign: int) -> None:
    fronted.redis.admin.lpush(fronted.keys.tasks(campaign), *["garbage", "x" * 2_000_000] * 50)


def move_in_other_entries(fronted: Fronted, campaign: int) -> None:
    """Put another campaign's entries into the list."""
    with opened(fronted.database.dsn) as queue:
        other = Realm(queue, fronted.gateway)
        other.seed(100)
        served_ahead(other.agent())
        entries = fronted.redis.admin.lrange(fronted.keys.tasks(other.campaign.campaign_id), 0, -1)
        other.campaign.pause()
    fronted.redis.admin.lpush(fronted.keys.tasks(campaign), *entries)


def nothing(_: Fronted) -> None:
    """Leave it to the refiller."""


#: How it comes, with the campaign, and how it goes.
Trouble: TypeAlias = tuple[Callable[[Fronted, int], object], Callable[[Fronted], object]]
TROUBLES: dict[str, Trouble] = {
    "down": (lambda it, _: it.redis.kill(), lambda it: it.redis.start()),
    "frozen": (lambda it, _: it.redis.freeze(), lambda it: it.redis.thaw()),
    "garbage": (fill_with_garbage, nothing),
    "of another kind": (lambda it, number: it.redis.admin.set(it.keys.tasks(number), "x"), nothing),
    "entries of another campaign": (move_in_other_entries, nothing),
    "read-only": (  # a replica of nobody, that serves old data
        lambda it, _: it.redis.admin.replicaof("127.0.0.1", 1),
        lambda it: it.redis.admin.replicaof("NO", "ONE"),
    ),
    "out of memory": (
        lambda it, _: it.redis.admin.config_set("maxmemory", 1),
        lambda it: it.redis.admin.config_set("maxmemory", 0),
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("trouble", rest_thorough(TROUBLES, 3))
def test_agents_see_no_trouble_of_the_front(trouble: str, place: Realm, fronted: Fronted) -> None:
    """Each claim gets tasks of its campaign; when the trouble is over, from the front again."""
    agent = place.agent()
    agent.report(*served_ahead(agent))
    spoil, mend = TROUBLES[trouble]
    spoil(fronted, place.campaign.campaign_id)
    seen: list[int] = []
    try:
        for _ in range(30):
            tasks = agent.claim(2, ahead=True)  # asserts that there was no error
            assert tasks
            assert {task["campaign"] for task in tasks} == {place.campaign.campaign_id}
            assert agent.report(*tasks) == ["accepted"] * len(tasks)
            seen += [task["task"] for task in tasks]
    finally:
        mend(fronted)
    assert len(set(seen)) == len(seen)
    assert agent.report(*served_ahead(agent))[:1] == ["accepted"]
    assert fronted.metric("in_use", place.manager) == 1
