"""The token of a site stays with the agent: nobody else on the node sees it, nor do payloads."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskq import CampaignSpec, Handler
from tests.fixtures.gateways import Realm
from tests.helpers.process_arguments import command_lines
from tests.helpers.slot_harness import processes_with
from tests.helpers.waiting import wait_until
from tests.helpers.worker_node import AgentResult, WorkerNode

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


@pytest.mark.thorough
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
