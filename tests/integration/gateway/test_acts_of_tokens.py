"""Acts by managers' tokens: under the name of the token, which sees those of its part."""

from __future__ import annotations

import pytest

from taskq import Client
from taskq.db.gateway_queries import GatewayQueries
from taskq.model.errors import Forbidden
from tests.fixtures.gateways import Realm, StartGateway


def test_token_is_named_and_sees_the_acts_of_its_part_only(
    queue: Client, start_gateway: StartGateway
) -> None:
    """Above it only what opens and closes campaigns, without by whom."""
    realm = Realm(queue, start_gateway())
    token = realm.token("manager", "night-shift")
    queue.campaign("/").pause()
    queue.queries.rows("ban", kind="host", name="n1", why="x", lifetime_s=None, path="/")
    queue.create_campaign("/other-part").pause()
    with Client(GatewayQueries(realm.gateway.url, token)) as far:
        theirs = far.queries
        theirs.rows("set_status", path=realm.path, status="paused")
        found = far.acts(realm.path)
        with pytest.raises(Forbidden, match="is not for"):
            theirs.rows("acts", path="/", verbs=None, most=10)
        with pytest.raises(Forbidden, match="is not for"):
            theirs.rows("begin_act", path="/other-part", verb="cancel", what=["x"])
    assert [(it.verb, it.path, it.who, it.what) for it in found if it.verb != "token"] == [
        ("pause", realm.path, "night-shift", []),
        ("pause", "/", None, None),
    ]
    made = [it for it in found if it.verb == "token"]
    assert {it.path for it in made} == {realm.path}
    assert ["night-shift", "manager", "created"] in [it.what for it in made]
