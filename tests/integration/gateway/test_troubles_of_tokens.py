"""Troubles over a gateway: each token sees those of its campaigns, and nothing of the rest."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta

import pytest

from taskq import Client
from taskq.db.connections import Database
from taskq.db.gateway_queries import GatewayQueries
from taskq.model.errors import Forbidden, NotFound
from tests.fixtures.gateways import Realm, StartGateway
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, keep, value
from tests.integration.notify.support import look


def test_token_sees_and_acknowledges_the_troubles_of_its_campaign_only(
    queue: Client,
    start_gateway: StartGateway,
    hire: Hire,
    database: Database,
    postgres: Postgres,
) -> None:
    """By a look that says nothing of the rest of the queue; others' troubles are unknown."""
    gateway = start_gateway()
    mine, other = Realm(queue, gateway), Realm(queue, gateway)
    for realm in (mine, other):
        realm.seed(3)
    hire("/")
    keep(postgres)
    postgres.execute("update taskq.session set drain = true")
    look(database, postgres)
    assert queue.troubles.list("/").troubles
    with closing(Client(GatewayQueries(gateway.url, mine.manager))) as client:
        found = client.troubles.list()
        assert (found.path, found.looked_at is not None) == (mine.path, True)
        (trouble,) = found.troubles
        assert (trouble.code, trouble.path) == ("draining", mine.path)
        assert other.path not in str(found)
        client.troubles.acknowledge(trouble.trouble_id or 0)
        (known,) = client.troubles.list().troubles
        assert (known.state, known.by == trouble.by) == ("acknowledged", False)
        theirs = value(
            postgres,
            "select array_agg(trouble_id) from taskq.known_trouble where watched <> %s",
            mine.path,
        )
        assert len(theirs) >= 2
        for trouble_id in theirs:
            with pytest.raises(NotFound):
                client.troubles.acknowledge(trouble_id)
    assert not [it for it in queue.troubles.list("/").troubles if it.state != "now"]


def test_window_of_a_token_is_for_its_campaign_only(
    queue: Client,
    start_gateway: StartGateway,
    hire: Hire,
    postgres: Postgres,
) -> None:
    """It hides nothing of others, not even at the same host, and ends no window of theirs."""
    gateway = start_gateway()
    mine, other = Realm(queue, gateway), Realm(queue, gateway)
    keep(postgres)
    for realm in (mine, other):
        realm.seed(40)
    hire("/", host="n0").claim()
    hire("/", host="n1")
    postgres.execute("update taskq.session set ended_at = now(), expired = true where host = 'n1'")

    def lost(path: str) -> bool:
        reasons = queue.campaign(path).explain().reasons
        return "capacity-lost" in {reason.code for reason in reasons}

    theirs = queue.maintenance.start(path=other.path, until=timedelta(hours=1), why="x")
    queue.maintenance.end(theirs)
    with closing(Client(GatewayQueries(gateway.url, mine.manager))) as client:
        for path in ("/", other.path):
            with pytest.raises(Forbidden):
                client.maintenance.start(path=path, until=timedelta(hours=1), why="mine")
        with pytest.raises(NotFound):
            client.maintenance.end(theirs)
        assert client.maintenance.list(mine.path) == []
        client.maintenance.start(
            path=mine.path, hosts=["n1"], until=timedelta(hours=1), why="new disks"
        )
        assert [it.by for it in client.maintenance.list(mine.path)] == [name_of(queue, mine)]
    assert {path: lost(path) for path in (mine.path, other.path, "/")} == {
        mine.path: False,
        other.path: True,
        "/": True,
    }


def name_of(queue: Client, realm: Realm) -> str:
    """Return the name of the manager's token of a realm."""
    (name,) = (
        it.name for it in queue.tokens.list() if realm.path in it.paths and it.kind == "manager"
    )
    return str(name)
