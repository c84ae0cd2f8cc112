"""One measurement: agents work before gateways for some seconds; their rate and the CPU time."""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks import processes
from benchmarks.gateways import RunningGateways
from benchmarks.load.agent_load import WARM_S, AgentLoad, Seen
from benchmarks.load.work import Credentials, LoadTotals, LoadWork
from taskq.db.connections import Database
from taskq.model.errors import Conflict

US: Final = 1e6


@dataclass(frozen=True, slots=True)
class CpuSpent:
    """CPU seconds. server: all processes of PostgreSQL. clients: what has sent the requests."""

    server: float
    gateways: float
    clients: float


@dataclass(frozen=True, slots=True)
class LoadRun:
    """Result of a measurement of some seconds.

    totals: from its beginning to its end. spent: None if the server is on another machine.
    """

    seen: Seen
    totals: LoadTotals
    spent: CpuSpent | None

    @property
    def cpu_us(self) -> float | None:
        """CPU time of PostgreSQL and gateways for a task, in microseconds."""
        if self.spent is None:
            return None
        return US * (self.spent.server + self.spent.gateways) / self.seen.totals.reported


def run(
    database: Database,
    gateways: RunningGateways,
    work: LoadWork,
    credentials: Sequence[Credentials],
    seconds: float,
    *,
    warm_s: float = WARM_S,
) -> LoadRun:
    """Let agents work for some seconds after a warm-up; all tasks are reported in the end.

    Raise `Conflict` if tasks ran out or anything went wrong: the figure would mean nothing.
    """
    root = processes.server_process(database)
    with AgentLoad(work, gateways.addresses, credentials[: work.agents]) as load:
        load.warm(warm_s)
        before = _spent(root, gateways, load)
        seen = load.watch(seconds)
        after = _spent(root, gateways, load)
        totals = load.deliver()
    check(seen)
    if root is None:
        return LoadRun(seen, totals, None)
    return LoadRun(
        seen, totals, CpuSpent(*(now - then for now, then in zip(after, before, strict=True)))
    )


def check(seen: Seen) -> None:
    """Raise `Conflict` if errors or empty claims make the rate meaningless."""
    if seen.totals.errors:
        raise Conflict(f"the agents met with {seen.totals.errors}, so the figure means nothing")
    if seen.totals.empty:
        raise Conflict("the agents ran out of tasks, so the figure means nothing")


def spent_by_children(measure: Callable[[], float]) -> tuple[float, float]:
    """Return what a measurement returns, and the CPU seconds of the programs that it ran."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = measure()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _spent(
    root: int | None, gateways: RunningGateways, load: AgentLoad
) -> tuple[float, float, float]:
    server = 0.0 if root is None else processes.cpu_s(root)
    return server, processes.cpu_s(*gateways.pids), processes.cpu_s(*load.pids)
