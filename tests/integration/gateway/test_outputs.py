"""Output files over a gateway: real agents, managers who fetch, strangers."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

import taskq
from taskq import CampaignSpec, Handler, Seed
from taskq.model.errors import Forbidden
from taskq_agent.archive import OUTPUT, heading
from tests.fixtures.gateways import Realm
from tests.helpers.worker_node import WorkerNode
from tests.integration.gateway.peers import Agent, Reply, fence

#: Leaves a pose.
LEAVES = 'mkdir "$TASKQ_OUT/d"; echo "$TASKQ_KEY" > "$TASKQ_OUT/d/pose"; echo \'{{"score": 1}}\''


def node(folder: Path, realm: Realm) -> WorkerNode:
    """Return a node with the agent and the site's token."""
    folder.mkdir()
    made = WorkerNode(folder)
    made.token.write_text(realm.site + "\n")
    return made


def change(realm: Realm, script: str, **limits: Any) -> None:
    """Let the campaign run a script, and keep output files."""
    handler = Handler("command", argv=("sh", "-c", script))
    limits = {"output_bytes": 100_000, **limits}
    realm.campaign.change(CampaignSpec(realm.path, handler=handler, **limits))


@pytest.mark.thorough
def test_files_come_back_over_the_gateway(
    realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From an agent that has only the gateway, to a manager who has only the gateway."""
    change(realm, LEAVES)
    realm.campaign.seed([Seed({}, "a"), Seed({}, "b")])
    ended = node(tmp_path / "node", realm).run(
        realm.gateway.url, campaign=realm.path, until_empty=True
    )
    assert ended.code == 0, ended.err
    monkeypatch.setenv("TASKQ_TOKEN", realm.manager)
    with taskq.connect(realm.gateway.url) as queue:
        campaign = queue.campaign(realm.path)
        fetched = campaign.fetch(tmp_path / "to", queue.best(realm.path, by="result.score", n=5))
        assert (fetched.tasks, fetched.files) == (2, 2)
        assert (tmp_path / "to" / "b" / "d" / "pose").read_text() == "b\n"
        assert campaign.files("a") == {"d/pose": b"a\n"}
    monkeypatch.setenv("TASKQ_TOKEN", Realm(realm.queue, realm.gateway).manager)
    with taskq.connect(realm.gateway.url) as queue, pytest.raises(Forbidden):
        queue.queries.rows("outputs_of", campaign=realm.campaign.campaign_id, tasks=[1])


def say(agent: Agent, task: dict[str, Any], **members: Any) -> Reply:
    """Save output files of a task."""
    body = {**fence(task), **members}
    return agent.peer.ask("POST", "/v1/output", token=agent.token, body=body)


def test_output_files_are_from_who_works_on_the_task(realm: Realm) -> None:
    """Another site's agent cannot leave any, nor too many; nobody's agent reads them."""
    change(realm, "exit 1", output_total_bytes=16_384)
    realm.seed()
    agent, other = realm.agent(), Realm(realm.queue, realm.gateway)
    stranger = other.agent()
    (task,) = agent.claim()
    saved = {}
    for name, content in (("small", b"x"), ("large", b"x" * 20_000)):
        data = heading(OUTPUT, task["campaign"], task["task"]) + content
        saved[name] = {"digest": hashlib.sha256(data).hexdigest(), "size": len(data)}
        blob = f"/v1/blobs/{saved[name]['digest']}"
        assert say(agent, task, **saved[name]).status == 404
        assert agent.peer.ask("PUT", blob, token=agent.token, body=data).status == 204
    small = saved["small"]
    assert say(stranger, task, **small).json["held"] is False
    assert say(agent, task, **small).json["held"] is True
    assert say(agent, task, digest=small["digest"], size=1).status == 422
    assert say(agent, task, **saved["large"]).status == 409
    assert say(agent, task, digest="x").status == 400
    for value in (agent, stranger):
        blob = f"/v1/blobs/{small['digest']}"
        assert value.peer.ask("GET", blob, token=value.token).status == 403
    agent.report(task)
    assert say(agent, task, **small).json["held"] is False
