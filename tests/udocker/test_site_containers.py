"""examples/site-containers, with the paths of a node of its own, in real containers of udocker."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from taskq import Client
from tests.helpers.command_line import PROGRAM, CommandLine
from tests.helpers.paths import ROOT
from tests.helpers.waiting import wait_until

EXAMPLE = ROOT / "examples" / "site-containers"
PATH = "/demo/site-containers"
KEY = "oe-licence-8c1f"
NO_VARIABLE = "this agent passes no OE_LICENSE, unless it has --allow-env OE_LICENSE"
COMMANDS = [
    line.strip()
    for line in (EXAMPLE / "README.md").read_text().splitlines()
    if line.startswith("    ")
]


def test_example_of_site_containers_scores_what_the_site_lets_it(
    queue: Client, taskq: CommandLine, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that allows less refuses the campaign, and says why; its key goes nowhere."""
    site = tmp_path / "scratch" / "site"
    (site / "library").mkdir(parents=True)
    (site / "library" / "weight").write_text("3\n")
    chem = tmp_path / "cvmfs" / "chem.example.org"
    chem.mkdir(parents=True)
    (chem / "scorer").symlink_to(root)
    (chem / "unit").write_text("kcal/mol\n")
    example = tmp_path / "examples" / "site-containers"
    shutil.copytree(EXAMPLE, example)
    described = (example / "campaign.toml").read_text()
    described = described.replace('"/cvmfs', f'"{tmp_path}/cvmfs')
    (example / "campaign.toml").write_text(described.replace('"/scratch', f'"{tmp_path}/scratch'))
    (tmp_path / "ligands.smi").write_text("CCO a\nCCN b\nc1ccccc1 c\n")

    create, add, seed, export, run = COMMANDS
    for command in (create, add, seed):
        words = command.split()[1:]
        taskq.out(*[tmp_path / word if (tmp_path / word).is_file() else word for word in words])
    assert export.startswith("export OE_LICENSE=")
    monkeypatch.setenv("OE_LICENSE", KEY)
    words = run.split()[1:]
    words[words.index("/cvmfs")] = f"{tmp_path}/cvmfs:/cvmfs"
    words[words.index("/scratch/site")] = str(site)
    words += ["--scratch", str(tmp_path / "folders"), "--cache", str(tmp_path / "cache")]

    at = words.index("--allow-env")
    allows_less = [str(PROGRAM), *words[:at], *words[at + 2 :]]
    environment = taskq.environment | {"OE_LICENSE": KEY, "PATH": os.environ["PATH"]}
    with subprocess.Popen(allows_less, env=environment, stderr=subprocess.DEVNULL) as agent:
        try:
            wait_until(lambda: NO_VARIABLE in " ".join(taskq.out("explain", PATH).split()))
        finally:
            agent.terminate()
    taskq.out("campaign", "resume", PATH)
    taskq.out(*words)

    campaign = queue.campaign(PATH)
    found = {task.key: task.result or {} for task in campaign.results()}
    assert {key: result["score"] for key, result in found.items()} == {"a": 9, "b": 9, "c": 24}
    rest = [{**result, "score": 0} for result in found.values()]
    assert rest == [{"score": 0, "unit": "kcal/mol", "bind": "true"}] * 3
    views = ["campaign show", "failures", "history", "logs", "agent list"]
    for view in views:
        task = ["a"] * (view in ("history", "logs"))
        assert KEY not in taskq.out(*view.split(), PATH, *task)
