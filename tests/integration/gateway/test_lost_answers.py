"""Answers that nobody got: asked again, anywhere, they are the same; and nothing is lost.

The database's answers are held up between its commit and the gateway, so that each test has the
moment that it needs.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from taskq import Client
from taskq.db.gateway_queries import GatewayQueries
from taskq.model.errors import Unavailable
from tests.fixtures.gateways import GatewayProcess, Realm, StartGateway, opened
from tests.helpers.database_relay import DatabaseRelay
from tests.helpers.relay import Relay
from tests.helpers.waiting import wait_until
from tests.integration.gateway.peers import Agent, report_of

pytestmark = pytest.mark.thorough


class Forgetful(Relay):
    """Passes requests on to a gateway; it loses an answer where `loses`."""

    def __init__(self, gateway: GatewayProcess) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        super().__init__(listener)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.loses = False
        self._target = gateway.port

    def connect(self) -> socket.socket:
        """Return a connection to the gateway."""
        return socket.create_connection(("127.0.0.1", self._target))

    def passes(self, answer: bytes) -> bool:  # noqa: ARG002  # whatever it says
        """Return whether it is not the answer that is to be lost."""
        loses, self.loses = self.loses, False
        return not loses


@pytest.fixture
def relay(dsn: str, tmp_path: Path) -> Iterator[DatabaseRelay]:
    """Give a way to the test's database that can be held up."""
    with DatabaseRelay(dsn, tmp_path) as relay:
        yield relay


@pytest.fixture
def queue(dsn: str) -> Iterator[Client]:
    """Give the queue, by the direct way."""
    with opened(dsn) as queue:
        yield queue


@pytest.fixture
def first(start_gateway: StartGateway, relay: DatabaseRelay) -> GatewayProcess:
    """Give a gateway whose database can be held up."""
    return start_gateway(on=relay.dsn)


@pytest.fixture
def second(start_gateway: StartGateway) -> GatewayProcess:
    """Give another gateway on the same database."""
    return start_gateway()


@pytest.fixture
def place(queue: Client, first: GatewayProcess) -> Realm:
    """Give a campaign with two tasks."""
    place = Realm(queue, first)
    place.seed(2)
    return place


@pytest.fixture
def unanswered(place: Realm, relay: DatabaseRelay) -> Agent:
    """Give an agent whose claim has been committed, and not been answered."""
    agent = place.agent()
    assert agent.exchange().status == 200
    relay.is_moment = lambda: place.campaign.status().working == 1
    agent.peer.send(agent.wanting(lease=agent.lease()))
    wait_until(lambda: place.campaign.status().working == 1)
    return agent


def repeated(agent: Agent, at: GatewayProcess) -> list[dict[str, Any]]:
    """Return what the agent's last claim brings when it is asked again."""
    tasks: list[dict[str, Any]] = (
        agent.at(at.peer()).exchange(want=1, lease=agent.drawn).json["tasks"]
    )
    return tasks


def test_killed_gateway_answers_through_another(
    place: Realm, first: GatewayProcess, second: GatewayProcess, unanswered: Agent
) -> None:
    """The claim was committed: asked again, it brings what it took, and takes no more."""
    first.kill()
    (task,) = repeated(unanswered, second)
    assert place.campaign.status().working == 1
    assert repeated(unanswered, second) == [task]
    assert unanswered.at(second.peer()).report(task) == ["accepted"]


def test_killed_gateway_has_taken_reports_in(
    place: Realm, first: GatewayProcess, second: GatewayProcess, relay: DatabaseRelay
) -> None:
    """A report that was committed is a duplicate when it is sent again: it counts once."""
    agent = place.agent()
    (task,) = agent.claim()
    relay.is_moment = lambda: place.campaign.status().done == 1
    agent.peer.send(agent.request(reports=[report_of(task)]))
    wait_until(lambda: place.campaign.status().done == 1)
    first.kill()
    assert agent.at(second.peer()).report(task) == ["duplicate"]
    assert (place.campaign.status().done, place.campaign.status().losses) == (1, 0)


def test_claim_that_is_named_no_longer_is_released(
    place: Realm, first: GatewayProcess, second: GatewayProcess, unanswered: Agent
) -> None:
    """Who gave its claim up says so by its next beat, and the task is there for others."""
    first.kill()
    agent = unanswered.at(second.peer())
    held = agent.beat(drawn=unanswered.drawn, pending=[unanswered.drawn])
    assert held.status == 200
    assert place.campaign.status().working == 1
    assert agent.beat(drawn=unanswered.drawn).status == 200
    assert place.campaign.status().working == 0
    assert place.campaign.status().losses == 0
    assert len(place.agent(second).claim(2)) == 2


def test_client_that_has_gone_finds_its_claim_again(
    place: Realm, first: GatewayProcess, relay: DatabaseRelay, unanswered: Agent
) -> None:
    """What was claimed for it when it hung up is found by the same lease id."""
    unanswered.peer.close()
    wait_until(lambda: place.campaign.status().working == 1)
    relay.answer()
    assert len(repeated(unanswered, first)) == 1
    assert place.campaign.status().working == 1


def test_client_that_asks_again_before_its_answer_gets_the_same(
    place: Realm, first: GatewayProcess, relay: DatabaseRelay, unanswered: Agent
) -> None:
    """On another connection, while the first request is still under way."""
    other = unanswered.at(first.peer())
    other.peer.send(other.wanting(lease=unanswered.drawn))
    relay.answer()
    replies = [unanswered.peer.reply(), other.peer.reply()]
    assert replies[0].json["tasks"] == replies[1].json["tasks"] != []
    assert place.campaign.status().working == 1


@pytest.mark.parametrize("lost", [False, True], ids=["answered", "lost"])
def test_statement_with_a_lost_answer_is_not_repeated_if_a_repeat_would_differ(
    place: Realm, first: GatewayProcess, *, lost: bool
) -> None:
    """A second `drop_index` or removal of a pilot would answer that there is none."""
    place.queue.pilots.create("hpc", "slurm", place.path, {"folder": "/jobs"})
    place.campaign.index("result.score")
    with (
        Forgetful(first) as relay,
        Client(GatewayQueries(relay.url, place.token("submitter"))) as far,
    ):
        campaign = far.campaign(place.path)
        does: tuple[tuple[Callable[[], object], object], ...] = (
            (lambda: campaign.drop_index("result.score"), True),
            (lambda: far.pilots.set_status("hpc", "removed"), 0),
        )
        for do, says in does:
            relay.loses = lost
            if lost:
                with pytest.raises(Unavailable, match="cannot reach the gateway"):
                    do()
            else:
                assert do() == says
    assert place.campaign.indexes() == []
    assert place.queue.pilots.list() == ()
