"""Devices of a node, from made-up nvidia-smi and rocm-smi."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

from taskq_agent import devices
from taskq_agent.devices import CUDA, ROCM, Devices

NVIDIA = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5a1b7c02-3f1e-4f6e-9d5f-0a4b8e6d1c2f)
  MIG 3g.20gb     Device  0: (UUID: MIG-c7384736-a75d-5afc-978f-d2f1294409fd)
  MIG 3g.20gb     Device  1: (UUID: MIG-GPU-a28ad590-3fda-56dd-84fc-0a0b96edc58d/1/0)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-0e9f5e4b-77a2-4b1c-8a3d-2b6c9d7e8f01)
"""
AMD = """\
========================= ROCm System Management Interface =========================
GPU[0]\t\t: Unique ID: 0x18F68E602B8A790F
GPU[1]\t\t: Unique ID: 0x3a6e5b1c0d9f8e72
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the only folder of PATH next to that of cat."""
    (tmp_path / "cat").symlink_to(str(shutil.which("cat")))
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def install(folder: Path, name: str, text: str, code: int = 0) -> None:
    """Put a program there that prints a text."""
    (folder / f"{name}.txt").write_text(text)
    program = folder / name
    program.write_text(f"#!/bin/sh\ncat {folder / name}.txt\nexit {code}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def test_devices_have_the_uuids_that_nvidia_smi_lists(programs: Path) -> None:
    """Those of the parts in place of a device that is divided."""
    install(programs, "nvidia-smi", NVIDIA)
    assert devices.found({}).names == (
        "MIG-c7384736-a75d-5afc-978f-d2f1294409fd",
        "MIG-GPU-a28ad590-3fda-56dd-84fc-0a0b96edc58d/1/0",
        "GPU-0e9f5e4b-77a2-4b1c-8a3d-2b6c9d7e8f01",
    )


def test_devices_of_amd_have_the_names_that_its_runtime_takes(programs: Path) -> None:
    install(programs, "rocm-smi", AMD)
    names = ("GPU-18f68e602b8a790f", "GPU-3a6e5b1c0d9f8e72")
    assert devices.found({}) == Devices(names, ROCM)


@pytest.mark.parametrize("text", ["", "No devices were found\n", "\0\ufffd GPU 0:\n"])
def test_node_whose_program_lists_nothing_has_no_devices(programs: Path, text: str) -> None:
    install(programs, "nvidia-smi", text)
    assert devices.found({}).names == ()
    install(programs, "nvidia-smi", NVIDIA, code=9)
    assert devices.found({}).names == ()


@pytest.mark.parametrize(
    ("variable", "text", "names"),
    [
        (CUDA, "GPU-8f2, MIG-GPU-a28/1/0", ("GPU-8f2", "MIG-GPU-a28/1/0")),
        (CUDA, "0,-1,1", ("0",)),
        (CUDA, "1,1,0", ("1", "0")),
        (CUDA, "", ()),
        (CUDA, "NoDevFiles", ()),
        (ROCM, "0,GPU-18f68e602b8a790f", ("0", "GPU-18f68e602b8a790f")),
    ],
)
def test_devices_that_the_batch_system_gave_are_kept_as_they_are(
    programs: Path, variable: str, text: str, names: tuple[str, ...]
) -> None:
    install(programs, "nvidia-smi", NVIDIA)
    assert devices.found({variable: text}) == Devices(names, variable)


def test_memory_of_devices_is_known_where_nvidia_smi_says_it(programs: Path) -> None:
    """Of a part by its name; of devices that were given by number, or by the beginning of one."""
    text = NVIDIA + "0, GPU-5a1b7c02-3f1e-4f6e-9d5f-0a4b8e6d1c2f, 40960\n"
    install(programs, "nvidia-smi", text + "1, GPU-0e9f5e4b-77a2-4b1c-8a3d-2b6c9d7e8f01, 40000\n")
    part, old_part, whole = devices.found({}).names
    memory = devices.found({}).memory
    assert memory == {part: 20 * 10**9, old_part: 20 * 10**9, whole: 40_000 << 20}
    given = devices.found({CUDA: "0,GPU-0e9f,GPU-7"}).memory
    assert given == {"0": 40_960 << 20, "GPU-0e9f": 40_000 << 20}


@pytest.mark.parametrize("text", ["0, GPU-1, [N/A]\n", "0, GPU-1\n", "\0", "GPU-1, 0, 5\n"])
def test_memory_that_cannot_be_read_is_unknown(programs: Path, text: str) -> None:
    install(programs, "nvidia-smi", text)
    assert devices.found({CUDA: "0"}).memory == {}
