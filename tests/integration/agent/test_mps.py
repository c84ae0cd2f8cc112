"""--mps: NVIDIA's service next to an agent. The daemon is a stand-in, and the device is made up."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from taskq import CampaignSpec, Client, Handler
from taskq_agent import mps
from taskq_agent.resources import Resources
from taskq_agent.room import Grant
from tests.helpers.command_line import TIMEOUT_S, CommandLine
from tests.helpers.paths import ROOT
from tests.helpers.waiting import wait_until

STAND_IN = ROOT / "tests" / "payloads" / "stand_ins" / mps.CONTROL
DEVICE = "GPU-5c0f1e2d-7b1a-4c3e-9d55-0a6b8f2c4e71"
SMI = f"#!/bin/sh\ncase $1 in --query-gpu*) echo '0, {DEVICE}, 40960';; esac\n"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder with the programs of a node that has a made-up device with 40 GiB."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / mps.CONTROL).symlink_to(STAND_IN)
    (programs / "nvidia-smi").write_text(SMI)
    (programs / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("MPS_DIARY", str(tmp_path / "diary"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", DEVICE)
    return tmp_path


def diary(node: Path) -> list[dict[str, Any]]:
    """Return what the stand-in has noted."""
    file = node / "diary"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@contextmanager
def at_work(queue: Client, taskq: CommandLine, node: Path, *words: str) -> Iterator[Popen[str]]:
    """Start an agent with the service and a task that lasts; wait until that runs."""
    script = f'env > "{node}/seen"; mv "{node}/seen" "{node}/begun"; sleep 3600'
    handler = Handler("command", argv=("sh", "-c", script))
    queue.create_campaign(CampaignSpec("/c", handler=handler, gpus=0.25)).seed([{"n": 1}])
    run = ["agent", "run", "--campaign", "/c", "--mps", "--scratch", node / "s", "--stop", "6s"]
    names = ("PATH", "MPS_DIARY", "CUDA_VISIBLE_DEVICES", "MPS_FAULT")
    own = {name: os.environ[name] for name in names if name in os.environ}
    with taskq.process(*run, *words, environment=own) as agent:
        wait_until((node / "begun").exists)
        yield agent


def is_gone(pid: int) -> bool:
    """Return whether a process has ended."""
    return not Path("/proc", str(pid)).exists()


def test_sigterm_ends_the_service_after_the_programs(
    queue: Client, taskq: CommandLine, node: Path
) -> None:
    """They find it, and are kept to their part of the device; its folder goes with it."""
    with at_work(queue, taskq, node, "--grace", "1s") as agent:
        (daemon,) = diary(node)
        agent.send_signal(signal.SIGTERM)
        _, log = agent.communicate(timeout=TIMEOUT_S)
    assert agent.returncode == 0, log
    seen = dict(
        line.split("=", 1) for line in (node / "begun").read_text().splitlines() if "=" in line
    )
    assert seen["CUDA_VISIBLE_DEVICES"] == daemon["CUDA_VISIBLE_DEVICES"] == DEVICE
    for name in ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"):
        assert seen[name] == daemon[name]
        assert Path(seen[name]).parent == node / "s"
    assert seen["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
    assert seen["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=10240M"
    assert diary(node)[1:] == [{"ended": daemon["pid"]}]
    assert is_gone(daemon["pid"])
    assert not Path(daemon["CUDA_MPS_PIPE_DIRECTORY"]).exists()


def test_killed_agent_leaves_no_service(queue: Client, taskq: CommandLine, node: Path) -> None:
    with at_work(queue, taskq, node) as agent:
        (daemon,) = diary(node)
        agent.kill()
        agent.wait(TIMEOUT_S)
        wait_until(lambda: is_gone(daemon["pid"]))
        wait_until(lambda: not Path(daemon["CUDA_MPS_PIPE_DIRECTORY"]).exists())


def test_service_that_does_not_obey_is_killed(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPS_FAULT", "stays")
    with mps.serving(Resources(gpus=(DEVICE,)), node):
        (daemon,) = diary(node)
        monkeypatch.setattr(mps, "_PATIENCE_S", 2.0)
    assert is_gone(daemon["pid"])
    assert mps.PIPES not in os.environ


@pytest.mark.parametrize(
    ("fault", "names", "why"),
    [
        ("dies", (DEVICE,), "nvidia-cuda-mps-control has ended with 1"),
        ("hangs", (DEVICE,), "nvidia-cuda-mps-control is not ready after"),
        ("", ("0", "1"), "CUDA_VISIBLE_DEVICES must name devices by UUID, not 0,1"),
        ("", ("MIG-1", "MIG-2"), "an agent can have MPS for one MIG instance only"),
        ("", (), "this node has no devices of NVIDIA"),
        ("missing", (DEVICE,), "nvidia-cuda-mps-control is not on this node"),
    ],
)
def test_agent_without_the_service_works_on_and_says_why(
    node: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fault: str,
    names: tuple[str, ...],
    why: str,
) -> None:
    """Programs get no variables of it then: they would look for a daemon that is not there."""
    monkeypatch.setenv("MPS_FAULT", fault)
    if fault == "hangs":
        monkeypatch.setattr(mps, "_PATIENCE_S", 2.0)
    if fault == "missing":
        (node / "programs" / mps.CONTROL).unlink()
    with mps.serving(Resources(gpus=names), node):
        assert mps.PIPES not in os.environ
        assert mps.variables(Grant(((DEVICE, 250),))) == {}
    assert f"no MPS, so the work of programs on a device takes turns: {why}" in caplog.text
    assert all(is_gone(noted["pid"]) for noted in diary(node))
    assert not [*node.glob("taskq-mps-*")]


def test_program_with_a_whole_device_has_no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(mps.PIPES, "pipes")
    assert mps.variables(Grant(((DEVICE, 1_000),), 1 << 30)) == {}
    assert mps.variables(Grant(((DEVICE, 125),))) == {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "12.5"}
