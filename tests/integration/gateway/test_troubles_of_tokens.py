"""Troubles over a gateway: each token sees those of its campaigns, and nothing of the rest."""

from __future__ import annotations

from contextlib import closing

import pytest

from taskq import Client
from taskq.db.connections import Database
from taskq.db.gateway_queries import GatewayQueries
from taskq.model.errors import NotFound
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
