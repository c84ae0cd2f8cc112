"""Acts by managers' tokens: under the name of the token, which sees those of its part."""

from __future__ import annotations

import pytest

from taskq import Client
from taskq.db.gateway_queries import GatewayQueries
from taskq.model.errors import Conflict, Forbidden
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


def test_token_of_a_part_bans_for_its_campaigns_and_for_no_others(
    queue: Client, start_gateway: StartGateway
) -> None:
    """It sees and lifts those alone; without a campaign all of them, and no others."""
    realm = Realm(queue, start_gateway())
    queue.create_campaign("/other-part")
    queue.create_campaign(f"{realm.path}/a")
    for path in ("/", "/other-part"):
        queue.fleet.ban("host", "n1", why="theirs", campaign=path)
    token = realm.token("manager", "night-shift")
    with Client(GatewayQueries(realm.gateway.url, token)) as far:
        for path in (realm.path, f"{realm.path}/a"):
            far.fleet.ban("host", "n1", why="its disk", campaign=path)
        for path in ("/", "/other-part"):
            with pytest.raises(Forbidden, match=f"is not for {path}, but for {realm.path}"):
                far.fleet.ban("host", "n2", why="x", campaign=path)
            with pytest.raises(Forbidden):
                far.fleet.unban("host", "n1", campaign=path)
        seen = {(it.path, it.login) for it in far.fleet.bans()}
        assert seen == {(realm.path, "night-shift"), (f"{realm.path}/a", "night-shift")}
        assert far.fleet.unban("host", "n1")
        assert not far.fleet.unban("host", "n1")
        assert far.fleet.bans() == []
        acts = {(it.verb, it.path, it.who) for it in far.acts(realm.path, verbs=["unban"])}
    assert acts == {("unban", path, "night-shift") for path, _ in seen}
    assert {it.path for it in queue.fleet.bans()} == {"/", "/other-part"}
    assert queue.fleet.unban("host", "n1")
    assert queue.fleet.bans() == []


def test_token_of_a_part_leaves_bans_to_others(queue: Client, start_gateway: StartGateway) -> None:
    """However many campaigns and names of hosts there are, and also if others made some of them."""
    realm = Realm(queue, start_gateway())
    below = [f"{realm.path}/c{n}" for n in range(5)]
    for path in below:
        queue.create_campaign(path)
    with Client(GatewayQueries(realm.gateway.url, realm.token("manager"))) as far:
        for path in below[:4]:
            far.fleet.ban("host", "n1", why="x", campaign=path)
        far.fleet.ban("host", "n1", why="again", campaign=below[0])
        with pytest.raises(Conflict, match="4 of one host"):
            far.fleet.ban("host", "n1", why="x", campaign=below[4])
        for n in range(96):
            far.fleet.ban("host", f"m{n}", why="x", campaign=realm.path)
        with pytest.raises(Conflict, match="at most 100 bans"):
            far.fleet.ban("host", "one-more", why="x", campaign=realm.path)
    queue.fleet.ban("host", "n1", why="x", campaign=below[4])
    queue.fleet.ban("host", "one-more", why="x", campaign=realm.path)
