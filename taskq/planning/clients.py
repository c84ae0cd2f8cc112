"""Clients of the queue: each reports its last tasks and claims the next in one exchange.

The whole job, as agents do it: each report fenced and with a result, an attempt recorded, the
counts kept.
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

from taskq.db.connections import Database
from taskq.direct import DirectTransport
from taskq.dispatch.batching import Batcher
from taskq.dispatch.fair_share import Scope
from taskq.errors import Conflict
from taskq.planning.process_group import ProcessGroup, run_process
from taskq_agent.protocol import DONE, Hello, LeaseIds, Report, Request, Task

READY_S: Final = 60.0
DRY_S: Final = 0.01
LEASE_S: Final = 86_400.0
"""Longer than any measurement, so that the clients need not beat."""
RESULT: Final = {"score": -9.1}


@dataclass(frozen=True, slots=True)
class Load:
    """So many processes of so many clients (tasks of asyncio).

    want: tasks in an exchange. path: the campaign, or one above those that are served.
    outcomes: how attempts end, in turn. batched: whether the clients of a process share
    connections and their exchanges go together; otherwise each has a connection of its own.
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
        """Clients in all."""
        return self.processes * self.clients


@dataclass(frozen=True)
class _Board:
    """Memory that the processes share; each client writes only its own place.

    completed: attempts reported. dry: whether a claim found nothing. stop: 1 when all is over.
    """

    completed: Any
    dry: Any
    stop: Any


@dataclass(frozen=True)
class _SharedState:
    """What a process has in common with the one that has started it."""

    board: _Board
    ready: multiprocessing.synchronize.Barrier
    troubles: SimpleQueue[str]


class Clients(ProcessGroup):
    """Clients; the block begins when each has its first tasks in hand."""

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
        """Raise as `check` does, and `Conflict` if a claim has found nothing."""
        self.check()
        if any(self._board.dry):
            raise Conflict("the clients ran out of tasks, so the figure means nothing")

    def rate(self, seconds: float) -> float:
        """Return the tasks completed a second; raise `Conflict` if a client found none."""
        before, began = self.completed(), time.perf_counter()
        time.sleep(seconds)
        after, ended = self.completed(), time.perf_counter()
        self.check_fed()
        return (after - before) / (ended - began)

    def stop(self) -> None:
        """Tell the clients that all is over."""
        self._board.stop.value = 1


def rate(database: Database, load: Load, seconds: float) -> float:
    """Return the tasks completed a second, by all clients together."""
    with Clients(database, load) as clients:
        return clients.rate(seconds)


@contextmanager
def session(database: Database, path: str) -> Iterator[tuple[DirectTransport, int]]:
    """Open an agent's session, which outlives any measurement without beats; end it afterwards."""
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
    """Be the clients of one process."""
    database = Database(dsn)
    serving = Scope(load.path)
    async with AsyncExitStack() as opened:
        transport = DirectTransport(database, lease_s=LEASE_S)
        batcher = await opened.enter_async_context(Batcher(database))
        clients = []
        for place in range(first, first + load.clients):
            if not load.batched:
                batcher = await opened.enter_async_context(Batcher(database, lines=1))
            mine = transport.open(_hello(load.path)).session
            clients.append(_Client(batcher, serving, mine, load, place))
        transport.close(0)  # the connections; the sessions live on
        await asyncio.gather(*(client.begin() for client in clients))
        await asyncio.to_thread(shared.ready.wait, READY_S)
        await asyncio.gather(*(client.work(shared.board) for client in clients))


@dataclass(slots=True)
class _Client:
    """One client: never holds more than it wants, and claims with what it reports."""

    batcher: Batcher
    serving: Scope
    session: int
    load: Load
    place: int
    lease_ids: LeaseIds = field(default_factory=LeaseIds)
    tasks: tuple[Task, ...] = ()

    async def begin(self) -> None:
        """Claim, report and claim once, so that the connection has all its plans."""
        outcomes = itertools.cycle(self.load.outcomes)
        await self._turn(outcomes)
        await self._turn(outcomes)
        await self._turn(outcomes)

    async def work(self, board: _Board) -> None:
        """Report and claim until told to stop."""
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
        self.tasks = (await self.batcher.exchange(request, self.serving)).tasks
        return len(reports)
