"""The database goes away and comes back: agents are told when to try again, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from taskq.db.gateway_queries import GatewayQueries
from taskq.embedded import Server
from taskq.model.errors import Unavailable
from tests.fixtures.gateways import Realm, StartGateway, opened
from tests.fixtures.own_servers import own_server  # noqa: F401  # a fixture, for the tests here
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.thorough

LEASE_S = 2.0


def test_gateway_outlives_its_database(
    own_server: Server,  # noqa: F811  # the fixture
    start_gateway: StartGateway,
) -> None:
    """503 with Retry-After meanwhile; then it serves again, the same sessions with the same leases.

    The outage is longer than a lease: time in which the database was down counts against nobody.
    """
    dsn = own_server.up().dsn
    gateway = start_gateway("--lease", LEASE_S, on=dsn, expected=["database", "trying on", "works"])
    with opened(dsn) as queue:
        place = Realm(queue, gateway)
        place.seed(3)
    agent, stranger = place.agent(), place.agent()
    held, done = agent.claim(2)
    metrics = gateway.ask("GET", "/metrics", token=place.manager).body
    assert b"taskq_agents_held" in metrics
    own_server.down(immediate=True)
    metrics = gateway.ask("GET", "/metrics", token=place.manager).body
    assert b"taskq_gateway_tasks_total" in metrics
    assert b"taskq_agents_held" not in metrics
    report = {name: done[name] for name in ("campaign", "task", "lease")} | {"outcome": "done"}
    refused = [
        agent.exchange(reports=[report]),
        agent.exchange(want=1, lease=agent.lease()),
        stranger.exchange(want=1, lease=stranger.lease(), wait_s=1),
        agent.beat(held, done, pending=[agent.drawn]),
        gateway.ask("GET", "/readyz"),
        gateway.ask("POST", "/v1/sessions", token=place.site, body=agent.hello),
        gateway.ask("GET", "/v1/campaigns", token=place.manager),
    ]
    for reply in refused:
        assert (reply.status, reply.code) == (503, "unavailable")
        assert 0 < float(reply.headers["retry-after"]) < 60
        assert str(dsn.split("host=")[1][:12]) not in reply.body.decode()
    with pytest.raises(Unavailable, match="database"):
        GatewayQueries(gateway.url, place.manager).open()
    assert gateway.ask("GET", "/healthz").status == 200
    own_server.up()
    wait_until(lambda: gateway.ask("GET", "/readyz").status == 200)
    wait_until(lambda: agent.exchange(reports=[report]).status == 200)
    assert agent.exchange(reports=[report]).json["acks"][0]["verdict"] == "duplicate"
    assert agent.beat(held).json["stop"] == []
    with opened(dsn) as queue, psycopg.connect(dsn, autocommit=True) as behind:
        behind.execute("select taskq.expire()")
        assert queue.campaign(place.path).status().losses == 0
    assert len(agent.claim(1, wait_s=5)) == 1
    assert agent.report(held) == ["accepted"]


def test_gateway_starts_only_beside_a_database(tmp_path: Path, start_gateway: StartGateway) -> None:
    """And says so, instead of serving refusals."""
    with pytest.raises(AssertionError, match="has not started: Error: "):
        start_gateway(on=f"postgresql://taskq@/taskq?host={tmp_path}")
