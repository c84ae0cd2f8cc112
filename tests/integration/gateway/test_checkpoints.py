"""Checkpoints over a gateway: real agents, and strangers who ask for what is not theirs."""

from __future__ import annotations

import hashlib
import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from taskq import CampaignSpec, Handler
from taskq_agent.archive import CHECKPOINT, heading
from tests.fixtures.gateways import Realm
from tests.helpers.postgres import is_lost, value
from tests.helpers.waiting import wait_until
from tests.helpers.worker_node import AgentResult, WorkerNode
from tests.integration.gateway.peers import Agent, Reply, fence

#: Counts to three, an attempt for each step.
GOES_ON = """
n=$(cat "$TASKQ_CHECKPOINT/n" 2>/dev/null || echo 0)
test "$n" -lt 3 || {{ echo "{{\\"n\\": $n}}"; exit 0; }}
echo $((n + 1)) > "$TASKQ_CHECKPOINT/.n"
mv "$TASKQ_CHECKPOINT/.n" "$TASKQ_CHECKPOINT/n"
exit 85
"""
#: Leaves its host's state and waits; on the second node it tells what it has found.
WAITS = """
cat "$TASKQ_CHECKPOINT/state" 2>/dev/null && exit 0
echo found > "$TASKQ_CHECKPOINT/state"
touch "$1"
sleep 1000
"""


def node(folder: Path, realm: Realm) -> WorkerNode:
    """Return a node with the agent and the site's token."""
    folder.mkdir()
    made = WorkerNode(folder)
    made.token.write_text(realm.site + "\n")
    return made


def change(realm: Realm, script: str, *arguments: str) -> None:
    """Let the campaign run a script, and keep checkpoints."""
    handler = Handler("command", argv=("sh", "-c", script, "sh", *arguments))
    spec = CampaignSpec(
        realm.path, handler=handler, checkpoint_bytes=100_000, checkpoint_every_s=1.0
    )
    realm.campaign.change(spec)
    realm.seed()


def run(node: WorkerNode, realm: Realm, **options: Any) -> AgentResult:
    """Run an agent until it ends."""
    return node.run(realm.gateway.url, campaign=realm.path, until_empty=True, **options)


@pytest.mark.thorough
def test_task_goes_on_in_another_attempt(realm: Realm, tmp_path: Path) -> None:
    """Four attempts, of which none has failed."""
    change(realm, GOES_ON)
    ended = run(node(tmp_path / "node", realm), realm)
    assert ended.code == 0, ended.err
    (result,) = realm.campaign.results()
    assert result.result == {"n": 3}
    status = realm.campaign.status()
    assert (status.done, status.failures, status.losses) == (1, 0, 0)


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_task_goes_on_on_another_node(number: int, realm: Realm, tmp_path: Path) -> None:
    """When its agent was preempted; or killed, then with what was uploaded while it ran."""
    ready = tmp_path / "ready"
    change(realm, WAITS, str(ready))
    first = node(tmp_path / "one", realm)
    campaign = [realm.campaign.campaign_id]
    with (
        psycopg.connect(realm.gateway.dsn, autocommit=True, row_factory=dict_row) as postgres,
        first.at_work(realm.gateway.url, campaign=realm.path, grace=1) as process,
    ):
        wait_until(ready.exists)
        if number == signal.SIGKILL:
            kept = "select count(*) from taskq.checkpoint where campaign_id = %s"
            wait_until(lambda: value(postgres, kept, *campaign) == 1)
        process.send_signal(number)
        process.wait()
        if number == signal.SIGKILL:
            session = "select max(session_id) from taskq.session where campaign_id = %s"
            # Its last heartbeat may wait in the gateway for some seconds.
            wait_until(lambda: is_lost(postgres, value(postgres, session, *campaign)))
    ended = run(node(tmp_path / "two", realm), realm)
    assert ended.code == 0, ended.err
    (result,) = realm.campaign.results()
    assert result.result == {"stdout": "found"}


def ask(agent: Agent, task: dict[str, Any], **members: Any) -> Reply:
    """Ask for the checkpoint of a task, or save it."""
    body = {**fence(task), **members}
    return agent.peer.ask("POST", "/v1/checkpoint", token=agent.token, body=body)


def test_checkpoint_is_for_who_works_on_the_task(realm: Realm) -> None:
    """Another site's agent neither finds nor saves it, nor reads its content; nor a late one."""
    change(realm, "exit 1")
    agent, other = realm.agent(), Realm(realm.queue, realm.gateway)
    stranger = other.agent()
    (task,) = agent.claim()
    data = heading(CHECKPOINT, task["campaign"], task["task"]) + b"state"
    digest = hashlib.sha256(data).hexdigest()
    blob, saved = f"/v1/blobs/{digest}", {"digest": digest, "size": len(data)}
    assert ask(agent, task, **saved).status == 404
    assert agent.peer.ask("PUT", blob, token=agent.token, body=data).status == 204
    assert ask(stranger, task, **saved).json["held"] is False
    assert agent.peer.ask("GET", blob, token=agent.token).status == 403
    assert ask(agent, task, **saved).json == {"held": True, **saved, "memory_failures": 0}
    assert ask(agent, task).json == {"held": True, **saved, "memory_failures": 0}
    assert ask(stranger, task).json["digest"] == ""
    assert agent.peer.ask("GET", blob, token=agent.token).body == data
    assert stranger.peer.ask("GET", blob, token=stranger.token).status == 403
    assert ask(agent, task, digest=digest, size=1).status == 422
    agent.report(task)
    assert ask(agent, task, **saved).json["held"] is False
    assert ask(agent, task).json["digest"] == ""


@pytest.mark.parametrize(
    "planted",
    [
        {"digest": "x"},
        {"digest": "0" * 63 + "\0"},
        {"size": -1},
        {"size": 1 << 40, "digest": "0" * 64},
        {"task": 2**63},
        {"lease": "\0"},
    ],
)
def test_nonsense_is_refused(realm: Realm, planted: dict[str, Any]) -> None:
    """Before any statement."""
    change(realm, "exit 1")
    agent = realm.agent()
    (task,) = agent.claim()
    body = {**fence(task), **planted}
    reply = agent.peer.ask("POST", "/v1/checkpoint", token=agent.token, body=body)
    assert reply.status == 400
