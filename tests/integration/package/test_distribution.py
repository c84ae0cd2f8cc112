"""What is published installs into an empty environment, and works there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import pytest

from taskq_agent.release import DISTRIBUTION
from tests.helpers.paths import ROOT

FOLDERS = {
    "taskq": "taskq",
    "taskq/sql": "sql",
    "taskq_agent": "agents/taskq_agent",
    "taskq_cli": "cli/taskq_cli",
}
EXTRAS = "options.extras_require"


def setup() -> ConfigParser:
    config = ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg")
    return config


def test_messages_name_the_distribution_and_extras_that_exist() -> None:
    """`pip install taskq` brings a stranger's package."""
    config = setup()
    assert config["metadata"]["name"] == DISTRIBUTION
    sources = [
        path
        for folder in ("taskq", "cli/taskq_cli", "agents/taskq_agent")
        for path in (ROOT / folder).rglob("*.py")
    ]
    named = {
        extra
        for path in sources
        for extra in re.findall(
            r"(?:ExtraMissing|with needs)\([^()]*?\"([\w-]+)\"", path.read_text()
        )
    }
    assert named
    assert named <= set(config[EXTRAS])
    assert not [path for path in sources if "pip install 'taskq[" in path.read_text()]


def test_readme_says_which_extra_is_for_whom() -> None:
    text = (ROOT / "README.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    described = {extra.strip("`,") for row in rows for extra in row.split("|")[1].split()}
    assert described == set(setup()[EXTRAS]) - {"docs", "lint", "test"}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make what `make dist` does, without the agent's file, which has tests of its own."""
    folder = tmp_path_factory.mktemp("dist")
    source = folder / "source"
    subprocess.run(["git", "clone", "--quiet", ROOT, source], check=True)
    subprocess.run(
        [sys.executable, "-m", "build", "--quiet", "--outdir", folder, source], check=True
    )
    return folder


@pytest.fixture
def home() -> Iterator[Path]:
    """Return a folder that any user may reach: pytest's are for the user who runs it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "home"


@pytest.mark.thorough
def test_quick_start_works_in_an_empty_environment(dist: Path, home: Path, tmp_path: Path) -> None:
    """From the wheel, which `build` makes of the source archive: that is whole as well."""
    (archive,) = dist.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    programs = tmp_path / "venv" / "bin"
    subprocess.run([programs / "pip", "install", "--quiet", f"{archive}[embedded]"], check=True)
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("TASKQ", "PG"))
    } | {"TASKQ_HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}"}
    if os.getuid() == 0:  # PostgreSQL does not run as root
        environ["TASKQ_RUN_AS"] = os.environ.get("TASKQ_RUN_AS", "nobody")

    def taskq(*arguments: str, given: str = "") -> str:
        return subprocess.run(
            [programs / "taskq", *arguments],
            env=environ,
            cwd=tmp_path,
            input=given,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    try:
        taskq("campaign", "create", "/first", "--", "expr", "2", "*", "{n}")
        taskq("seed", "/first", "-", "--format", "jsonl", given='{"n": 1}\n{"n": 2}\n')
        taskq("agent", "run", "--campaign", "/first", "--until-empty", "--quiet")
        results = [
            json.loads(line) for line in taskq("results", "/first", "-o", "jsonl").splitlines()
        ]
        assert len(results) == 2
    finally:
        taskq("down")


@pytest.mark.thorough
def test_archives_hold_each_file_of_the_product(dist: Path) -> None:
    """One that is forgotten is missed only where taskq does not run from its checkout."""
    tracked = set(
        subprocess.run(
            ["git", "ls-files", *FOLDERS.values()],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
    )
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as members:
        assert tracked <= {name.partition("/")[2] for name in members.getnames()}
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as members:
        held = set(members.namelist())
    for package, folder in FOLDERS.items():
        inside = (name.removeprefix(folder) for name in tracked if name.startswith(f"{folder}/"))
        assert not [name for name in inside if f"{package}{name}" not in held]
