"""Modules of a node that hide those of Python: the agent takes its own, payloads keep theirs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from taskq.pilots.agent_file import build
from taskq_agent.protocol import DONE
from tests.helpers.command_line import PROGRAM
from tests.helpers.memory_gateway import TOKEN, gateway_of
from tests.helpers.paths import ROOT
from tests.helpers.threaded_agent import queue_of
from tests.helpers.variants import rest_thorough

OLD = ("typing", "queue", "dataclasses", "json", "logging", "argparse", "random", "enum34", "ssl")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Give a folder with modules that nobody can use."""
    folder = tmp_path / "old"
    folder.mkdir()
    for name in OLD:
        (folder / f"{name}.py").write_text(f"raise SyntaxError('{name} of Python 2')\n")
    (folder / "only_here.py").write_text("WHERE = __file__\n")
    return folder


def environment(old: Path) -> dict[str, str]:
    """Return the environment of a node whose PYTHONPATH begins with that folder."""
    return {**os.environ, "PYTHONPATH": f"{old}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


def file(folder: Path) -> list[str]:
    """Return the words that start the agent as one file."""
    (folder / "taskq-agent.pyz").write_bytes(build())
    return [sys.executable, str(folder / "taskq-agent.pyz")]


STARTS: dict[str, Callable[[Path], list[str]]] = {
    "one file": file,
    "python -m": lambda _: [sys.executable, "-m", "taskq_agent"],
    "taskq-agent": lambda _: [str(PROGRAM.with_name("taskq-agent"))],
}


@pytest.mark.thorough
@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_agent_works_where_old_modules_are_found_first(
    old: Path, tmp_path: Path, start: Callable[[Path], list[str]]
) -> None:
    """By PYTHONPATH, or in the folder where it is started; a payload finds what is there."""
    queue = queue_of(2)
    script = "import sys, only_here; print(only_here.WHERE, sys.path[1:3])"
    argv = [sys.executable, "-c", script]
    queue.campaign = replace(queue.campaign, handler={"kind": "command", "argv": argv})
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    with gateway_of(queue) as gateway:
        words = ["run", "--until-empty", "--token-file", tmp_path / "token", "--gateway"]
        agent = subprocess.run(
            [*start(tmp_path), *map(str, words), gateway.url],
            env=environment(old),
            cwd=old,
            capture_output=True,
            text=True,
            check=False,
        )
    assert agent.returncode == 0, agent.stderr
    assert json.loads(agent.stdout)["done"] == 2
    assert queue.counts() == {DONE: 2}
    result = queue.tasks[1].accepted[-1].result
    assert result is not None
    assert str(result["stdout"]).startswith(f"{old}/only_here.py ['{old}'")


@pytest.mark.thorough
def test_callables_run_where_old_modules_are_found_first(old: Path, tmp_path: Path) -> None:
    """The child that calls them needs modules of its own; the function finds what is there."""
    (tmp_path / "called.py").write_text(
        "import sys\n"
        "def where(payload, shared):\n"
        "    import only_here\n"
        "    return {'at': only_here.WHERE, 'path': sys.path}\n"
    )
    handler = json.dumps({"kind": "python", "target": "called:where"})
    done = subprocess.run(
        [*file(tmp_path), "try", "--handler", handler, "--path", str(tmp_path)],
        env=environment(old),
        cwd=old,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert str(old / "only_here.py") in done.stdout
    path = json.loads(done.stdout)["result"]["path"]
    assert path.index(str(old)) < path.index(os.path.dirname(os.__file__))  # noqa: PTH120


@pytest.mark.parametrize("words", rest_thorough([["agent", "run", "--help"], ["--version"]], 1))
def test_commands_start_where_old_modules_are_found_first(old: Path, words: list[str]) -> None:
    done = subprocess.run(
        [PROGRAM, *words],
        env=environment(old),
        cwd=old,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_modules_that_are_found_only_there_are_found(old: Path) -> None:
    """Such as this package itself, where it is not installed, or a site's packages."""
    script = (
        "import sys; from taskq_agent.import_path import put_own_first; put_own_first(); "
        "import only_here, typing; print(only_here.WHERE, typing.__file__)"
    )
    seen = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(old),
        cwd=ROOT / "agents",
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert seen[0] == str(old / "only_here.py")
    assert not seen[1].startswith(str(old))
