"""A campaign as it is meant to be: two gateways with TLS, the agent's file under every Python."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from taskq import CampaignSpec, Client, Handler
from tests.fixtures.gateways import GatewayProcess, Realm, StartGateway
from tests.helpers.paths import PAYLOADS
from tests.helpers.pythons import pythons
from tests.helpers.waiting import wait_until
from tests.helpers.worker_node import AgentResult
from tests.integration.gateway.site import Site

pytestmark = pytest.mark.thorough

TASKS = 50  # of each kind
BEFORE = 20  # done when a gateway goes
TAKES_S = 0.3
LATER_S = 100.0
SCRIPT = 'echo "$1 $DIARY_AGENT" >> "$2"; sleep "$3"'
ARGV = ("sh", "-c", SCRIPT, "sh", "{n}", "{params.diary}", "{params.takes_s}")


@pytest.fixture
def gateways(site: Site, start_gateway: StartGateway) -> list[GatewayProcess]:
    """Give two gateways on one queue."""
    return [start_gateway(*site.certificate, "--drain", 5) for _ in range(2)]


@pytest.fixture
def place(queue: Client, gateways: list[GatewayProcess], site: Site) -> Realm:
    """Give a campaign that holds two others: of commands and of calls of a Python function."""
    place = Realm(queue, gateways[0])
    for number, handler in enumerate(
        [Handler("command", argv=ARGV), Handler("python", target="unhurried:run")]
    ):
        campaign = queue.create_campaign(
            CampaignSpec(
                f"{place.path}/{handler.kind}",
                handler=handler,
                params=site.params(takes_s=TAKES_S),
            )
        )
        campaign.seed({"n": n} for n in range(number * TASKS, (number + 1) * TASKS))
    return place


@contextmanager
def at_work(
    site: Site, place: Realm, gateways: list[GatewayProcess]
) -> Iterator[list[subprocess.Popen[str]]]:
    """Have an agent under every Python, on a node of its own, until nothing is left.

    They begin together, and have done some of the work in the block.
    """
    place.campaign.pause()
    with ExitStack() as stack:
        agents = [
            stack.enter_context(
                site.node(place.site).at_work(
                    *(gateway.url for gateway in gateways),
                    python=python,
                    ca=site.ca,
                    path=PAYLOADS,
                    spool="spool",
                    slots=2,
                    until_empty=True,
                )
            )
            for python in pythons().values()
        ]
        wait_until(lambda: len(place.queue.agents()) == len(agents), timeout_s=LATER_S)
        place.campaign.resume()
        wait_until(lambda: place.campaign.status().done >= BEFORE, timeout_s=LATER_S)
        yield agents


def assert_done_once(site: Site, place: Realm, agents: list[AgentResult]) -> None:
    """Every task was executed once and counts once; nobody is left."""
    assert [agent.code for agent in agents] == [0] * len(agents), [agent.err for agent in agents]
    for outcome in ("failed", "superseded", "undelivered"):
        assert sum(agent.summary[outcome] for agent in agents) == 0
    assert sum(agent.summary["done"] for agent in agents) == 2 * TASKS
    status = place.campaign.status()
    assert (status.done, status.unfinished, status.failures, status.losses) == (2 * TASKS, 0, 0, 0)
    accepted = [
        result.payload["n"]
        for kind in ("command", "python")
        for result in place.queue.campaign(f"{place.path}/{kind}").results()
    ]
    assert sorted(accepted) == list(range(2 * TASKS))
    assert site.executions() == dict.fromkeys(range(2 * TASKS), 1)
    assert place.queue.agents() == []


def busier(site: Site, place: Realm, gateways: list[GatewayProcess]) -> GatewayProcess:
    """Return the gateway that has served more."""
    return max(gateways, key=lambda gateway: site.exchanges(gateway, place.manager))


def test_killed_gateway_costs_no_task(
    site: Site, place: Realm, gateways: list[GatewayProcess]
) -> None:
    """What it had been asked is asked again at the other one, which gives the same answers."""
    with at_work(site, place, gateways) as agents:
        doomed = busier(site, place, gateways)
        doomed.kill()
        assert place.campaign.status().unfinished > 0
        ran = [AgentResult(agent) for agent in agents]
    assert_done_once(site, place, ran)
    assert any(doomed.url in agent.err for agent in ran)


def test_stopped_gateway_is_noticed_by_nobody(
    site: Site, place: Realm, gateways: list[GatewayProcess]
) -> None:
    """It sends its agents to the other one: there is nothing that they would warn of."""
    with at_work(site, place, gateways) as agents:
        doomed = busier(site, place, gateways)
        doomed.hang_up()
        doomed.process.send_signal(signal.SIGTERM)
        assert place.campaign.status().unfinished > 0
        ran = [AgentResult(agent) for agent in agents]
    doomed.ended()
    assert_done_once(site, place, ran)
    assert any(f"{doomed.url} is going away" in agent.err for agent in ran)
    assert [line for agent in ran for line in agent.err.splitlines() if " INFO " not in line] == []
