"""Memory of devices that attempts have, by a made-up nvidia-smi."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskq_agent.handlers import device_memory
from taskq_agent.handlers.device_memory import DeviceMemory
from taskq_agent.protocol import DONE
from taskq_agent.resources import Resources
from tests.helpers.meanwhile import meanwhile
from tests.helpers.slot_harness import SlotHarness, command, shell, slot_in
from tests.helpers.waiting import wait_until

GIB = 1 << 30
#: Runs do not give it back.
DEVICE = {"gpus": 0.05}
#: Has a child that has the device too; both leave when a file is there.
PROGRAM = """
import os, time
os.fork()
open("{0}/there-%d" % os.getpid(), "w").close()
while not os.path.exists("{0}/go"): time.sleep(0.02)
"""


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the place of the program, which is asked anew at each look."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(device_memory, "shared", DeviceMemory())
    monkeypatch.setattr(device_memory, "_PAUSE_S", 0.0)
    monkeypatch.setattr(device_memory, "_MAX_SHARE", 1.0)
    return folder / "nvidia-smi"


@pytest.fixture
def slot(smi: Path) -> Iterator[SlotHarness]:
    """Give a slot of an agent with a made-up device."""
    with slot_in(smi.parents[1], grace_s=1, node=Resources(gpus=("GPU-a",))) as harness:
        yield harness


def install(smi: Path, script: str) -> None:
    """Put a program there that notes each call."""
    smi.write_text(f'#!/bin/sh\necho "$@" >> {smi}.calls\n{script}\n')
    smi.chmod(0o755)


def calls(smi: Path) -> list[str]:
    """Return how the program was called."""
    noted = Path(f"{smi}.calls")
    return noted.read_text().splitlines() if noted.exists() else []


def of_each(folder: Path, *lines: str) -> str:
    """Return a script that prints these lines for each process of the attempt."""
    said = "; ".join(f'echo "{line}"' for line in lines)
    return f"for file in {folder}/there-*; do pid=${{file##*-}}; {said}; done"


def release(slot: SlotHarness, folder: Path, least: int) -> None:
    """Let the attempt end once the meter has seen so much."""
    meter = slot.runner._watch.meter  # type: ignore[attr-defined]  # noqa: SLF001 - what it has now
    wait_until(lambda: meter.used().get("gpu_peak_bytes", 0) >= least)
    (folder / "go").touch()


def test_peak_of_an_attempt_sums_its_processes_on_all_devices(
    slot: SlotHarness, smi: Path, tmp_path: Path
) -> None:
    """Not those of others; what cannot be read does not count."""
    install(smi, of_each(tmp_path, "$pid, 1024", "$pid, 512") + "\necho '1, 9000'; echo '7, [N/A]'")
    program = command(sys.executable, "-c", PROGRAM.format(tmp_path))

    def see(_: threading.Event) -> None:
        release(slot, tmp_path, 3 * GIB)

    with meanwhile(see):
        ended = slot.run(program, resources=DEVICE)
    assert (ended.outcome, ended.phases["gpu_peak_bytes"]) == (DONE, 3 * GIB)
    assert {*calls(smi)} == {"--query-compute-apps=pid,used_memory --format=csv,noheader,nounits"}


def test_program_that_hangs_keeps_nothing_waiting(
    slot: SlotHarness, smi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not asked a second time meanwhile; when it has been killed, the next one counts."""
    monkeypatch.setattr(device_memory, "_PATIENCE_S", 1_000.0)
    install(smi, f"echo $$ > {tmp_path}/hung; exec sleep 3600")
    waiting = shell(f"while [ ! -s {tmp_path}/hung ]; do sleep 0.02; done")
    for _ in range(2):
        ended = slot.run(waiting, resources=DEVICE)
        assert ended.outcome == DONE
        assert "gpu_peak_bytes" not in ended.phases
    assert len(calls(smi)) == 1
    install(smi, of_each(tmp_path, "$pid, 2048"))
    os.kill(int((tmp_path / "hung").read_text()), 9)

    def see(_: threading.Event) -> None:
        release(slot, tmp_path, 4 * GIB)

    with meanwhile(see):
        ended = slot.run(command(sys.executable, "-c", PROGRAM.format(tmp_path)), resources=DEVICE)
    assert ended.phases["gpu_peak_bytes"] == 4 * GIB


def test_program_that_does_not_answer_is_killed(
    smi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(device_memory, "_PATIENCE_S", 0.5)
    install(smi, f"mkfifo {tmp_path}/never; cat {tmp_path}/never")
    assert device_memory.shared.of([os.getpid()], 0.0) == 0
    wait_until(lambda: "does not answer" in caplog.text)
    install(smi, f"echo '{os.getpid()}, 1024'")
    wait_until(lambda: device_memory.shared.of([os.getpid()], 0.0) == GIB)


def test_attempt_without_a_device_asks_nobody(slot: SlotHarness, smi: Path) -> None:
    install(smi, "")
    assert slot.run(shell("sleep 1")).outcome == DONE
    assert calls(smi) == []


def test_answer_from_before_an_attempt_does_not_count(smi: Path) -> None:
    """A child that stays has the numbers of its process for several attempts."""
    install(smi, f"echo '{os.getpid()}, 1024'")
    memory = DeviceMemory()
    wait_until(lambda: memory.of([os.getpid()], 0.0) == GIB)
    assert memory.of([os.getpid()], float("inf")) == 0


def test_node_without_the_program_has_no_figures(
    smi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(smi.parent))
    memory = DeviceMemory()
    memory.of([1], 0.0)
    wait_until(lambda: memory._asked_at > 0)  # noqa: SLF001 - it has looked
    assert memory.of([1], 0.0) == 0
