"""Poses: SDF of results, with the molecules that their tasks have left."""

from __future__ import annotations

import importlib.util
import os
import signal
from pathlib import Path

import pytest

from taskq import Campaign, CampaignSpec, Client, Seed
from taskq.files.archives import Outputs
from taskq.model.errors import UsageError
from taskq.results import poses
from taskq.results.poses import Converter
from taskq.results.sdf import NoMolecule
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.molecules import PDBQT, mol_block, read, titles
from tests.helpers.postgres import Postgres
from tests.helpers.task_archives import fill

pytestmark = pytest.mark.both_transports

PARACETAMOL = "CC(=O)Nc1ccc(O)cc1"
ETHANOL = mol_block("CCO").encode()


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign that keeps output files."""
    return queue.create_campaign(CampaignSpec("/c", output_bytes=1_000_000))


def test_best_results_become_an_sdf_file(
    taskq: CommandLine, queue: Client, campaign: Campaign, hire: Hire, tmp_path: Path
) -> None:
    """Poses as docking leaves them, best first; columns are chosen as in other formats."""
    poses = {"a": {"log": b"", "pose.pdbqt": PDBQT.encode()}, "b": {"d/x.SDF": ETHANOL}}
    fill(campaign, hire, {**poses, "c": {"pose.sdf": ETHANOL}})
    below = queue.create_campaign(CampaignSpec("/c/d", output_bytes=20_000))
    fill(below, hire, {"e": {"x.mol": ETHANOL, "ligand.pdbqt": PDBQT.encode()}})
    to = tmp_path / "hits.sdf"
    words = ["--best", 3, "--by", "result.score", "--lowest"]
    ended = taskq("export", "/c", *words, "--to", to)
    assert (ended.exit_code, ended.stderr) == (0, f"3 results of /c written to {to}.\n")
    assert read(to.read_bytes()) == [
        (PARACETAMOL, {"campaign": "/c", "key": "a", "score": "0"}),
        ("CCO", {"campaign": "/c/d", "key": "e", "score": "0"}),
        ("CCO", {"campaign": "/c", "key": "b", "score": "1"}),
    ]
    assert titles(to.read_bytes()) == ["a", "e", "b"]
    words = ["-o", "sdf", "--columns", "id=key,s=result.score", "--no-below", "--pose", "*.SDF"]
    out = taskq("export", "/c", *words)
    assert read(out.stdout.encode()) == [("CCO", {"id": "b", "s": "1"})]
    assert out.stderr == (
        "Warning: left out: 2 results without a molecule; "
        "task 'a': it has left no pose, only: log, pose.pdbqt.\n"
    )


@pytest.mark.thorough
def test_results_without_a_molecule_are_counted_or_refused(
    taskq: CommandLine, campaign: Campaign, hire: Hire, tmp_path: Path
) -> None:
    """Whatever is wrong with them; a file appears only when it is complete."""
    fill(
        campaign,
        hire,
        {
            "none": None,
            "two": {"a.sdf": ETHANOL, "b.sdf": ETHANOL},
            "torn": {"a.sdf": ETHANOL[:200]},
            "noise": {"a.sdf": b"\xff\0\x1b[2J" * 100},
            "no bonds": {"a.pdbqt": PDBQT.replace("REMARK SMILES", "REMARK").encode()},
            "hostile": {"a.pdbqt": f"REMARK SMILES {'(' * 100_000}\nROOT\n".encode()},
            "good": {"a.pdbqt": PDBQT.encode()},
        },
    )
    to = tmp_path / "hits.sdf"
    ended = taskq("export", "/c", "--to", to)
    assert ended.exit_code == 0
    assert "left out: 6 results without a molecule; task 'none'" in ended.stderr
    assert f"1 result of /c written to {to}" in ended.stderr
    assert [fields["key"] for _, fields in read(to.read_bytes())] == ["good"]
    to.write_text("old")
    code, error = taskq.refused("export", "/c", "--to", to, "--on-missing", "fail")
    assert (code, "task 'none'" in error) == (66, True)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
    words = ["--pose", "b.sdf", "-o", "sdf"]
    assert read(taskq("export", "/c", *words).stdout.encode())[0][1]["key"] == "two"


@pytest.mark.thorough
def test_molecule_may_be_in_a_field(taskq: CommandLine, campaign: Campaign, hire: Hire) -> None:
    """Of the result, or of a payload that was seeded from SDF."""
    campaign.seed([Seed({"molblock": mol_block("CCO", "mine")}, "a"), Seed({}, "b")])
    agent = hire()
    for task in agent.claim(2):
        agent.done(task, {"pose": PDBQT, "key": "forged"})
    out = taskq("export", "/c", "-o", "sdf", "--pose-field", "payload.molblock", "--columns", "key")
    assert titles(out.stdout.encode()) == ["mine"]
    assert "left out: 1 result" in out.stderr
    out = taskq("export", "/c", "-o", "sdf", "--pose-field", "result.pose")
    assert [fields["key"] for _, fields in read(out.stdout.encode())] == ["a", "b"]
    for words in (
        ["-o", "csv", "--pose", "x"],
        ["-o", "jsonl", "--on-missing", "fail"],
        ["-o", "sdf", "--pose", "x", "--pose-field", "result.pose"],
        ["-o", "sdf", "--follow"],
    ):
        assert taskq.refused("export", "/c", *words)[0] == 2


def test_files_that_are_lost_cost_their_result_alone(
    taskq: CommandLine, queue: Client, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Here since the store of blobs does not have them."""
    fill(campaign, hire, {"a": {"x.sdf": ETHANOL}, "b": {"x.sdf": ETHANOL}})
    (first, _) = campaign.results()
    lost = Outputs(queue.queries).find(campaign.campaign_id, [first.task_id])[first.task_id]
    postgres.execute(
        "update taskq.blob set complete = false where digest = decode(%s, 'hex')", [lost.digest]
    )
    out = taskq("export", "/c", "-o", "sdf")
    assert [fields["key"] for _, fields in read(out.stdout.encode())] == ["b"]
    assert "left out: 1 result without a molecule; task 'a'" in out.stderr


@pytest.mark.thorough
def test_conversion_goes_on_after_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which a pose may kill, or occupy for too long."""
    converter = Converter()
    assert converter.mol_block(PDBQT * 2).startswith("\n     RDKit")
    process = converter._process  # noqa: SLF001  # what a pose may crash
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    monkeypatch.setattr(poses, "CONVERT_S", 0.1)
    with pytest.raises(NoMolecule, match="took too long"):
        converter.mol_block(PDBQT)
    assert process.returncode is not None
    monkeypatch.setattr(poses, "CONVERT_S", 60.0)
    assert converter.mol_block(PDBQT).startswith("\n     RDKit")
    converter.close()
    with pytest.raises(NoMolecule, match="longer than"):
        converter.mol_block("REMARK" * 1_000_000)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install .*\[poses\]"):
        converter.mol_block(PDBQT)
