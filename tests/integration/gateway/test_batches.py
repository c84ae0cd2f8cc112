"""What holds for each task holds in batches, of every kind of handler: results, files, ends."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from taskq import CampaignSpec, Client, Handler, Seed
from taskq.db.audit import audit
from tests.fixtures.gateways import GatewayProcess, Realm, StartGateway
from tests.helpers.agent_processes import agent_process
from tests.helpers.command_line import CommandLine
from tests.helpers.paths import PAYLOADS
from tests.helpers.waiting import wait_until
from tests.helpers.way import Page, Way
from tests.helpers.worker_node import AgentResult, WorkerNode

PROGRAM = str(PAYLOADS / "batcher.py")
KINDS = ("command", "process", "list", "generator")
#: More than a report holds, as JSON.
LARGE_BYTES = 300_000
LATER_S = 90.0


def handler(kind: str, batch: int = 100) -> Handler:
    """Return a handler of a kind that does what its tasks say."""
    if kind == "command":
        return Handler("command", argv=(sys.executable, PROGRAM, "file", "{tasks}"), batch=batch)
    if kind == "process":
        return Handler("process", argv=(sys.executable, PROGRAM, "lines", "1"), batch=batch)
    target = "batcher:together" if kind == "list" else "batcher:one_by_one"
    return Handler("python", target=target, batch=batch)


def seeds(folder: Path, tasks: int, **more: Any) -> list[Seed]:
    log = str(folder / "starts")
    return [Seed({"n": n, "log": log, **more}, f"t{n}") for n in range(1, tasks + 1)]


def starts(folder: Path) -> list[list[int]]:
    """Return the tasks of each start so far."""
    file = folder / "starts"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def spooled(folder: Path) -> int:
    """Return how many reports wait in a spool."""
    return sum(len(file.read_text().splitlines()) for file in folder.glob("*.reports"))


def run(taskq: CommandLine, *options: object) -> None:
    """Let an agent of one slot do all that there is."""
    words = ["agent", "run", "--campaign", "/c", "--slots", "1", "--until-empty"]
    taskq.out(*words, "--path", PAYLOADS, *options)


@pytest.fixture
def gateway(start_gateway: StartGateway) -> GatewayProcess:
    """Give one whose leases last for the whole test."""
    return start_gateway("--lease", 600)


@pytest.fixture
def realm(queue: Client, gateway: GatewayProcess) -> Realm:
    return Realm(queue, gateway)


@pytest.mark.parametrize("kind", KINDS)
def test_large_results_and_output_files_belong_to_their_tasks(
    queue: Client, taskq: CommandLine, tmp_path: Path, kind: str
) -> None:
    spec = CampaignSpec("/c", handler=handler(kind), output_bytes=20_000)
    campaign = queue.create_campaign(spec)
    campaign.seed(seeds(tmp_path, 6, file="pose", size=LARGE_BYTES))
    run(taskq)
    found = {result.key: result for result in campaign.results()}
    assert all(result.result for result in found.values())
    assert {key: result.result["n"] for key, result in found.items()} == {
        f"t{n}": n for n in range(1, 7)
    }
    assert {len(result.result["x"]) for result in found.values()} == {LARGE_BYTES}
    campaign.fetch(tmp_path / "poses", [*campaign.results()])
    files = {file.parent.name: file.read_text() for file in (tmp_path / "poses").rglob("pose")}
    assert files == {f"t{n}": str(n) for n in range(1, 7)}
    assert [*audit(queue.database, "/c")] == []


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_agent_that_drains_ends_its_start_and_begins_no_other(
    queue: Client, dsn: str, tmp_path: Path, kind: str
) -> None:
    campaign = queue.create_campaign(CampaignSpec("/c", handler=handler(kind, 10)))
    gate, log = tmp_path / "gate", tmp_path / "log"
    campaign.seed(seeds(tmp_path, 30, gate=str(gate)))
    options = ["--slots", 1, "--lease", 4, "--path", PAYLOADS]
    with agent_process(dsn, "a", log, *options) as agent:
        wait_until(lambda: starts(tmp_path), timeout_s=LATER_S)
        assert queue.drain_agents() == 1
        wait_until(lambda: "the agent leaves" in log.read_text(), timeout_s=LATER_S)
        gate.touch()
        assert agent.wait(LATER_S) == os.EX_OK
    status = campaign.status()
    assert (status.done, status.waiting, status.working) == (10, 20, 0)
    assert (status.failures, status.losses) == (0, 0)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_cancelled_task_of_a_start_is_discarded_and_the_others_count(
    queue: Client, dsn: str, tmp_path: Path, kind: str
) -> None:
    """The start goes on; the cancelled one can be tried again, and then counts."""
    campaign = queue.create_campaign(CampaignSpec("/c", handler=handler(kind, 10)))
    gate = tmp_path / "gate"
    campaign.seed(seeds(tmp_path, 6, gate=str(gate)))
    options = ["--slots", 1, "--quiet", "--path", PAYLOADS]
    with agent_process(dsn, "a", tmp_path / "log", *options):
        wait_until(lambda: starts(tmp_path), timeout_s=60)
        assert campaign.cancel(keys=["t2", "t5"]) == 2
        gate.touch()
        wait_until(lambda: campaign.status().unfinished == 0, timeout_s=60)
        status = campaign.status()
        assert (status.done, status.cancelled, status.failures) == (4, 2, 0)
        assert campaign.retry(status="cancelled", keys=["t5"]) == 1
        wait_until(lambda: campaign.status().done == 5, timeout_s=60)
    assert {result.key for result in campaign.results()} == {"t1", "t3", "t4", "t5", "t6"}
    assert [*audit(queue.database, "/c")] == []


@pytest.mark.thorough
def test_start_whose_tasks_are_all_cancelled_is_ended(
    queue: Client, dsn: str, tmp_path: Path
) -> None:
    campaign = queue.create_campaign(CampaignSpec("/c", handler=handler("command")))
    campaign.seed(seeds(tmp_path, 5, do="hang"))
    with agent_process(dsn, "a", tmp_path / "log", "--slots", 1, "--quiet") as agent:
        wait_until(lambda: starts(tmp_path), timeout_s=60)
        campaign.cancel(below=False)
        campaign.seed([Seed({"n": 9, "log": str(tmp_path / "starts")}, "next")])
        wait_until(lambda: campaign.status().done == 1, timeout_s=90)
        assert agent.poll() is None


@pytest.mark.parametrize("kind", KINDS)
def test_owner_with_a_quota_runs_no_more_tasks_at_a_time(
    queue: Client, taskq: CommandLine, tmp_path: Path, kind: str
) -> None:
    """The quota counts tasks, so a start has no more of them."""
    campaign = queue.create_campaign(CampaignSpec("/c", handler=handler(kind)))
    (owner,) = queue.owners.list()
    queue.owners.set_quota(owner.owner, {"max_running": 4})
    campaign.seed(seeds(tmp_path, 12))
    run(taskq)
    assert campaign.status().done == 12
    if kind != "process":  # this one takes its tasks one by one
        assert max(map(len, starts(tmp_path))) <= 4


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_outcomes_wait_in_the_spool_while_no_gateway_answers(
    queue: Client, realm: Realm, way: Way, node: WorkerNode, tmp_path: Path, kind: str
) -> None:
    """The start goes on meanwhile; all is reported afterwards, and nothing is done twice."""
    spec = CampaignSpec(f"{realm.path}/c", handler=handler(kind, 20))
    campaign = queue.create_campaign(spec)
    gate = tmp_path / "gate"
    campaign.seed(seeds(tmp_path, 20, gate=str(gate)))
    options = {"spool": tmp_path / "spool", "slots": 1, "path": PAYLOADS, "until_empty": True}
    with node.at_work(way.url, **options) as agent:
        wait_until(lambda: starts(tmp_path), timeout_s=LATER_S)
        way.judge = lambda *_: Page(502)
        gate.touch()
        wait_until(lambda: spooled(tmp_path / "spool") == 20, timeout_s=LATER_S)
        assert campaign.status().done == 0
        way.judge = lambda *_: None
        ran = AgentResult(agent)
    assert ran.code == os.EX_OK, ran.err
    status = campaign.status()
    assert (status.done, status.failures, status.losses) == (20, 0, 0)
    assert sorted(n for start in starts(tmp_path) for n in start) == [*range(1, 21)]
    assert spooled(tmp_path / "spool") == 0
