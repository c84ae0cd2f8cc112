"""Load clients: each reports its last tasks and claims the next ones in one exchange.

They do the full work of agents: each report is fenced and has a result, the attempt is recorded,
and the counts are kept.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing.synchronize
import time
import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.queues import SimpleQueue
from typing import Any, Final

from benchmarks.load.process_group import ProcessGroup, run_process
from taskq.db.connections import Database
from taskq.dispatch.batching import Batcher
from taskq.dispatch.direct import DirectTransport
from taskq.dispatch.fair_share import Scope
from taskq.model.errors import Conflict
from taskq.planning.trial import CAMPAIGN
from taskq_agent.lease_ids import LeaseIds
from taskq_agent.protocol import DONE, Hello, Report, Request, Task

READY_S: Final = 60.0
DRY_S: Final = 0.01
LEASE_S: Final = 86_400.0
"""Longer than any measurement, so that the clients need no heartbeats."""
RESULT: Final = {"score": -9.1}


@dataclass(frozen=True, slots=True)
class Load:
    """Number of processes, and of clients (asyncio tasks) in each.

    want: tasks in an exchange. path: the campaign to serve, with those below it.
    outcomes: outcomes of attempts, in turn. batched: whether the clients of a process share
    connections and their exchanges share statements; otherwise each has a connection of its own.
    pooled: whether the address is that of a pooler.
    """

    processes: int
    clients: int
    want: int
    path: str
    outcomes: tuple[str, ...] = (DONE,)
    batched: bool = False
    pooled: bool = False

    @property
    def total(self) -> int:
        """Number of clients in all processes."""
        return self.processes * self.clients


#: 8 clients, one task at a time, whose exchanges share statements.
BATCHED: Final = Load(1, 8, 1, CAMPAIGN, batched=True)


@dataclass(frozen=True)
class _Board:
    """Shared memory of the processes; each client writes only its own element.

    completed: attempts reported. dry: whether a claim found no task. stop: 1 ends the clients.
    """

    completed: Any
    dry: Any
    stop: Any


@dataclass(frozen=True)
class _SharedState:
    """State that a process shares with its parent."""

    board: _Board
    ready: multiprocessing.synchronize.Barrier
    troubles: SimpleQueue[str]


class Clients(ProcessGroup):
    """Clients at work; the block begins when each of them holds its first tasks."""

    who = "clients"

    def __init__(self, database: Database, load: Load) -> None:
        super().__init__(load.processes, READY_S)
        context = self.context
        self._board = _Board(
            context.RawArray("q", load.total),
            context.RawArray("b", load.total),
            context.RawValue("b", 0),
        )
        for number in range(load.processes):
            shared = _SharedState(self._board, self.ready, self.troubles)
            self.add(_process, database.dsn, load, number, shared)

    def completed(self) -> int:
        """Return how many attempts have been reported."""
        return sum(self._board.completed)

    def check_fed(self) -> None:
        """Raise as `check` does, and `Conflict` if a claim has found no task."""
        self.check()
        if any(self._board.dry):
            raise Conflict("the clients ran out of tasks, so the figure means nothing")

    def rate(self, seconds: float) -> float:
        """Return the tasks completed a second; raise `Conflict` if a client ran out of tasks."""
        before, began = self.completed(), time.perf_counter()
        time.sleep(seconds)
        after, ended = self.completed(), time.perf_counter()
        self.check_fed()
        return (after - before) / (ended - began)

    def stop(self) -> None:
        """Signal the clients to stop."""
        self._board.stop.value = 1


def rate(database: Database, load: Load, seconds: float) -> float:
    """Return the tasks completed a second, by all clients together."""
    with Clients(database, load) as clients:
        return clients.rate(seconds)


@contextmanager
def session(database: Database, path: str) -> Iterator[tuple[DirectTransport, int]]:
    """Open a session that outlives any measurement without heartbeats; end it afterwards."""
    transport = DirectTransport(database, lease_s=LEASE_S)
    opened = transport.open(_hello(path)).session
    try:
        yield transport, opened
    finally:
        transport.close(opened)


def _hello(path: str) -> Hello:
    return Hello(str(uuid.uuid4()), path, "bench", "bench", 0, "", 1, "")


def _process(dsn: str, load: Load, number: int, shared: _SharedState) -> None:
    def work() -> None:
        asyncio.run(_clients(dsn, load, number * load.clients, shared))

    run_process(work, shared.ready, shared.troubles)


async def _clients(dsn: str, load: Load, first: int, shared: _SharedState) -> None:
    """Run the clients of one process."""
    database = Database(dsn)
    scope = Scope(load.path)
    async with AsyncExitStack() as opened:
        transport = DirectTransport(database, lease_s=LEASE_S)
        batcher = await opened.enter_async_context(Batcher(database))
        clients = []
        for place in range(first, first + load.clients):
            if not load.batched:
                batcher = await opened.enter_async_context(Batcher(database, connections=1))
            mine = transport.open(_hello(load.path)).session
            clients.append(_Client(batcher, scope, mine, load, place))
        transport.close(0)  # closes the connections; the sessions stay open
        await asyncio.gather(*(client.begin() for client in clients))
        await asyncio.to_thread(shared.ready.wait, READY_S)
        await asyncio.gather(*(client.work(shared.board) for client in clients))


@dataclass(slots=True)
class _Client:
    """One client: reports and claims in one exchange; never holds more than `want` tasks."""

    batcher: Batcher
    scope: Scope
    session: int
    load: Load
    place: int
    lease_ids: LeaseIds = field(default_factory=LeaseIds)
    tasks: tuple[Task, ...] = ()

    async def begin(self) -> None:
        """Claim, report and claim once, so that the connection has prepared its statements."""
        outcomes = itertools.cycle(self.load.outcomes)
        for _ in range(3):
            await self._turn(outcomes)

    async def work(self, board: _Board) -> None:
        """Report and claim until the board signals the end."""
        outcomes = itertools.cycle(self.load.outcomes)
        while not board.stop.value:
            if not self.tasks:
                board.dry[self.place] = 1
                await asyncio.sleep(DRY_S)
            board.completed[self.place] += await self._turn(outcomes)

    async def _turn(self, outcomes: Iterator[str]) -> int:
        reports = tuple(
            Report(task.campaign, task.task, task.lease, next(outcomes), result=RESULT)
            for task in self.tasks
        )
        request = Request(
            self.session, reports=reports, want=self.load.want, lease=self.lease_ids()
        )
        self.tasks = (await self.batcher.exchange(request, self.scope)).tasks
        return len(reports)
