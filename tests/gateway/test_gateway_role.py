"""A gateway whose login has the gateway's role, and owns nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import requests

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
