"""PostgreSQL fails over: the primary dies, a standby takes over, and nothing is restarted."""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from psycopg.rows import dict_row

from taskq import Campaign, CampaignSpec, Client, Handler
from taskq.dispatch.direct import DirectTransport
from taskq.model.errors import Unavailable
from taskq_agent.errors import SessionLost, TransportFailed
from taskq_agent.lease_ids import new_lease
from taskq_agent.protocol import Heartbeat, Hello, Request
from tests.fixtures.gateways import Realm, StartGateway, opened
from tests.fixtures.replicas import Pair, pair  # noqa: F401  # a fixture, for the tests here
from tests.helpers.command_line import CommandLine
from tests.helpers.meanwhile import meanwhile, repeated
from tests.helpers.paths import PAYLOADS
from tests.helpers.postgres import assert_counts_are_true
from tests.helpers.waiting import wait_until
from tests.helpers.worker_node import AgentResult
from tests.integration.gateway.site import NOTED_UNTIL_RELEASED, Site, upkeep

pytestmark = pytest.mark.thorough

#: Longer than a busy machine keeps a process waiting: nobody may be lost by that.
LEASE_S = 12.0
LATER_S = 90.0
SAID = ["database", "trying again", "works"]
TASKS = 160
TAKES_S = 0.125
#: A task that is noted and ends when there is the file that its payload names.
ARGV = ("sh", "-c", NOTED_UNTIL_RELEASED, "sh", "{n}", "{params.diary}", "{go}")


@contextmanager
def direct_agent(dsn: str, path: str, slots: int) -> Iterator[subprocess.Popen[str]]:
    """Start an agent next to the database."""
    words = ["agent", "run", "--campaign", path, "--slots", slots, "--ahead", 0, "--until-empty"]
    words += ["--lease", LEASE_S, "--path", PAYLOADS, "--output", "json"]
    with CommandLine(dsn).process(*words, environment={"DIARY_AGENT": "direct"}) as agent:
        yield agent


@contextmanager
def submitting(campaign: Campaign) -> Iterator[list[int]]:
    """Submit tasks meanwhile, one after the other until it is acknowledged; give their numbers."""
    submitted: list[int] = []

    def submit() -> None:
        number = TASKS + len(submitted)
        with suppress(Unavailable):
            campaign.submit({"n": number}, key=str(number))
            submitted.append(number)

    with meanwhile(repeated(submit, TAKES_S)):  # no faster than agents work
        yield submitted


def assert_sound(dsn: str, campaign: Campaign, tasks: int) -> None:
    """Each task ended exactly once, and the counts are true."""
    status = campaign.status()
    assert (status.done, status.unfinished, status.failed) == (tasks, 0, 0)
    assert sorted(result.payload["n"] for result in campaign.results()) == list(range(tasks))
    with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as behind:
        assert_counts_are_true(behind, campaign.path)


def test_nothing_is_lost_or_done_twice_with_a_synchronous_standby(
    pair: Pair,  # noqa: F811  # the fixture
    start_gateway: StartGateway,
    site: Site,
) -> None:
    """No lease expires, though all were silent for longer than that."""
    pair.make_synchronous()
    gateway = start_gateway(*site.certificate, "--lease", LEASE_S, on=pair.dsn, expected=SAID)
    with opened(pair.dsn) as queue, upkeep(pair.dsn), ExitStack() as stack:
        place = Realm(queue, gateway)
        campaign = site.unhurried(place, TASKS, TAKES_S)
        options = {"ca": site.ca, "path": PAYLOADS, "until_empty": True}
        node = site.node(place.site)
        agents = [
            stack.enter_context(node.at_work(gateway.url, spool="spool", **options)),
            stack.enter_context(direct_agent(pair.dsn, place.path, 1)),
        ]
        with submitting(campaign) as submitted:
            wait_until(lambda: site.executions().total() > TASKS / 8, timeout_s=LATER_S)
            pair.kill_primary()
            down_at, known = time.monotonic(), len(submitted)
            wait_until(lambda: time.monotonic() > down_at + 1.5 * LEASE_S, timeout_s=LATER_S)
            pair.promote()
            with psycopg.connect(pair.dsn, autocommit=True) as behind:
                assert behind.execute("select taskq.expire()").fetchone() == (0,)
            wait_until(lambda: len(submitted) > known, timeout_s=LATER_S)

        ran = [AgentResult(agent) for agent in agents]
        assert [agent.code for agent in ran] == [0, 0], [agent.err for agent in ran]
        tasks = TASKS + len(submitted)
        assert_sound(pair.dsn, campaign, tasks)
        assert campaign.status().losses == 0
        assert site.executions() == dict.fromkeys(range(tasks), 1)
        assert sum(agent.summary["superseded"] for agent in ran) == 0
        assert queue.agents() == []


def test_agents_go_on_when_the_primary_is_frozen(
    pair: Pair,  # noqa: F811  # the fixture
    start_gateway: StartGateway,
    site: Site,
) -> None:
    """Its connections stay open and answer nothing, and it is the first in the DSN."""
    pair.make_synchronous()
    gateway = start_gateway(*site.certificate, on=pair.primary_first_dsn, expected=SAID)
    with opened(pair.dsn) as queue, ExitStack() as stack:
        place = Realm(queue, gateway)
        campaign = site.unhurried(place, TASKS, TAKES_S)
        options = {"ca": site.ca, "path": PAYLOADS, "until_empty": True}
        node = site.node(place.site)
        agents = [
            stack.enter_context(node.at_work(gateway.url, spool="spool", **options)),
            stack.enter_context(direct_agent(pair.primary_first_dsn, place.path, 1)),
        ]
        wait_until(lambda: site.executions().total() > TASKS / 8, timeout_s=LATER_S)
        with pair.primary_frozen():
            pair.promote()
            ran = [AgentResult(agent) for agent in agents]
            assert [agent.code for agent in ran] == [0, 0], [agent.err for agent in ran]
            assert_sound(pair.standby_dsn, queue.campaign(campaign.path), TASKS)
        assert site.executions() == dict.fromkeys(range(TASKS), 1)


def test_reports_that_an_asynchronous_standby_has_not_received_are_sent_again(
    pair: Pair,  # noqa: F811  # the fixture
    start_gateway: StartGateway,
    site: Site,
    tmp_path: Path,
) -> None:
    """What had been claimed before is not done again; what was claimed in the last moment is.

    Agents of which the standby has never heard present themselves to it.
    """
    gateway = start_gateway(*site.certificate, "--lease", LEASE_S, on=pair.dsn, expected=SAID)
    soon, later = tmp_path / "soon", tmp_path / "later"
    with opened(pair.dsn) as queue, upkeep(pair.dsn), ExitStack() as stack:
        place = Realm(queue, gateway)
        campaign = queue.create_campaign(
            CampaignSpec(
                f"{place.path}/c", handler=Handler("command", argv=ARGV), params=site.params()
            )
        )
        campaign.seed({"n": n, "go": str(soon if n < 4 else later)} for n in range(10))

        def hire(slots: int) -> list[subprocess.Popen[str]]:
            node = site.node(place.site)
            options = {"ca": site.ca, "until_empty": True, "slots": slots, "ahead": 0}
            return [
                stack.enter_context(node.at_work(gateway.url, **options)),
                stack.enter_context(direct_agent(pair.dsn, place.path, slots)),
            ]

        agents = hire(slots=2)
        wait_until(lambda: len(site.executions()) == 4, timeout_s=LATER_S)
        pair.cut()
        soon.touch()
        wait_until(lambda: campaign.status().done == 4, timeout_s=LATER_S)
        agents += hire(slots=1)
        wait_until(lambda: len(site.executions()) == 10, timeout_s=LATER_S)
        wait_until(lambda: len(queue.agents()) == 4, timeout_s=LATER_S)

        pair.kill_primary()
        standing = "select count(*) from taskq.state where status = '{}'"
        assert pair.seen_by_standby(standing.format("working")) == 4
        assert pair.seen_by_standby(standing.format("done")) == 0
        pair.promote()
        wait_until(lambda: done(queue, campaign) == 4, timeout_s=LATER_S)
        later.touch()

        ran = [AgentResult(agent) for agent in agents]
        assert [agent.code for agent in ran] == [0] * 4, [agent.err for agent in ran]
        assert_sound(pair.dsn, campaign, 10)
        executed = site.executions()
        assert [executed[n] for n in range(4)] == [1] * 4
        assert max(executed.values()) <= 2
        assert all("another server has taken over" in agent.err for agent in ran[:2])
        assert all("the session was lost" in agent.err for agent in ran[2:])
        assert campaign.status().losses == 0


def test_number_of_a_lost_session_is_not_mistaken_for_another_agents(
    pair: Pair,  # noqa: F811  # the fixture
    start_gateway: StartGateway,
) -> None:
    """A standby may give a number out again; who was lost with it presents itself anew."""
    gateway = start_gateway(on=pair.dsn, expected=SAID)
    with opened(pair.dsn) as queue:
        place = Realm(queue, gateway)
        pair.cut()
        place.seed(2)
        lost, transport = place.agent(), DirectTransport(queue.database)
        welcome = transport.open(protocol_hello(place.path, "lost"))
        assert lost.claim(1)
        assert transport.exchange(Request(welcome.session, (), 1, new_lease())).tasks
        pair.kill_primary()
        pair.promote()
        wait_until(lambda: gateway.ask("GET", "/readyz").status == 200, timeout_s=LATER_S)
        with psycopg.connect(pair.dsn, autocommit=True) as behind:
            behind.execute(f"alter table taskq.session alter session_id restart {lost.session}")
        others = place.agent(), place.agent()
        assert [other.session for other in others] == [lost.session, welcome.session]

        place.seed(2)
        assert lost.exchange(want=1, lease=lost.lease()).status == 401
        assert lost.beat().status == 401
        claim = Request(welcome.session, (), 1, new_lease())
        wait_until(lambda: is_lost(lambda: transport.exchange(claim)))
        wait_until(lambda: is_lost(lambda: transport.heartbeat(Heartbeat(welcome.session))))
        transport.close(welcome.session)
        assert all(len(other.claim(1)) == 1 for other in others)
        again = transport.open(protocol_hello(place.path, "again"))
        transport.close(again.session)


def is_lost(call: Callable[[], object]) -> bool:
    """Return whether a call finds its session lost, or only its connection; it allows no other."""
    try:
        call()
    except TransportFailed:
        return False
    except SessionLost:
        return True
    raise AssertionError("it was taken for another agent")


def protocol_hello(path: str, name: str) -> Hello:
    """Return what an agent next to the database says first."""
    return Hello(str(uuid.uuid4()), path, name, "node1", 1, "here", 1, "0")


def done(queue: Client, campaign: Campaign) -> int:
    """Return how many tasks are done, 0 while no server tells."""
    try:
        return queue.campaign(campaign.path).status().done
    except Unavailable:
        return 0
