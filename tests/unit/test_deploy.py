"""The files in deploy/ have a form that their programs take."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import subprocess
from pathlib import Path
from string import Template

import pytest

from tests.helpers import conda_recipe
from tests.helpers.deployed_commands import agent_options, taskq_options
from tests.helpers.paths import ROOT

UNITS = sorted((ROOT / "deploy/systemd").glob("*.service"))
SBATCH = ROOT / "deploy/slurm/agents.sbatch"
CONTAINERFILE = ROOT / "deploy/Containerfile"


def command_of(unit: Path) -> list[str]:
    """Return the words that a unit starts."""
    (line,) = re.findall(r"^ExecStart=(.*)", unit.read_text(encoding="utf-8"), re.MULTILINE)
    return shlex.split(line)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_units_start_commands_that_exist(unit: Path) -> None:
    """With options that these have; nothing is run."""
    program, *words = command_of(unit)
    if program == "/usr/bin/python3":
        assert words.pop(0) == "/opt/taskq/taskq-agent.pyz"
        assert agent_options(words)["slots"] == 8
        return
    assert program == "/opt/taskq/bin/taskq"
    taskq_options(words)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_units_hold_no_secret_and_come_back(unit: Path) -> None:
    """Command lines are for all to see; a machine that restarts has its services again."""
    text = unit.read_text(encoding="utf-8")
    assert not re.search(r"ExecStart=.*(postgresql://|tq[ems]_)", text)
    assert "Restart=always\n" in text
    assert "NoNewPrivileges=yes\n" in text
    assert max(map(len, re.findall(r"^#.*", text, re.MULTILINE))) <= 110


def sbatch_options() -> dict[str, str]:
    """Return what the script tells sbatch."""
    lines = SBATCH.read_text(encoding="utf-8").splitlines()
    head = [line for line in lines[: lines.index("")] if line.startswith("#SBATCH ")]
    assert sum(line.startswith("#SBATCH") for line in lines) == len(head), "sbatch reads the head"
    return dict(line.removeprefix("#SBATCH --").split("=", 1) for line in head)


def test_script_for_slurm_is_one_of_bash_and_starts_an_agent() -> None:
    """With options that it has; the array has a thousand slots."""
    subprocess.run(["bash", "-n", SBATCH], check=True)
    text = SBATCH.read_text(encoding="utf-8")
    options = sbatch_options()
    values = {
        "SLURM_ARRAY_JOB_ID": "7",
        "SLURM_ARRAY_TASK_ID": "1",
        "SLURM_CPUS_PER_TASK": options["cpus-per-task"],
    }
    _, command = text.replace("\\\n", " ").split("\nexec ")
    python, file, *words = shlex.split(Template(command).substitute(values))
    assert (python, file) == ("python3", "taskq-agent.pyz")
    given = agent_options(words)
    assert given["until_empty"]
    assert given["idle_timeout_s"] > given["spread_s"]
    first, last = map(int, options["array"].split("-"))
    assert (last - first + 1) * given["slots"] >= 1_000


def test_images_are_made_of_files_that_exist_and_begin_commands() -> None:
    """With extras that taskq has, of stages that are there, and not as root."""
    text = re.sub(r"\\\n\s*", "", CONTAINERFILE.read_text(encoding="utf-8"))
    _, *stages = re.split(r"^FROM \$\{PYTHON\} AS ", text, flags=re.MULTILINE)
    build, *images = stages
    sources = [
        part
        for line in re.findall(r"^COPY (.*) \S+$", build, re.MULTILINE)
        for part in line.split()
    ]
    assert {"setup.cfg", "sql", "taskq"} < set(sources)
    assert [source for source in sources if not (ROOT / source).exists()] == []
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    (extras,) = re.findall(r"'\.\[(.*)\]'", build)
    assert set(extras.split(",")) < set(setup["options.extras_require"])
    made = {"/opt/taskq": "python3 -m venv /opt/taskq ", "/opt/taskq-agent.pyz": "agent_file /opt"}
    programs = {}
    for image in images:
        assert "\nUSER 10001:10001\n" in image
        (source,) = re.findall(r"^COPY --from=build (\S+) \S+$", image, re.MULTILINE)
        assert made[source] in build
        (programs[image.split()[0]],) = re.findall(r"^ENTRYPOINT (.*)$", image, re.MULTILINE)
    assert json.loads(programs["taskq"]) == ["taskq"]
    assert json.loads(programs["agent"]) == ["python3", "/opt/taskq/taskq-agent.pyz"]


def test_recipe_for_conda_is_of_this_release() -> None:
    """With the dependencies and programs of setup.cfg."""
    assert conda_recipe.RECIPE.read_text(encoding="utf-8") == conda_recipe.text(), "`make schema`"
