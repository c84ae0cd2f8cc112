"""The files in deploy/ have a form that their programs take."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from taskq_agent.__main__ import _parser
from taskq_cli.main import main

ROOT = Path(__file__).resolve().parents[2]
UNITS = sorted((ROOT / "deploy/systemd").glob("*.service"))
PROGRAM = Path(sys.executable).with_name("taskq")
ANALYZE = shutil.which("systemd-analyze")


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
        assert _parser().parse_args(words).slots == 8
        return
    assert program == "/opt/taskq/bin/taskq"
    command: click.Command = main
    context = click.Context(main, info_name="taskq", **main.context_settings)
    while isinstance(command, click.Group):
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found is not None, name
        command, context = found, click.Context(found, parent=context, info_name=name)
    options = {text for one in command.params for text in one.opts}
    assert {word for word in words if word.startswith("--")} <= options


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_units_hold_no_secret_and_come_back(unit: Path) -> None:
    """Command lines are for all to see; a machine that restarts has its services again."""
    text = unit.read_text(encoding="utf-8")
    assert not re.search(r"ExecStart=.*(postgresql://|tq[ems]_)", text)
    assert "Restart=always\n" in text
    assert "NoNewPrivileges=yes\n" in text
    assert max(map(len, re.findall(r"^#.*", text, re.MULTILINE))) <= 110


@pytest.mark.skipif(ANALYZE is None, reason="systemd is not installed here")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_takes_the_units(unit: Path, tmp_path: Path) -> None:
    """As `systemd-analyze verify` judges, with programs that are there."""
    text = unit.read_text(encoding="utf-8").replace("/opt/taskq/bin/taskq", str(PROGRAM))
    (tmp_path / unit.name).write_text(text.replace("User=taskq", "User=root"))
    done = subprocess.run(
        [str(ANALYZE), "verify", "--man=no", str(tmp_path / unit.name)],
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if unit.name in line]
    assert (done.returncode, ours) == (0, [])
