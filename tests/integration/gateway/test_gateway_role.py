"""A gateway whose login has the gateway's role, and owns nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import requests

from taskq import Client
from taskq.db.gateway_queries import GatewayQueries
from taskq.model.errors import Forbidden
from tests.fixtures.gateways import GatewayProcess, Realm
from tests.fixtures.logins import Staff
from tests.fixtures.redis_servers import RedisServer
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.thorough


def test_gateway_serves_agents_and_managers_by_its_role_alone(
    staff: Staff, tmp_path: Path, redis_server: RedisServer
) -> None:
    """Sessions, claims, reports, beats, blobs, the front, the upkeep and what managers do."""
    login = staff.login("gateway")
    gateway = GatewayProcess(login.dsn, tmp_path, "--redis", redis_server.url, keeper=True)
    try:
        realm = Realm(staff.owner, gateway)
        data = b"x" * 2_000_000
        (tmp_path / "input").write_bytes(data)
        realm.campaign.add_input(tmp_path / "input")
        ask, digest = gateway.ask, hashlib.sha256(data).hexdigest()
        wanted = {"path": realm.path, "tasks": [{"payload": {"n": n}} for n in range(3)]}
        assert ask("POST", "/v1/tasks", token=realm.manager, body=wanted).json == {
            "added": 3,
            "conflicts": 0,
        }
        agent = realm.agent()
        (task,) = agent.claim()
        assert agent.beat(task).json["stop"] == []
        assert agent.report(task) == ["accepted"]
        assert ask("GET", f"/v1/blobs/{digest}", token=agent.token).body == data
        result = b"a result"
        blob = f"/v1/blobs/{hashlib.sha256(result).hexdigest()}"
        assert ask("PUT", blob, token=agent.token, body=result).status == requests.codes.no_content
        for state in ("paused", "open", "cancelled"):
            body = {"path": realm.path, "state": state}
            reply = ask("POST", "/v1/campaigns/state", token=realm.manager, body=body)
            assert reply.status == requests.codes.ok, reply
        assert ask("GET", "/v1/campaigns", token=realm.manager).status == requests.codes.ok
        assert ask("DELETE", "/v1/session", token=agent.token).status == requests.codes.no_content
        # The upkeep and the refiller are at work as well.
        wait_until(lambda: staff.taskq.json("front", "status")["refilled"])
    finally:
        gateway.stop()


def test_gateways_login_needs_the_role_manager(staff: Staff, tmp_path: Path) -> None:
    """By the role `gateway` alone it does no more for managers than before."""
    for roles, fine in ((("gateway",), False), (("gateway", "manager"), True)):
        gateway = GatewayProcess(staff.login(*roles).dsn, tmp_path)
        try:
            realm = Realm(staff.owner, gateway)
            with Client(GatewayQueries(gateway.url, realm.token("submitter"))) as queue:
                if not fine:
                    with pytest.raises(Forbidden, match="taskq db grant manager LOGIN"):
                        queue.campaign(realm.path)
                    continue
                campaign = queue.create_campaign(f"{realm.path}/x")
                assert campaign.seed([{"n": 1}]).added == 1
                assert (campaign.cancel(), campaign.resume(), campaign.remove()) == (1, True, 1)
        finally:
            gateway.kill()
