"""Owners over HTTP: a token is the owner of what it creates, and quotas are an operator's."""

from __future__ import annotations

import secrets

import pytest

from taskq import Client, NotOverGateway
from taskq.db.gateway_queries import GatewayQueries
from taskq.gateway import stored_metrics
from taskq.model.errors import Conflict, Forbidden
from tests.fixtures.gateways import Realm


def submitter(realm: Realm, name: str) -> Client:
    """Return a client with a new submitter's token of this name."""
    return Client(GatewayQueries(realm.gateway.url, realm.token("submitter", name), patience_s=0))


def test_token_is_the_owner_of_what_it_creates(realm: Realm) -> None:
    """Also the one that replaces it under its name; the gateway's login is not."""
    path, name = f"{realm.path}/own", secrets.token_hex(6)
    with submitter(realm, name) as queue:
        queue.create_campaign(path)
        assert queue.owners.of(path) == name
        assert name in {owner.owner for owner in queue.owners.list(realm.path)}
        with pytest.raises(Forbidden):
            queue.owners.list("/")
        assert queue.owners.shared_by() == "campaign"
    realm.queue.tokens.revoke(name)
    with submitter(realm, name) as queue:
        queue.create_campaign(f"{realm.path}/next")
    (owner,) = realm.queue.owners.list(path)
    assert (owner.owner, owner.campaigns) == (name, 2)


def test_quota_holds_over_a_gateway_and_is_not_changed_there(realm: Realm) -> None:
    """A chunk that does not fit is refused whole; what gets room again is handed out."""
    path, name = f"{realm.path}/own", secrets.token_hex(6)
    realm.queue.owners.set_quota(name, {"max_waiting": 3, "max_running": 1})
    with submitter(realm, name) as queue:
        for change in (
            lambda: queue.owners.set_quota(name, {"max_waiting": 9}),
            lambda: queue.owners.give(path, name),
            lambda: queue.owners.share_by("owner"),
        ):
            with pytest.raises(NotOverGateway):
                change()
        campaign = queue.create_campaign(path)
        with pytest.raises(Conflict, match="allows 3 waiting tasks; 0 wait"):
            campaign.seed({"n": n} for n in range(4))
        assert campaign.seed({"n": n} for n in range(3)).added == 3
    realm.queue.owners.set_quota(name, {"max_waiting": None})
    realm.queue.owners.give(realm.path, name)
    realm.seed(3)
    agents = [realm.agent() for _ in range(2)]
    (task,) = agents[0].claim(2)
    assert agents[1].claim(1) == []
    assert agents[0].report(task) == ["accepted"]
    assert len(agents[1].claim(1, wait_s=30.0)) == 1


def test_owners_have_metrics_next_to_their_quotas(realm: Realm) -> None:
    """Those of the token's campaigns, by whatever name; what is not limited has no quota there."""
    names = [f'{secrets.token_hex(6)}"\n', secrets.token_hex(6), secrets.token_hex(6)]
    paths = [f"{realm.path}/one", f"{realm.path}/two", f"{realm.path}-other"]
    for path, name in zip(paths, names, strict=True):
        realm.queue.create_campaign(path).seed({"n": n} for n in range(3))
        realm.queue.owners.give(path, name)
    realm.queue.owners.set_quota(names[0], {"max_running": 7, "max_bytes": 2**30})
    realm.queue.create_campaign(f"{realm.path}-gone").cancel()
    token = realm.queue.tokens.create("manager", names[1], [*paths[:2], f"{realm.path}-gone"])[0]
    realm.queue.campaign(f"{realm.path}-gone").remove()
    text = realm.gateway.ask("GET", "/metrics", token=token).body.decode()
    word, two = (name.replace('"', r"\"").replace("\n", r"\n") for name in names[:2])
    assert f'taskq_owner_tasks{{owner="{word}",status="waiting"}} 3.0\n' in text
    assert f'taskq_owner_tasks{{owner="{two}",status="working"}} 0.0\n' in text
    assert f'taskq_owner_quota_tasks{{owner="{word}",status="working"}} 7.0\n' in text
    assert f'taskq_owner_quota_bytes{{owner="{word}"}} 1.073741824e+09\n' in text
    assert f'taskq_owner_quota_tasks{{owner="{word}",status="waiting"}}' not in text
    assert f'taskq_owner_stored_bytes{{owner="{two}"}} 0.0\n' in text
    assert names[2] not in text
    assert "\ntaskq_owners 2.0\n" in text
    rows = realm.queue.database.rows("owner_metrics", paths=paths, limit=1)
    bounded = "".join(str(family) for family in stored_metrics.of_owners(rows))
    assert ("value=3" in bounded, len(rows)) == (True, 1)
