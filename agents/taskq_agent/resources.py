"""What an agent has: cores, memory, GPUs, each slot's share of them, tags, and time.

An agent has the resources that its affinity, the limits of its cgroups, variables of Slurm and PBS,
and `CUDA_VISIBLE_DEVICES` leave to it.

The end of its batch job comes from the environment too. Newer releases of Slurm give the instant
(`SLURM_JOB_END_TIME`; not yet 22.05), Torque the wall time (`PBS_WALLTIME`), HTCondor the longest
time in the job's description (the file that `_CONDOR_JOB_AD` names). For batch systems that give
nothing, such as OpenPBS, LSF and Kubernetes, a job script sets `TASKQ_END_TIME`.
"""

from __future__ import annotations

import logging
import math
import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Optional, Tuple

from taskq_agent.protocol import PROTOCOL
from taskq_agent.settings import AgentSettings
from taskq_agent.text import MAX_BYTES

_MEBI = 1 << 20
_GIBI = 1 << 30
_CGROUPS = Path("/sys/fs/cgroup")
#: An agent's own tag. Campaigns require it if they use something that earlier agents would ignore.
PROTOCOL_TAG = f"protocol={PROTOCOL}"

_MAX_OFFERS = 32
_EXACT_BELOW = 16


@dataclass(frozen=True)
class Resources:
    """What an agent, or one of its slots, has.

    cores: numbers of its own processors; empty if it shares them with others. count: how many cores
    it may count on. memory: in bytes, None if unknown. gpus: as CUDA names them.
    """

    count: int = 1
    cores: Tuple[int, ...] = ()
    memory: Optional[int] = None
    gpus: Tuple[str, ...] = ()

    def share(self, slot: int, slots: int) -> Resources:
        """Return the equal share of one slot."""
        cores, gpus = len(self.cores) // slots, len(self.gpus) // slots
        return Resources(
            count=self.count // slots,
            cores=self.cores[slot * cores : (slot + 1) * cores],
            memory=None if self.memory is None else self.memory // slots,
            gpus=self.gpus[slot * gpus : (slot + 1) * gpus],
        )


def found(
    environment: Mapping[str, str], cores: Optional[int] = None, memory: Optional[int] = None
) -> Resources:
    """Return the resources of this process. cores, memory: used instead of what is found.

    It has cores of its own if `cores` is given or its affinity excludes some.
    """
    allowed = sorted(os.sched_getaffinity(0))
    ours = cores is not None or len(allowed) < (os.cpu_count() or 1)
    counts = _numbers(environment, "SLURM_CPUS_ON_NODE")
    if "PBS_JOBID" in environment:  # elsewhere it may mean anything
        counts += _numbers(environment, "NCPUS")
    count = cores or min([len(allowed), *counts])
    return Resources(
        count=count,
        cores=tuple(allowed[:count]) if ours and count <= len(allowed) else (),
        memory=memory or min(_memory_limits(environment), default=None),
        gpus=_gpus(environment),
    )


def offers(share: Resources, given: Tuple[str, ...]) -> Tuple[str, ...]:
    """Return the tags of an agent: the given ones, and what else each of its slots has.

    Memory is in GiB, rounded down to steps of about a tenth: agents with the same tags share
    statements, and two machines hardly ever have the same number of bytes.
    """
    named = {tag.partition("=")[0] for tag in given}
    also = [f"cores={share.count}"] if share.count else []
    if share.memory is not None:
        also.append(f"mem={_stepped(share.memory)}")
    if share.gpus:
        also.append(f"gpus={len(share.gpus)}")
    further = [tag for tag in also if tag.partition("=")[0] not in named]
    return (*given, *further[: max(0, _MAX_OFFERS - len(given))])


def with_protocol(given: Tuple[str, ...]) -> Tuple[str, ...]:
    """Return the tags with the one of this agent's protocol, which users cannot give."""
    others = [tag for tag in given if tag.partition("=")[0] != "protocol"]
    return (*others[: _MAX_OFFERS - 1], PROTOCOL_TAG)


def _stepped(memory: int) -> str:
    if memory < _GIBI:
        return f"{memory // (_GIBI // 8) / 8:g}"
    whole = memory // _GIBI
    step = 1
    while whole >= _EXACT_BELOW * step:
        step *= 2
    return str(whole // step * step)


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


def _gpus(environment: Mapping[str, str]) -> Tuple[str, ...]:
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        names = (name.strip() for name in visible.split(","))
        return tuple(name for name in names if name and name not in ("-1", "NoDevFiles"))
    numbers = (device.name[len("nvidia") :] for device in Path("/dev").glob("nvidia[0-9]*"))
    return tuple(sorted((number for number in numbers if number.isdecimal()), key=int))


log = logging.getLogger(__name__)

END_VARIABLE = "TASKQ_END_TIME"

_INSTANTS = (END_VARIABLE, "SLURM_JOB_END_TIME")
_WALL_TIMES = ("PBS_WALLTIME",)
_HTCONDOR_AD = "_CONDOR_JOB_AD"
_HTCONDOR_LIMITS = (
    ("JobCurrentStartDate", "AllowedJobDuration"),
    ("JobCurrentStartExecutingDate", "AllowedExecuteDuration"),
)
_AD_LINE = re.compile(r"^(\w+)\s*=\s*(\d+)\s*$", re.MULTILINE)
_MAX_AD_BYTES = 1_048_576
# Slurm writes the end of time for a job without a limit, others zero.
_LONGEST_S = 10 * 365 * 86_400.0
_SHORTEST_LIFE_S = 0.001


def within_batch_job(
    agent: AgentSettings,
    environment: Mapping[str, str],
    *,
    begun: float,
    now: Optional[float] = None,
) -> AgentSettings:
    """Return the settings, with `max_seconds` as the time that it and the batch job leave.

    begun: when this process began; `max_seconds` and wall times without a beginning count from it.
    now: by default the present. Both are seconds since 1970.
    """
    now = time.time() if now is None else now
    ends = dict(_ends(environment, begun, now))
    own = math.inf if agent.max_seconds is None else begun + agent.max_seconds
    name = min(ends, key=ends.__getitem__, default=None)
    if name is not None and ends[name] < own:
        own = ends[name]
        log.info("the batch job ends in %.0f s, says %s", max(own - now, 0), name)
    if own == math.inf:
        return agent
    return replace(agent, max_seconds=max(own - now, _SHORTEST_LIFE_S))


def _ends(environment: Mapping[str, str], begun: float, now: float) -> Iterator[Tuple[str, float]]:
    """Yield each variable that gives the end of the job, with that instant."""
    for name in _INSTANTS:
        end = _seconds(environment.get(name))
        if end is not None and end - now < _LONGEST_S:
            yield name, end
        elif end is None and environment.get(name):
            log.warning("%s is not a time: %.100r", name, environment[name])
    for name in _WALL_TIMES:
        wall_s = _seconds(environment.get(name))
        if wall_s is not None and wall_s < _LONGEST_S:
            yield name, begun + wall_s
    if environment.get(_HTCONDOR_AD):
        ad = _job_ad(Path(environment[_HTCONDOR_AD]))
        for since, limit in _HTCONDOR_LIMITS:
            if limit in ad:
                yield f"{limit} of {_HTCONDOR_AD}", ad.get(since, begun) + ad[limit]


def _seconds(text: Optional[str]) -> Optional[float]:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def _job_ad(file: Path) -> Dict[str, float]:
    """Return the numbers in a job's description; empty if it cannot be read."""
    try:
        with file.open("rb") as stream:
            text = stream.read(_MAX_AD_BYTES).decode("utf-8", "replace")
    except OSError as error:
        log.warning("%s %s cannot be read: %s", _HTCONDOR_AD, file, error.strerror)
        return {}
    return {name: float(digits[:15]) for name, digits in _AD_LINE.findall(text)}
