"""What an agent has, and its tags.

Each slot has a share of the cores and the memory. Starts take GPUs and named resources from the
node, see `room`.

An agent has the resources that its affinity, the limits of its cgroups, variables of Slurm and PBS,
and `CUDA_VISIBLE_DEVICES` or `ROCR_VISIBLE_DEVICES` leave to it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterable, Iterator, List, Mapping, Optional, Tuple

from taskq_agent import devices, named_resources
from taskq_agent.protocol import PROTOCOL
from taskq_agent.units import MAX_BYTES

_MEBI = 1 << 20
_GIBI = 1 << 30
_CGROUPS = Path("/sys/fs/cgroup")
#: An agent's own tag. Campaigns require one that is high enough if they use something that earlier
#: agents would ignore: 1 for checkpoints and output files, 2 for results that are checked.
PROTOCOL_TAG = f"protocol={PROTOCOL}"

_MAX_OFFERS = 32
_EXACT_BELOW = 16


@dataclass(frozen=True)
class Resources:
    """What an agent, or one of its slots, has.

    cores: numbers of its own processors; empty if it shares them with others. count: how many cores
    it may count on. memory: in bytes, None if unknown.

    Of the node alone: gpus, names of devices; gpu_variable, from which programs learn of them;
    gpu_memory, bytes of each device where they are known; named, amounts of named resources.
    """

    count: int = 1
    cores: Tuple[int, ...] = ()
    memory: Optional[int] = None
    gpus: Tuple[str, ...] = ()
    gpu_variable: str = devices.CUDA
    gpu_memory: Mapping[str, int] = field(default_factory=dict)
    named: Mapping[str, int] = field(default_factory=dict)

    def share(self, slot: int, slots: int) -> Resources:
        """Return the equal share of one slot, of cores and memory."""
        cores = len(self.cores) // slots
        return Resources(
            count=self.count // slots,
            cores=self.cores[slot * cores : (slot + 1) * cores],
            memory=None if self.memory is None else self.memory // slots,
            gpu_variable=self.gpu_variable,
        )


def found(
    environment: Mapping[str, str],
    cores: Optional[int] = None,
    memory: Optional[int] = None,
    named: Iterable[Tuple[str, int]] = (),
) -> Resources:
    """Return the resources of this process. cores, memory: used instead of what is found.

    named: the named ones; ValueError if they are too many, or a name comes twice. The process has
    cores of its own if `cores` is given or its affinity excludes some.
    """
    allowed = sorted(os.sched_getaffinity(0))
    ours = cores is not None or len(allowed) < (os.cpu_count() or 1)
    counts = _numbers(environment, "SLURM_CPUS_ON_NODE")
    if "PBS_JOBID" in environment:  # elsewhere it may mean anything
        counts += _numbers(environment, "NCPUS")
    count = cores or min([len(allowed), *counts])
    gpus = devices.found(environment)
    return Resources(
        count=count,
        cores=tuple(allowed[:count]) if ours and count <= len(allowed) else (),
        memory=memory or min(_memory_limits(environment), default=None),
        gpus=gpus.names,
        gpu_variable=gpus.variable,
        gpu_memory=gpus.memory,
        named=named_resources.counted(named),
    )


def offers(node: Resources, slots: int, given: Tuple[str, ...]) -> Tuple[str, ...]:
    """Return the tags of an agent: the given ones, and what else a start can have there at most.

    That is a slot's share of the cores and of the memory, all GPUs, and all of a named resource.

    Memory is in GiB, rounded down to steps of about a tenth: agents with the same tags share
    statements, and two machines hardly ever have the same number of bytes.
    """
    given = tuple(tag for tag in given if not named_resources.is_tag(tag))
    share, named = node.share(0, slots), {tag.partition("=")[0] for tag in given}
    also = [*named_resources.tags(node.named)]
    if share.count:
        also.append(f"cores={share.count}")
    if share.memory is not None:
        also.append(f"mem={_stepped(share.memory)}")
    if node.gpus:
        also.append(f"gpus={len(node.gpus)}")
    if node.gpu_memory:
        also.append(f"gpumem={max(node.gpu_memory.values()) // (_GIBI // 8) / 8:g}")
    further = [tag for tag in also if tag.partition("=")[0] not in named]
    return (*given, *further[: max(0, _MAX_OFFERS - len(given))])


def with_protocol(given: Tuple[str, ...]) -> Tuple[str, ...]:
    """Return the tags with the one of this agent's protocol, which users cannot give."""
    others = [tag for tag in given if tag.partition("=")[0] != "protocol"]
    return (*others[: _MAX_OFFERS - 1], PROTOCOL_TAG)


def offered_as(memory: int) -> int:
    """Return the least bytes of a slot whose tag says that it has so many."""
    step = _step(memory)
    return -(-memory // step) * step


def _stepped(memory: int) -> str:
    step = _step(memory)
    return f"{memory // step * step / _GIBI:g}"


def _step(memory: int) -> int:
    """Return the unit in which a tag counts so many bytes."""
    if memory < _GIBI:
        return _GIBI // 8
    step = _GIBI
    while memory >= _EXACT_BELOW * step:
        step *= 2
    return step


def _memory_limits(environment: Mapping[str, str]) -> Iterator[int]:
    with suppress(OSError, ValueError, IndexError):
        line = Path("/proc/meminfo").read_text(encoding="ascii").split("\n", 1)[0]
        yield int(line.split()[1]) << 10
    yield from (size * _MEBI for size in _numbers(environment, "SLURM_MEM_PER_NODE"))
    for each in _numbers(environment, "SLURM_MEM_PER_CPU"):
        yield from (each * cores * _MEBI for cores in _numbers(environment, "SLURM_CPUS_ON_NODE"))
    for file in _limit_files():
        with suppress(OSError, ValueError):
            size = int(file.read_text(encoding="ascii"))
            if 0 < size < MAX_BYTES:
                yield size


def _limit_files() -> List[Path]:
    """Return the files with the limits of our cgroups and those above them, of either version."""
    files: List[Path] = []
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, kinds, path = line.split(":", 2)
            if kinds and "memory" not in kinds.split(","):
                continue
            root = _CGROUPS / "memory" if kinds else _CGROUPS
            name = "memory.limit_in_bytes" if kinds else "memory.max"
            inner = Path(path.lstrip("/"))
            files += [root / folder / name for folder in (inner, *inner.parents)]
    return files


def _numbers(environment: Mapping[str, str], name: str) -> List[int]:
    """Return the number in a variable, if there is one above 0."""
    text = environment.get(name, "")
    return [int(text)] if text.isdecimal() and int(text) > 0 else []
