"""A gateway whose login owns nothing, and secrets that no gateway says."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import requests

import taskq
from taskq import CampaignSpec, Client, Handler
from taskq.db.gateway_queries import GatewayQueries
from taskq.model.errors import Forbidden, LoginForbidden
from tests.fixtures.gateways import GatewayProcess, Realm
from tests.fixtures.logins import Staff
from tests.fixtures.redis_servers import RedisServer
from tests.helpers.process_arguments import command_lines
from tests.helpers.slot_harness import processes_with
from tests.helpers.waiting import wait_until
from tests.helpers.worker_node import AgentResult, WorkerNode

pytestmark = pytest.mark.thorough


def test_gateway_serves_agents_by_its_role_alone(
    staff: Staff, tmp_path: Path, redis_server: RedisServer
) -> None:
    """Sessions, claims, reports, beats, blobs, the front and the upkeep."""
    login = staff.login("gateway")
    gateway = GatewayProcess(login.dsn, tmp_path, "--redis", redis_server.url, keeper=True)
    try:
        realm = Realm(staff.owner, gateway)
        data = b"x" * 2_000_000
        (tmp_path / "input").write_bytes(data)
        realm.campaign.add_input(tmp_path / "input")
        ask, digest = gateway.ask, hashlib.sha256(data).hexdigest()
        realm.seed(3)
        agent = realm.agent()
        (task,) = agent.claim()
        assert agent.beat(task).json["stop"] == []
        assert agent.report(task) == ["accepted"]
        assert ask("GET", f"/v1/blobs/{digest}", token=agent.token).body == data
        result = b"a result"
        blob = f"/v1/blobs/{hashlib.sha256(result).hexdigest()}"
        assert ask("PUT", blob, token=agent.token, body=result).status == requests.codes.no_content
        assert ask("DELETE", "/v1/session", token=agent.token).status == requests.codes.no_content
        # The upkeep and the refiller are at work as well.
        wait_until(lambda: staff.taskq.json("front", "status")["refilled"])
    finally:
        gateway.stop()


def test_gateways_login_needs_the_role_manager(staff: Staff, tmp_path: Path) -> None:
    """By the role `gateway` alone it does nothing for them."""
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


def test_missing_right_to_send_functions_is_reported(staff: Staff, tmp_path: Path) -> None:
    """A pickler's token does not help where the gateway's login lacks the role, nor its advice."""
    for roles, fine in ((("gateway", "manager"), False), (("gateway", "manager", "pickler"), True)):
        login = staff.login(*roles)
        gateway = GatewayProcess(login.dsn, tmp_path)
        try:
            realm = Realm(staff.owner, gateway)
            with Client(GatewayQueries(gateway.url, realm.token("pickler"))) as queue:
                if fine:
                    run = queue.map(lambda n: n, [1], name=f"{realm.path}/x")
                    assert run.status().waiting == 1
                    continue
                begin = (
                    lambda q=queue, r=realm: q.map(lambda n: n, [1], name=f"{r.path}/x"),
                    lambda q=queue, r=realm: taskq.Executor(q, path=f"{r.path}/y"),
                )
                for build in begin:
                    with pytest.raises(LoginForbidden, match="taskq db grant pickler") as refused:
                        build()
                    assert "token" not in str(refused.value)
            with (
                Client(GatewayQueries(gateway.url, realm.token("submitter"))) as lesser,
                pytest.raises(Forbidden, match="token create NAME --kind pickler") as refused,
            ):
                lesser.map(lambda n: n, [1], name=f"{realm.path}/z")
            assert not isinstance(refused.value, LoginForbidden)
        finally:
            gateway.kill()


SCRIPT = 'env; until [ -e "$1" ]; do sleep 0.05; done'
PAYLOAD = """
import os, pathlib, time

def look(payload, shared):
    print(dict(os.environ))
    while not pathlib.Path(shared["go"]).exists():
        time.sleep(0.05)
    return dict(os.environ)
"""
COMMAND = Handler("command", argv=("sh", "-c", SCRIPT, "sh", "{params.go}"))
KINDS = {"command": COMMAND, "python": Handler("python", target="looking:look")}


def environment(pid: int) -> str:
    """Return what a process was started with; nothing if it has gone."""
    try:
        return Path(f"/proc/{pid}/environ").read_text()
    except OSError:
        return ""


def test_token_is_seen_by_the_agent_alone(realm: Realm, tmp_path: Path) -> None:
    """It is in no command line, no payload's environment, no log at its most verbose, no result."""
    go = tmp_path / "go"
    campaigns = {}
    for kind, handler in KINDS.items():
        spec = CampaignSpec(f"{realm.path}/{kind}", handler=handler, params={"go": str(go)})
        campaigns[spec.path] = realm.queue.create_campaign(spec)
        campaigns[spec.path].submit({"n": 1}, key="one")
    node = WorkerNode(tmp_path)
    node.token.write_text("another")
    (node.folder / "looking.py").write_text(PAYLOAD)
    words = ["run", "--gateway", realm.gateway.url, "--until-empty", "--slots", 2, "--path", "."]
    with node.started(*words, "--verbose", TASKQ_TOKEN=realm.site) as process:

        def payloads() -> list[int]:
            found = [processes_with("TASKQ_CAMPAIGN", path) for path in campaigns]
            return [pid for pids in found for pid in pids] if all(found) else []

        wait_until(payloads, timeout_s=60)
        shown = "\n".join(command_lines())
        given = "\n".join(map(environment, payloads()))
        wait_until(lambda: realm.campaign.status().working == 2)
        go.touch()
        ran = AgentResult(process)
    assert (ran.code, ran.summary["done"]) == (0, 2), ran.err
    attempts = [attempt for campaign in campaigns.values() for attempt in campaign.attempts("one")]
    assert len(attempts) == 2
    assert f"--gateway {realm.gateway.url}" in shown
    assert "TASKQ_KEY=one" in given
    assert realm.site not in shown
    for text in (given, ran.out, ran.err, str(attempts)):
        assert realm.site not in text
        assert "tqs_" not in text
        assert "TASKQ_TOKEN" not in text
