"""A program that is there, and yet cannot be started: the error names the reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from taskq_agent.http.connections import Dialer
from taskq_agent.http.gateways import GatewayList
from taskq_agent.self_test import CHECKS, Node, Unfit
from tests.helpers.slot_harness import SlotHarness, command


def script(folder: Path, content: bytes) -> Path:
    """Write an executable file."""
    file = folder / "dock.sh"
    file.write_bytes(content)
    file.chmod(0o755)
    return file


UNSTARTABLE = pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"#!/opt/no/such/perl -w\necho\n", "'/opt/no/such/perl' in its first line, is not there"),
        (b"#! /no/python\n", "'/no/python' in its first line, is not there"),
        (b"#!/bin/sh\r\necho\r\n", "CR LF, so the kernel looks for '/bin/sh\\r'"),
        (b"#!/etc/passwd\n", "'/etc/passwd' in its first line, cannot be executed"),
        (b"#!\n", "names no interpreter"),
        (b"echo without a first line\n", "not #!INTERPRETER"),
    ],
)


@UNSTARTABLE
def test_error_names_what_keeps_a_script_from_being_started(
    slot: SlotHarness, tmp_path: Path, content: bytes, reason: str
) -> None:
    """Not that it was not found: it is there."""
    program = script(tmp_path, content)
    ended = slot.run(command(str(program)))
    assert ended.error_class == "command-not-executable"
    assert f"{str(program)!r} is there, but" in str(ended.error)
    assert reason in str(ended.error)


def test_program_on_path_without_its_mode_is_not_reported_as_missing(
    slot: SlotHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost mode needs another repair than a missing program."""
    (tmp_path / "dock-19").write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    ended = slot.run(command("dock-19"))
    assert (ended.refused, ended.error_class) == (True, "command-not-executable")
    assert f"Permission denied: '{tmp_path}/dock-19'" in str(ended.error)


def test_interpreter_that_cannot_even_be_looked_at_is_named(
    slot: SlotHarness, tmp_path: Path
) -> None:
    """As one in a folder that the agent may not enter: a link to a name that is too long."""
    place = tmp_path / "perl"
    place.symlink_to("x" * 300)
    ended = slot.run(command(str(script(tmp_path, f"#!{place}\n".encode()))))
    assert ended.error_class == "command-not-executable"
    assert f"its interpreter, {str(place)!r} in its first line, is not there" in str(ended.error)


def test_script_on_path_is_looked_at_too(
    slot: SlotHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is the campaign's, the file the one that PATH leads to."""
    script(tmp_path, b"#!/no/python\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    ended = slot.run(command("dock.sh"))
    assert "'dock.sh' is there, but its interpreter, '/no/python'" in str(ended.error)


@pytest.mark.parametrize(("code", "reason"), [(127, "is not found"), (126, "cannot be executed")])
def test_cr_lf_is_named_where_it_is_env_that_fails(
    slot: SlotHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, reason: str
) -> None:
    """`env` is started, and finds no `sh` with a CR in its name: in no folder, or none it may read.

    GNU's says 126 where a folder of PATH may not be searched; a file in its place is like that.
    """
    program = script(tmp_path, b"#!/usr/bin/env sh\r\nexit 0\r\n")
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sh\r").write_text("not executable")
    monkeypatch.setenv("PATH", f"{hidden}:/usr/bin:/bin" if code == 126 else "/usr/bin:/bin")
    ended = slot.run(command(str(program)))
    assert (ended.error_class, ended.exit_code) == (f"exit-{code}", code)
    assert f"as when a program {reason}: its first line ends in CR LF" in str(ended.error)
    assert "looks for 'sh\\r'" in str(ended.error)


@pytest.mark.skipif(sys.platform != "linux", reason="the loader is an ELF program's")
def test_program_of_another_system_is_not_reported_as_missing(
    slot: SlotHarness, tmp_path: Path
) -> None:
    """For the kernel, a missing loader is a missing file."""
    data = Path("/bin/true").resolve().read_bytes()
    found = next((name for name in (b"/lib64/ld-linux", b"/lib/ld-linux") if name in data), None)
    if found is None:
        pytest.skip("/bin/true names no loader")
    program = script(tmp_path, data.replace(found, found[:-5] + b"other"))
    ended = slot.run(command(str(program)))
    assert "is there, but the loader that it names is missing" in str(ended.error)


def test_test_of_a_site_is_explained_alike(tmp_path: Path) -> None:
    """`--self-test` with such a script says what is the matter with it."""
    program = script(tmp_path, b"#!/no/python\n")
    gateways = GatewayList(["https://localhost:1"])
    node = Node(tmp_path, gateways, Dialer(), [str(program)])
    with pytest.raises(Unfit, match="is there, but its interpreter, '/no/python'"):
        dict(CHECKS)["the site's own test"](node)


def test_try_says_it_as_well(tmp_path: Path) -> None:
    """Who debugs a payload sees the reason, and the code for a node that cannot do it."""
    handler = json.dumps(command(str(script(tmp_path, b"#!/bin/sh\r\n"))))
    done = subprocess.run(
        [sys.executable, "-m", "taskq_agent", "try", "--handler", handler],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "CR LF" in json.loads(done.stdout)["error"], done.stderr
