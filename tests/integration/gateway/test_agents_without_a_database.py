"""Agents whose queue goes away: they go on, keep what they have done, and deliver it later."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from taskq import CampaignSpec, Client, Handler
from taskq.embedded import Server
from tests.fixtures.gateways import Realm, StartGateway, opened
from tests.fixtures.own_servers import own_server  # noqa: F401  # a fixture, for the tests here
from tests.helpers.paths import PAYLOADS
from tests.helpers.pythons import pythons
from tests.helpers.waiting import wait_until
from tests.helpers.worker_node import AgentResult, WorkerNode
from tests.integration.gateway.site import NOTED_UNTIL_RELEASED, Site, upkeep

pytestmark = pytest.mark.thorough

AGENTS = 3
TASKS = 96
TAKES_S = 0.25
#: Longer than a busy machine keeps a process waiting: nobody may be lost by that.
LEASE_S = 12.0
OUTAGE_S = 1.5 * LEASE_S
BEYOND = 6  # tasks that are begun without a queue, at least
LATER_S = 100.0
#: A task that is noted and ends when there is a file.
ARGV = ("sh", "-c", NOTED_UNTIL_RELEASED, "sh", "{n}", "{params.diary}", "{params.go}")


def all_busy(queue: Client) -> bool:
    """Return whether all agents have something to do for a while."""
    agents = queue.agents()
    return len(agents) == AGENTS and all(agent.working > 2 * BEYOND for agent in agents)


def spooled(node: WorkerNode) -> int:
    """Return how many reports a node keeps."""
    return sum(len(path.read_bytes().splitlines()) for path in node.folder.glob("spool/*.reports"))


def test_outage_of_the_database_costs_no_attempt(
    own_server: Server,  # noqa: F811  # the fixture
    start_gateway: StartGateway,
    site: Site,
) -> None:
    """Though it is longer than the leases: agents go on, and all that they have done counts."""
    dsn = own_server.up().dsn
    words = (*site.certificate, "--lease", LEASE_S)
    gateway = start_gateway(*words, on=dsn, expected=["database", "trying again", "works"])
    with opened(dsn) as queue, upkeep(dsn), ExitStack() as stack:
        place = Realm(queue, gateway)
        campaign = site.unhurried(place, TASKS, TAKES_S)
        nodes = [site.node(place.site) for _ in range(AGENTS)]
        agents = [
            stack.enter_context(
                node.at_work(
                    gateway.url,
                    python=python,
                    ca=site.ca,
                    path=PAYLOADS,
                    spool="spool",
                    ahead=6,
                    until_empty=True,
                )
            )
            for node, python in zip(nodes, [*pythons().values()] * AGENTS, strict=False)
        ]
        wait_until(lambda: all_busy(queue), timeout_s=LATER_S)

        own_server.down(immediate=True)
        down_at, begun = time.monotonic(), site.executions().total()
        wait_until(lambda: site.executions().total() >= begun + BEYOND, timeout_s=LATER_S)
        wait_until(lambda: all(map(spooled, nodes)), timeout_s=LATER_S)
        wait_until(lambda: time.monotonic() > down_at + OUTAGE_S, timeout_s=2 * OUTAGE_S)
        own_server.up()

        ran = [AgentResult(agent) for agent in agents]
        assert [agent.code for agent in ran] == [0] * AGENTS, [agent.err for agent in ran]
        assert all("the queue answers again" in agent.err for agent in ran)
        status = campaign.status()
        assert (status.done, status.failures, status.losses) == (TASKS, 0, 0)
        assert sum(agent.summary["superseded"] for agent in ran) == 0
        assert site.executions() == dict.fromkeys(range(TASKS), 1)
        assert [spooled(node) for node in nodes] == [0] * AGENTS
        assert queue.agents() == [], [agent.err for agent in ran]


def test_report_of_a_killed_agent_is_delivered_by_the_next(
    queue: Client, start_gateway: StartGateway, site: Site, tmp_path: Path
) -> None:
    """It was finished while no gateway was there; the next agent of the site says so."""
    go = tmp_path / "go"
    gateway = start_gateway(*site.certificate)
    place = Realm(queue, gateway)
    campaign = queue.create_campaign(
        CampaignSpec(
            f"{place.path}/c", handler=Handler("command", argv=ARGV), params=site.params(go=str(go))
        )
    )
    campaign.submit({"n": 1})
    node = site.node(place.site)
    options: dict[str, Any] = {"ca": site.ca, "spool": "spool", "until_empty": True}
    with node.at_work(gateway.url, **options) as agent:
        wait_until(site.executions, timeout_s=LATER_S)
        gateway.kill()
        go.touch()
        wait_until(lambda: spooled(node) == 1, timeout_s=LATER_S)
        agent.send_signal(signal.SIGKILL)
        agent.communicate()
    assert campaign.status().working == 1

    ran = node.run(start_gateway(*site.certificate).url, **options)
    assert ran.code == 0, ran.err
    assert "sending 1 reports of earlier agents" in ran.err
    status = campaign.status()
    assert (status.done, status.unfinished, status.losses) == (1, 0, 0)
    (result,) = campaign.results()
    assert result.attempt == 1
    assert site.executions() == {1: 1}
    assert spooled(node) == 0
