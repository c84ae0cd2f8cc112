"""Arithmetic of capacity planning: requests of agents, and the share of the server they take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from taskq.direct import LEASE_S
from taskq.errors import UsageError

DAY_S: Final = 86_400
BEAT_S: Final = LEASE_S / 4
AMGA_ACCESSES: Final = 10
"""Catalogue accesses for a docking in the study with AMGA, each a request of its own."""

# Defaults for a task's whole life, in bytes: the project's goal for WAL, and the disk space of a
# payload of 100 bytes with its indexes.
WAL_BYTES: Final = 1_200.0
DISK_BYTES: Final = 700.0


@dataclass(frozen=True, slots=True)
class Measured:
    """Measured rates: tasks and calls a second, and bytes for a task's whole life.

    calls_per_s: exchanges of few tasks; a heartbeat counts as one, though it costs less.
    """

    tasks_per_s: float | None = None
    calls_per_s: float | None = None
    wal_bytes: float = WAL_BYTES
    disk_bytes: float = DISK_BYTES


@dataclass(frozen=True, slots=True)
class Need:
    """Load to plan for: agents that run one task at a time, of `task_s` seconds each.

    batch: tasks that an agent claims and reports at once. tasks: size of the campaign, if known.
    """

    agents: int
    task_s: float
    batch: int = 1
    tasks: int | None = None


@dataclass(frozen=True, slots=True)
class Capacity:
    """Result of the computation.

    amga_per_s: requests that the same agents would make to AMGA. task_share, beat_share: shares of
    the server's time for tasks and heartbeats, together 0 to 1 or more; most_agents: number of
    agents that the server can serve. All three None without a measurement. duration_s: of the
    campaign; None if its size is not known.
    """

    tasks_per_s: float
    exchanges_per_s: float
    beats_per_s: float
    amga_per_s: float
    measured_per_s: float | None
    task_share: float | None
    beat_share: float | None
    most_agents: int | None
    duration_s: float | None
    tasks_per_day: float
    wal_bytes_per_day: float
    disk_bytes_per_day: float

    @property
    def share(self) -> float | None:
        """Share of the server's time that all requests take."""
        if self.task_share is None or self.beat_share is None:
            return None
        return self.task_share + self.beat_share


def capacity(need: Need, measured: Measured) -> Capacity:
    """Return the capacity that a need takes on a server with these measured rates."""
    tasks_per_s = need.agents / need.task_s
    beats_per_s = need.agents / BEAT_S
    task_share = beat_share = most_agents = None
    if measured.tasks_per_s is not None:
        task_share = tasks_per_s / measured.tasks_per_s
        beat_share = beats_per_s / (measured.calls_per_s or measured.tasks_per_s / need.batch)
        most_agents = int(need.agents / (task_share + beat_share))
    return Capacity(
        tasks_per_s=tasks_per_s,
        exchanges_per_s=tasks_per_s / need.batch,
        beats_per_s=beats_per_s,
        amga_per_s=tasks_per_s * AMGA_ACCESSES,
        measured_per_s=measured.tasks_per_s,
        task_share=task_share,
        beat_share=beat_share,
        most_agents=most_agents,
        duration_s=None if need.tasks is None else need.tasks / tasks_per_s,
        tasks_per_day=tasks_per_s * DAY_S,
        wal_bytes_per_day=tasks_per_s * DAY_S * measured.wal_bytes,
        disk_bytes_per_day=tasks_per_s * DAY_S * measured.disk_bytes,
    )


def from_bench(report: Mapping[str, Any], batch: int) -> Measured:
    """Return what `make bench` with --json found; raise `UsageError` if the rate is not in it.

    For a batch of 100 and more the rate is that of batches, for smaller ones that of single tasks,
    which they exceed.
    """
    case, how = ("batches", "batches") if batch >= 100 else ("one-row", "one at a time")  # noqa: PLR2004  # what the case measures
    findings = report.get("findings")
    if not isinstance(findings, list):
        raise UsageError("this is no file of `make bench` with --json")
    rate = _ours(findings, case, "tasks/s")
    if not rate:
        raise UsageError(f"the benchmark's file has no figure of the case {case!r}; run it too")
    return Measured(
        rate,
        _ours(findings, "one-row", "tasks/s"),
        _ours(findings, "wal", "bytes", f"log of a task's life, {how}") or WAL_BYTES,
        _ours(findings, "wal", "bytes", f"disk for a task, {how}") or DISK_BYTES,
    )


def _ours(findings: Iterable[Any], case: str, unit: str, what: str = "") -> float | None:
    for one in findings:
        if (
            isinstance(one, dict)
            and (one.get("case"), one.get("unit")) == (case, unit)
            and str(one.get("what", "")).startswith(what)
            and isinstance(one.get("ours"), (int, float))
        ):
            return float(one["ours"])
    return None
