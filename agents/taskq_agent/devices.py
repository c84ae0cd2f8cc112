"""Devices of a node: which ones an agent has, by what names, and how much memory each has.

A name is what `CUDA_VISIBLE_DEVICES` or `ROCR_VISIBLE_DEVICES` takes: a number, a UUID, or a MIG
instance. What the batch system gave is kept as it is. Otherwise devices have their UUIDs, which
mean the same to every program, unlike numbers.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from types import MappingProxyType
from typing import Dict, List, Mapping, NamedTuple, Tuple

CUDA = "CUDA_VISIBLE_DEVICES"
ROCM = "ROCR_VISIBLE_DEVICES"

_NONE = ("-1", "NoDevFiles", "none", "void")
_PATIENCE_S = 30.0
_GPU = re.compile(r"GPU \d+: .*\(UUID: (GPU-[0-9A-Fa-f-]+)\)")
_MIG = re.compile(r"\s+MIG .*\(UUID: (MIG-[0-9A-Za-z/-]+)\)")
_SIZES = re.compile(r"^(\d+), (GPU-[0-9A-Fa-f-]+), (\d+)\s*$", re.MULTILINE)
_MIG_SIZES = re.compile(r"MIG \S*?\.(\d+)gb\S* .*\(UUID: (MIG-[0-9A-Za-z/-]+)\)")
_AMD = re.compile(r"GPU\[\d+\]\s*:.*Unique ID:\s*0x([0-9A-Fa-f]+)")


class Devices(NamedTuple):
    """Devices of one maker. variable: the one that shows a program its own.

    memory: bytes of each device, where they are known, by name.
    """

    names: Tuple[str, ...] = ()
    variable: str = CUDA
    memory: Mapping[str, int] = MappingProxyType({})


def found(environment: Mapping[str, str]) -> Devices:
    """Return the devices that are left to this process."""
    for variable in (CUDA, ROCM):
        if (visible := environment.get(variable)) is not None:
            names = _given(visible)
            sizes = _memory(_output("nvidia-smi", "-L")) if names and variable == CUDA else {}
            return Devices(names, variable, _of(names, sizes))
    listed = _output("nvidia-smi", "-L")
    if names := _listed(listed):
        return Devices(names, CUDA, _of(names, _memory(listed)))
    numbers = [device.name[len("nvidia") :] for device in Path("/dev").glob("nvidia[0-9]*")]
    if numbers := sorted(filter(str.isdecimal, numbers), key=int):
        return Devices(tuple(numbers))
    listed = _output("rocm-smi", "--showuniqueid")
    return Devices(tuple(f"GPU-{name.lower()}" for name in _AMD.findall(listed)), ROCM)


def _memory(listed: str) -> Dict[str, int]:
    """Return the bytes of devices by number and by UUID, and of their parts by UUID.

    A part says its size in its name, in whole GB.
    """
    asked = _output(
        "nvidia-smi", "--query-gpu=index,uuid,memory.total", "--format=csv,noheader,nounits"
    )
    sizes: Dict[str, int] = {}
    for number, uuid, mebibytes in _SIZES.findall(asked):
        sizes[number] = sizes[uuid] = int(mebibytes) << 20
    for gigabytes, uuid in _MIG_SIZES.findall(listed):
        sizes[uuid] = int(gigabytes) * 1_000_000_000
    return sizes


def _of(names: Tuple[str, ...], sizes: Mapping[str, int]) -> Dict[str, int]:
    """Return the sizes of devices that may have shortened UUIDs."""
    known = {}
    for name in names:
        if name.isdecimal():
            fitting = [sizes[name]] if name in sizes else []
        else:
            fitting = [size for uuid, size in sizes.items() if uuid.startswith(name)]
        if len(fitting) == 1:
            known[name] = fitting[0]
    return known


def _given(visible: str) -> Tuple[str, ...]:
    """Return the names in a variable, each once; a program sees none from an invalid one on."""
    names: List[str] = []
    for name in map(str.strip, visible.split(",")):
        if not name or name in _NONE:
            break
        if name not in names:
            names.append(name)
    return tuple(names)


def _listed(text: str) -> Tuple[str, ...]:
    """Return the UUIDs in a list of nvidia-smi: of a device that is divided, those of its parts."""
    found: List[List[str]] = []
    for line in text.splitlines():
        if device := _GPU.match(line):
            found.append([device[1]])
        elif found and (instance := _MIG.match(line)):
            found[-1].append(instance[1])
    return tuple(name for device in found for name in (device[1:] or device))


def _output(*argv: str) -> str:
    """Return what a program prints; empty if it is not there, fails or hangs."""
    program = shutil.which(argv[0])
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode(errors="replace")
