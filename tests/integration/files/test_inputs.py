"""Inputs and large results from end to end: command line, database, agents of its own process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from taskq import Campaign, CampaignSpec, Client, Handler
from taskq.db.connections import Database
from taskq.dispatch.direct import DirectTransport
from taskq.files.blobs import DatabaseBlobs
from taskq.files.folder_store import FolderBlobs
from taskq.ingest.campaign_file import read_campaign_file
from taskq.model.errors import InvalidCampaign, NotFound, ResultLost, UsageError
from taskq_agent.lease_ids import LeaseIds
from taskq_agent.protocol import Hello, Input, Request
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.command_line import CommandLine
from tests.helpers.paths import PAYLOADS
from tests.helpers.postgres import Postgres
from tests.helpers.variants import rest_thorough

pytestmark = pytest.mark.both_transports(
    near=[
        "test_agent_fetches_inputs_and_uploads_large_results",
        "test_agents_get_the_inputs_of_the_tasks_own_campaign_only",
        "test_blobs_of_removed_campaigns_can_be_cleaned_away",
    ]
)

HELLO = ("/c", "agent", "host", 1, "site", 1, "0")


@pytest.fixture(autouse=True)
def _no_other_blobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TASKQ_BLOBS", raising=False)


@pytest.fixture
def receptor(tmp_path: Path) -> Path:
    """Give a file of 3 MB."""
    path = tmp_path / "receptor.pdbqt"
    path.write_bytes(b"ATOM\n" * 600_000)
    return path


def run_agent(taskq: CommandLine, tmp_path: Path, *more: object) -> None:
    """Run an agent until nothing is left."""
    words = ["agent", "run", "--campaign", "/", "--until-empty", "--path", PAYLOADS]
    words += ["--cache", tmp_path / "cache", *more]
    with taskq.process(*words) as agent:
        said, errors = agent.communicate(timeout=30)
        assert agent.returncode == 0, said + errors


def test_inputs_are_added_listed_replaced_and_removed(
    taskq: CommandLine, campaign: Campaign, receptor: Path, tmp_path: Path
) -> None:
    """By command and by method alike; each change raises the revision, once."""
    added = taskq.json("input", "add", "/c", receptor)
    assert added["name"] == "receptor.pdbqt"
    assert added["size"] == 3_000_000
    small = tmp_path / "small"
    small.write_bytes(b"x")
    assert campaign.add_input(small, "box").size == 1
    assert [record["name"] for record in taskq.json("input", "list", "/c")] == [
        "box",
        "receptor.pdbqt",
    ]
    assert "3,000,000 bytes" in taskq.out("input", "add", "/c", receptor, "--name", "box")
    wanted = Input(added["digest"], 3_000_000)
    assert campaign.inputs() == {"box": wanted, "receptor.pdbqt": wanted}
    taskq.out("input", "rm", "/c", "box")
    campaign.remove_input("receptor.pdbqt")
    assert campaign.inputs() == {}
    assert taskq.json("input", "list", "/c") == []


def test_only_a_change_of_inputs_raises_the_revision(
    campaign: Campaign, receptor: Path, postgres: Postgres
) -> None:
    """Agents take up a campaign anew when its revision has risen, and keep it otherwise."""

    def revision() -> int:
        (row,) = postgres.execute("select revision from taskq.campaign where path = '/c'")
        return int(row["revision"])

    before = revision()
    for _ in range(3):
        campaign.add_input(receptor)
    assert revision() == before + 1
    campaign.remove_input("receptor.pdbqt")
    assert revision() == before + 2


def test_malformed_input_is_refused(
    taskq: CommandLine, campaign: Campaign, receptor: Path, tmp_path: Path
) -> None:
    """Nothing is changed then."""
    for name in ("", "../up", ".hidden", "a b", "x" * 101, "a\n"):
        with pytest.raises(UsageError, match="the name of an input must be"):
            campaign.add_input(receptor, name)
    assert taskq.refused("input", "add", "/c", tmp_path / "absent")[0] == 66
    assert taskq.refused("input", "add", "/nowhere", receptor)[0] == 66
    assert taskq.refused("input", "rm", "/c", "absent")[0] == 66
    with pytest.raises(NotFound, match="no campaign"):
        Campaign(campaign._subtree.database, 99, "/gone").inputs()  # noqa: SLF001  # removed meanwhile
    assert campaign.inputs() == {}


def test_campaign_has_100_inputs_at_most(campaign: Campaign, tmp_path: Path) -> None:
    """They are a part of what every agent gets."""
    small = tmp_path / "small"
    small.write_bytes(b"x")
    for number in range(100):
        campaign.add_input(small, f"n{number}")
    small.write_bytes(b"y")
    campaign.add_input(small, "n7")
    with pytest.raises(UsageError, match="100 inputs"):
        campaign.add_input(small, "n100")


def test_agents_get_the_inputs_of_the_tasks_own_campaign_only(
    queue: Client, receptor: Path
) -> None:
    """A campaign below does not inherit them."""
    above = servable(queue)
    wanted = above.add_input(receptor)
    below = servable(queue, "/c/b", on_disconnect="stop")
    for campaign in (above, below):
        campaign.submit({"n": 1})
    transport = DirectTransport(queue.database)
    session = transport.open(Hello("00000000-0000-7000-8000-000000000001", *HELLO)).session
    learnt, draw = {}, LeaseIds()
    for _ in range(2):
        answer = transport.exchange(Request(session, want=1, lease=draw()))
        for it in answer.campaigns:
            learnt[it.path] = (dict(it.inputs), it.on_disconnect)
    transport.close(session)
    assert learnt == {"/c": ({"receptor.pdbqt": wanted}, "continue"), "/c/b": ({}, "stop")}


@pytest.mark.thorough
@pytest.mark.parametrize("where", ["database", "folder", "url", "s3"])
def test_agent_fetches_inputs_and_uploads_large_results(
    queue: Client, receptor: Path, tmp_path: Path, where: str, request: pytest.FixtureRequest
) -> None:
    """Wherever blobs are kept; results come back whole, by command and by method."""
    (tmp_path / "b").mkdir()
    place: list[object] = {"folder": [tmp_path / "b"], "url": [f"file://{tmp_path}/b"]}.get(
        where, []
    )
    if where == "s3":
        address = request.getfixturevalue("s3_address")
        place = [address(request.getfixturevalue("shared_s3"))]
    taskq: CommandLine = request.getfixturevalue(
        "taskq"
    )  # which takes the environment as it is now
    blobs = ["--blobs", *place] if place else []
    script = (
        'wc -c < "$1"; echo "{\\"x\\": \\"$(head -c 400000 "$1" | tr -d "\\n")\\"}" > $TASKQ_RESULT'
    )
    script = script.replace("{", "{{").replace("}", "}}")
    argv = ("sh", "-c", script, "sh", "{inputs.receptor.pdbqt}")
    campaign = queue.create_campaign(CampaignSpec("/c", handler=Handler("command", argv=argv)))
    taskq.out("input", "add", "/c", receptor, *blobs)
    campaign.submit({"n": 1}, key="one")
    run_agent(taskq, tmp_path, *blobs)
    whole = {"x": "ATOM" * 80_000}
    (shown,) = taskq.json("results", "/c", *blobs)
    assert shown["result"] == whole
    assert {"fetch_s", "run_s", "upload_s"} <= set(shown["phases"])
    assert json.loads(taskq.out("export", "/c", *blobs))["result"] == whole
    (raw,) = campaign.results(raw=True)
    assert raw.result is not None
    assert raw.result["taskq_blob"]["size"] == len('{"x":""}') + 320_000
    assert taskq.json("results", "/c", "--raw")[0]["result"] == raw.result
    if where == "database":
        assert [result.result for result in campaign.results()] == [whole]
    else:
        with pytest.raises(ResultLost, match="TASKQ_BLOBS"):
            list(campaign.results())


NO_RESULTS = {
    "missing": None,
    "no object": b"[1]",
    "no JSON": b'{"x":',
    "no UTF-8": b'{"x":"\xff"}',
    "no JSON for others": b'{"x":NaN}',
    "a lone surrogate": rb'{"x":"\udfff"}',
    "an abyss": b'{"x":' * 100_000 + b"1" + b"}" * 100_000,
}


@pytest.mark.parametrize("stored", rest_thorough(NO_RESULTS.values(), 2), ids=NO_RESULTS.keys())
def test_lost_large_results_do_not_keep_the_others_back(
    taskq: CommandLine, database: Database, campaign: Campaign, hire: Hire, stored: bytes | None
) -> None:
    """The references are shown, with one warning; who asks in Python decides."""
    digest = "0" * 64
    if stored is not None:
        digest, _ = DatabaseBlobs(database).put([stored])
    reference = {"taskq_blob": {"digest": digest, "size": 1}}
    given = [reference, reference, {"taskq_blob": "nothing"}, {"x": 1}]
    campaign.seed({"n": n} for n in range(len(given)))
    agent = hire()
    for task, result in zip(agent.claim(len(given)), given, strict=True):
        assert agent.done(task, result) == "accepted"
    for command in (("export", "/c"), ("results", "/c", "--output", "jsonl")):
        ran = taskq(*command)
        assert ran.exit_code == 0
        assert [json.loads(line)["result"] for line in ran.stdout.splitlines()] == given
        assert ran.stderr.startswith("Warning: ")
        assert f"blob {digest}" in ran.stderr
        assert ran.stderr.count("\n") == 1
    with pytest.raises(ResultLost, match=digest):
        next(campaign.results())


def test_damaged_large_result_is_no_result(campaign: Campaign, hire: Hire, tmp_path: Path) -> None:
    """Nobody is given other bytes than the agent has sent."""
    blobs = FolderBlobs(tmp_path)
    digest, size = blobs.put([b'{"x":1}'])
    (tmp_path / digest[:2] / digest).write_bytes(b'{"x":2}')
    campaign.submit({})
    agent = hire()
    agent.done(*agent.claim(), {"taskq_blob": {"digest": digest, "size": size}})
    with pytest.raises(ResultLost, match=r"is damaged where it is stored$"):
        next(campaign.results(blobs=blobs))


@pytest.mark.thorough
def test_blobs_of_removed_campaigns_can_be_cleaned_away(
    taskq: CommandLine, queue: Client, receptor: Path, tmp_path: Path, postgres: Postgres
) -> None:
    """While something refers to them, they stay."""
    handler = Handler("python", target="jobs:large")
    campaign = queue.create_campaign(CampaignSpec("/c", handler=handler))
    campaign.add_input(receptor)
    campaign.submit({"length": 200_000})
    run_agent(taskq, tmp_path)
    postgres.execute("update taskq.blob set put_at = put_at - interval '2 days'")
    assert taskq.json("db", "clean") == {"blobs": 0, "sessions": 0, "dry_run": False}
    assert len(list(campaign.results())) == 1
    campaign.remove()
    would = {"blobs": 2, "sessions": 0, "dry_run": True}
    assert taskq.json("db", "clean", "--dry-run") == would
    assert taskq.json("db", "clean") == would | {"dry_run": False}


def test_on_disconnect_is_set_like_other_settings(
    taskq: CommandLine, queue: Client, tmp_path: Path
) -> None:
    """In the specification, the file, and on the command line; shown, and kept by a change."""
    path = tmp_path / "campaign.toml"
    path.write_text('path = "/f"\non_disconnect = "stop"\n[handler]\nkind="command"\nargv=["true"]')
    spec = read_campaign_file(path).spec
    assert spec.on_disconnect == "stop"
    assert CampaignSpec.from_json(spec.to_json()) == spec
    assert queue.create_campaign(spec).spec() == spec
    taskq.out("campaign", "create", "/o", "--on-disconnect", "stop", "--", "true")
    taskq.out("campaign", "change", "/o", "--max-attempts", "7")
    assert taskq.json("campaign", "show", "/o")["on_disconnect"] == "stop"
    taskq.out("campaign", "change", "/o", "--on-disconnect", "continue")
    assert queue.campaign("/o").spec().on_disconnect == "continue"
    with pytest.raises(InvalidCampaign, match="must be one of continue, stop"):
        CampaignSpec("/x", on_disconnect="wait")
