"""Large results whose agent ends before the upload: the next agent of its spool uploads them."""

from __future__ import annotations

import json
import os
import re

import pytest

from taskq import Campaign, CampaignSpec, Client, Handler
from taskq_agent.exit_codes import UNDELIVERED
from tests.fixtures.gateways import GatewayProcess, Realm, StartGateway
from tests.helpers.waiting import wait_until
from tests.helpers.way import Page, Way
from tests.helpers.worker_node import AgentResult, WorkerNode

LATER_S = 90.0
BYTES = 3_000_000
#: A command with a large result, which notes each time that it runs.
_SCRIPT = r"""echo ran >> "$2"; exec > "$TASKQ_RESULT"
printf '\173"x":"'; head -c "$1" /dev/zero | tr '\0' a; printf '"\175'"""


@pytest.fixture
def gateway(start_gateway: StartGateway) -> GatewayProcess:
    """Give one whose leases last for the whole test."""
    return start_gateway("--lease", 600)


@pytest.fixture
def realm(queue: Client, gateway: GatewayProcess) -> Realm:
    return Realm(queue, gateway)


@pytest.fixture
def campaign(queue: Client, realm: Realm, node: WorkerNode) -> Campaign:
    """Give a campaign whose one task has a large result."""
    argv = ("sh", "-c", _SCRIPT, "sh", str(BYTES), str(node.folder / "runs"))
    handler = Handler("command", argv=argv)
    campaign = queue.create_campaign(CampaignSpec(f"{realm.path}/c", handler=handler))
    campaign.seed([{"n": 1}])
    return campaign


def runs(node: WorkerNode) -> int:
    return len((node.folder / "runs").read_text().splitlines())


def end_before_the_upload(node: WorkerNode, way: Way) -> AgentResult:
    """Let an agent compute the result, which does not come through, and end it."""
    refused: list[str] = []

    def judge(method: str, path: str, _: bytes) -> Page | None:
        if method == "PUT" and path.startswith("/v1/blobs/"):
            refused.append(path)
            return Page(502)
        return None

    way.judge = judge
    with node.at_work(way.url, spool="spool") as agent:
        wait_until(lambda: refused, timeout_s=LATER_S)
        agent.terminate()
        return AgentResult(agent)


@pytest.mark.thorough
def test_large_result_is_uploaded_by_the_next_agent_of_the_spool(
    campaign: Campaign, way: Way, node: WorkerNode
) -> None:
    """Computed once, reported under its lease, and its file is gone afterwards."""
    ended = end_before_the_upload(node, way)
    assert (ended.code, ended.summary["undelivered"]) == (UNDELIVERED, 1), ended.err
    assert re.search("a result is kept in .*/spool for the next agent", ended.err), ended.err
    (kept,) = (node.folder / "spool").glob("*.result")
    assert (kept.stat().st_mode & 0o777, kept.stat().st_size > BYTES) == (0o600, True)
    with node.at_work(way.url, spool="spool", until_empty=True) as agent:
        wait_until(lambda: way.pages >= 2, timeout_s=LATER_S)  # it comes through no sooner
        assert campaign.status().done == 0
        way.judge = lambda *_: None
        ran = AgentResult(agent)
    assert ran.code == os.EX_OK, ran.err
    status = campaign.status()
    assert (status.done, status.failures, status.losses, runs(node)) == (1, 0, 0, 1)
    (result,) = campaign.results()
    assert result.attempt == 1
    assert [*(node.folder / "spool").iterdir()] == []


@pytest.mark.thorough
def test_result_waits_where_no_spool_is_named(
    campaign: Campaign, way: Way, node: WorkerNode
) -> None:
    """What an agent could not deliver is in its user's cache, and the next agent delivers it."""
    node.environment["XDG_CACHE_HOME"] = str(node.folder / "cache")
    refused: list[str] = []

    def judge(method: str, path: str, _: bytes) -> Page | None:
        refused.append(f"{method} {path}")
        return Page(502) if any("/blobs/" in line for line in refused) else None

    way.judge = judge
    with node.at_work(way.url, farewell=1) as agent:
        wait_until(lambda: any("/blobs/" in line for line in refused), timeout_s=LATER_S)
        agent.terminate()
        ended = AgentResult(agent)
    assert (ended.code, ended.summary["undelivered"]) == (UNDELIVERED, 1), ended.err
    assert "the user's next agent for this queue sends them" in ended.err
    (report,) = (node.folder / "cache").rglob("*.reports")
    assert {path.parent for path in (node.folder / "cache").rglob("*.result")} == {report.parent}
    way.judge = lambda *_: None
    ran = node.run(way.url, until_empty=True)
    assert ran.code == os.EX_OK, ran.err
    status = campaign.status()
    assert (status.done, status.failures, status.losses, runs(node)) == (1, 0, 0, 1)
    assert [*report.parent.iterdir()] == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    "how",
    [
        "other bytes",
        *(pytest.param(how, marks=pytest.mark.thorough) for how in ("shorter", "a link", "a pipe")),
    ],
)
def test_result_that_was_changed_in_the_spool_is_computed_again(
    campaign: Campaign, way: Way, node: WorkerNode, how: str
) -> None:
    """Nothing but the bytes of its digest is ever reported, and nobody waits for a pipe."""
    end_before_the_upload(node, way)
    (kept,) = (node.folder / "spool").glob("*.result")
    content = kept.read_bytes()
    kept.unlink()
    if how == "a link":
        (node.folder / "elsewhere").write_bytes(content)
        kept.symlink_to(node.folder / "elsewhere")
    elif how == "a pipe":
        os.mkfifo(kept)
    else:
        kept.write_bytes(content[:-1] if how == "shorter" else content.replace(b"a", b"b"))
    way.judge = lambda *_: None
    ran = node.run(way.url, spool="spool", until_empty=True)
    assert (ran.code, "is handed back" in ran.err) == (os.EX_OK, True), ran.err
    status = campaign.status()
    assert (status.done, status.failures, status.losses, runs(node)) == (1, 0, 0, 2)
    assert [*(node.folder / "spool").iterdir()] == []


def test_result_of_a_task_that_was_given_away_is_superseded(
    campaign: Campaign, way: Way, node: WorkerNode
) -> None:
    """The fence decides: an operator has cancelled the task meanwhile."""
    end_before_the_upload(node, way)
    campaign.cancel()
    way.judge = lambda *_: None
    ran = node.run(way.url, spool="spool", until_empty=True)
    assert ran.code == os.EX_OK, ran.err
    assert json.loads(ran.out)["superseded"] == 1, ran.err
    status = campaign.status()
    assert (status.done, status.cancelled, runs(node)) == (0, 1, 1)
    assert [*(node.folder / "spool").iterdir()] == []
