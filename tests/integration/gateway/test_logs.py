"""Updates and followed output over a gateway: real agents, and strangers who say what is not so."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from taskq import CampaignSpec, Client, Handler
from taskq.db.gateway_queries import GatewayQueries
from taskq.files.live_output import OutputPart
from taskq.model.errors import Conflict, Forbidden
from tests.fixtures.gateways import Realm, StartGateway, opened
from tests.helpers.command_line import CommandLine
from tests.helpers.waiting import wait_until
from tests.helpers.worker_node import WorkerNode
from tests.integration.gateway.peers import fence

#: Says how far it is, writes some output, and more on demand; then it fails or ends.
SAYS = r"""
echo "0.5 half of it" >> "$TASKQ_PROGRESS"
printf 'first \033[31mred\n' >&2
until [ -e "$1" ]; do sleep 0.05; done
echo last
exit "$2"
"""
OUTPUT = base64.b64encode(b"planted").decode()


def with_script(realm: Realm, *arguments: object) -> None:
    """Let the campaign run the script, once."""
    handler = Handler("command", argv=("sh", "-c", SAYS, "sh", *map(str, arguments)))
    realm.campaign.change(CampaignSpec(realm.path, handler=handler))
    realm.campaign.submit({}, "a")


@pytest.mark.thorough
@pytest.mark.parametrize("code", [0, 3])
def test_running_task_is_followed_to_its_end(
    code: int, start_gateway: StartGateway, tmp_path: Path, dsn: str
) -> None:
    """With a manager's token: how far it is, its output within seconds, and what came last."""
    gateway, go_on = start_gateway("--lease", 4), tmp_path / "go"
    with opened(dsn) as queue:
        realm = Realm(queue, gateway)
        with_script(realm, go_on, code)
        node = WorkerNode(tmp_path)
        node.token.write_text(realm.site + "\n")
        queries = GatewayQueries(gateway.url, realm.manager)
        campaign = Client(queries).campaign(realm.path)
        seen: list[OutputPart] = []
        with node.at_work(gateway.url, campaign=realm.path):
            for part in campaign.logs("a"):
                seen.append(part)
                if "first" in part.text:
                    wait_until(lambda: campaign.task("a").progress == 0.5)
                    assert campaign.task("a").progress_note == "half of it"
                    go_on.touch()
                if part.ended is not None and code:
                    realm.campaign.cancel(["a"])
        queries.close()
    assert "".join(part.text for part in seen) == "first red\nlast\n"
    (end,) = [part.ended for part in seen if part.ended is not None]
    assert (end.outcome, end.exit_code) == (("failed", 3) if code else ("done", None))
    assert seen[-1].status == ("cancelled" if code else "done")
    assert sum(part.skipped for part in seen) == 0


@pytest.mark.thorough
def test_direct_agent_is_followed_on_the_command_line(dsn: str, tmp_path: Path) -> None:
    """As text, in which nothing reaches the terminal but letters, and as JSON Lines."""
    go_on, taskq = tmp_path / "go", CommandLine(dsn)
    argv = ("sh", "-c", SAYS, "sh", go_on, 0)
    taskq.out("campaign", "create", "/f", "--", *argv)
    taskq.out("seed", "/f", "-", "--format", "jsonl", "--key-field", "k", input='{"k": "a"}\n')
    with (
        taskq.process("agent", "run", "--campaign", "/f", "--lease", 3),
        taskq.process("logs", "-f", "/f", "a") as people,
        taskq.process("logs", "-f", "/f", "a", "--output", "jsonl") as programs,
    ):
        assert people.stdout is not None
        assert people.stdout.readline() == "first red\n"
        assert "half of it" in taskq.out("logs", "/f", "a")
        assert "50 %, half of it" in taskq.out("tasks", "/f")
        go_on.touch()
        out, err = people.communicate(timeout=60)
        assert out == "last\n"
        assert "[attempt 1: done" in err
        out, _ = programs.communicate(timeout=60)
        parts = [json.loads(line) for line in out.splitlines()]
        assert "".join(part["text"] for part in parts) == "first red\nlast\n"
        assert [part["ended"] for part in parts if part["ended"]] == ["done"]


@pytest.mark.thorough
def test_updates_count_for_what_the_session_has(realm: Realm) -> None:
    """A stranger who knew the lease plants neither progress nor output; nor after the end."""
    realm.seed()
    agent, stranger = realm.agent(), Realm(realm.queue, realm.gateway).agent()
    (task,) = agent.claim()
    key = task["key"]
    rows = realm.queue.queries.rows
    asked = {"campaign": task["campaign"], "task": task["task"]}
    rows("follow", **asked)
    said = {**fence(task), "note": "planted", "output": OUTPUT, "written": 7}
    assert "follow" not in stranger.beat(updates=[said]).json
    assert realm.campaign.task(key).progress_note is None
    (row,) = rows("follow", **asked)
    assert (row["written"], row["output"]) == (None, None)
    reply = agent.beat(task, updates=[{**said, "fraction": 0.5, "note": "<b>\x1b[1mown</b>"}])
    assert reply.json["follow"] == [fence(task)]
    # Agents clean their notes; of one that does not, the database takes the control characters.
    assert realm.campaign.task(key).progress_note == "<b> [1mown</b>"
    (row,) = rows("follow", **asked)
    assert base64.b64decode(row["output"]) == b"planted"
    agent.report(task)
    agent.beat(updates=[said])
    (row,) = rows("follow", **asked)
    assert (row["status"], row["written"]) == ("done", None)


@pytest.mark.parametrize(
    "planted",
    [
        {"fraction": 1.5},
        {"fraction": "0.5"},
        {"fraction": None, "note": "x" * 121},
        {"note": "a\0b"},
        {"output": "no base64!"},
        {"output": base64.b64encode(b"x" * 8_193).decode()},
        {"written": -1},
        {"written": 2**63},
        {"lease": "x"},
    ],
    ids=str,
)
def test_nonsense_is_refused(planted: dict[str, Any], realm: Realm) -> None:
    """Before any statement."""
    realm.seed()
    agent = realm.agent()
    (task,) = agent.claim()
    assert agent.beat(task, updates=[{**fence(task), **planted}]).status == 400
    assert agent.beat(task, updates=[fence(task)] * 501).status == 400
    assert realm.campaign.task(task["key"]).progress is None


def test_manager_follows_tasks_of_his_campaigns(realm: Realm) -> None:
    """Eight at a time with each token, though one login of PostgreSQL asks for all of them."""
    realm.seed(9)
    first, second = (GatewayQueries(realm.gateway.url, realm.token("manager")) for _ in range(2))
    tasks = [task.key for task in realm.campaign.tasks()]
    mine = Client(first).campaign(realm.path)
    for key in tasks[:8]:
        assert next(mine.logs(key)).status == "waiting"
    with pytest.raises(Conflict, match="8 tasks"):
        next(mine.logs(tasks[8]))
    assert next(Client(second).campaign(realm.path).logs(tasks[8])).status == "waiting"
    other = Realm(realm.queue, realm.gateway)
    other.seed()
    (foreign,) = other.campaign.tasks()
    with pytest.raises(Forbidden):
        first.rows("follow", campaign=other.campaign.campaign_id, task=foreign.task_id)
    first.close()
    second.close()
