"""One measurement: agents work before gateways for some seconds; their rate and the CPU time."""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from typing_extensions import Self

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

    @classmethod
    def so_far(cls, root: int | None, gateways: RunningGateways, load: AgentLoad) -> Self:
        """Return what they have spent so far. root: PostgreSQL's first process, if it is here."""
        server = 0.0 if root is None else processes.cpu_s(root)
        return cls(server, processes.cpu_s(*gateways.pids), processes.cpu_s(*load.pids))

    def since(self, before: CpuSpent) -> CpuSpent:
        """Return what they have spent since."""
        return CpuSpent(
            self.server - before.server,
            self.gateways - before.gateways,
            self.clients - before.clients,
        )

    def of_each(self, count: int) -> str:
        """Return in a few words what each of some requests or agents has cost."""
        gateways, server = US * self.gateways / count, US * self.server / count
        return f"CPU for each: {gateways:,.0f} µs of gateways, {server:,.0f} µs of PostgreSQL"


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
        before = CpuSpent.so_far(root, gateways, load)
        seen = load.watch(seconds)
        spent = CpuSpent.so_far(root, gateways, load).since(before)
        totals = load.deliver()
    check(seen)
    return LoadRun(seen, totals, None if root is None else spent)


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
