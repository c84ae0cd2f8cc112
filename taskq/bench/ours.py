"""Clients of the queue: each reports its last tasks and claims the next in one exchange.

The whole job, as agents do it: each report fenced and with a result, an attempt recorded, the
counts kept.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import multiprocessing.synchronize
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.queues import SimpleQueue
from types import TracebackType
from typing import Any, Final

from typing_extensions import Self

from taskq.choice import Serving
from taskq.database import Database
from taskq.direct import DirectTransport
from taskq.errors import Conflict, Unavailable
from taskq.gathering import Gatherer
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
    outcomes: how attempts end, in turn. gathered: whether the clients of a process share
    connections and their exchanges go together; otherwise each has a connection of its own.
    pooled: whether the address is that of a pooler, behind which no statement can be prepared.
    """

    processes: int
    clients: int
    want: int
    path: str
    outcomes: tuple[str, ...] = (DONE,)
    gathered: bool = False
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
class _Ends:
    """What a process has in common with the one that has started it."""

    board: _Board
    ready: multiprocessing.synchronize.Barrier
    troubles: SimpleQueue[str]


class Crew:
    """Clients at work from the start of a `with` block to its end."""

    def __init__(self, database: Database, load: Load) -> None:
        context = multiprocessing.get_context("spawn")
        self._board = _Board(
            context.RawArray("q", load.total),
            context.RawArray("b", load.total),
            context.RawValue("b", 0),
        )
        self._ready = context.Barrier(load.processes + 1)
        self._troubles: SimpleQueue[str] = context.SimpleQueue()
        self._processes = [
            context.Process(
                target=_process,
                args=(database.dsn, load, number, _Ends(self._board, self._ready, self._troubles)),
                daemon=True,
            )
            for number in range(load.processes)
        ]

    def __enter__(self) -> Self:
        """Start the clients; return when each has its first tasks in hand."""
        try:
            for process in self._processes:
                process.start()
            self._ready.wait(READY_S)
        except threading.BrokenBarrierError:
            self._end()
            self.check()
            raise Unavailable(f"the clients were not ready within {READY_S:.0f} s") from None
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()
        if error is None:
            self.check()

    def completed(self) -> int:
        """Return how many attempts have been reported."""
        return sum(self._board.completed)

    def check(self) -> None:
        """Raise `Unavailable` if a client has failed."""
        if not self._troubles.empty():
            raise Unavailable(f"a client of the benchmark failed: {self._troubles.get()}")

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

    def _end(self) -> None:
        self._board.stop.value = 1
        self._ready.abort()  # lets those go that still wait for the others
        for process in self._processes:
            if process.pid is not None:
                process.join(READY_S)
                process.kill()


def rate(database: Database, load: Load, seconds: float) -> float:
    """Return the tasks completed a second, by all clients together."""
    with Crew(database, load) as crew:
        return crew.rate(seconds)


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


def _process(dsn: str, load: Load, number: int, ends: _Ends) -> None:
    # Ctrl-C reaches all processes of the terminal; the one that has started us ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        asyncio.run(_clients(dsn, load, number * load.clients, ends))
    except threading.BrokenBarrierError:
        pass  # another has failed and has said why
    except Exception as error:  # noqa: BLE001  # told where it can be seen
        ends.troubles.put(f"{type(error).__name__}: {error}")
        ends.ready.abort()


async def _clients(dsn: str, load: Load, first: int, ends: _Ends) -> None:
    """Be the clients of one process."""
    database = Database(dsn, prepare=not load.pooled)
    serving = Serving(load.path)
    async with AsyncExitStack() as opened:
        transport = DirectTransport(database, lease_s=LEASE_S)
        gatherer = await opened.enter_async_context(Gatherer(database))
        clients = []
        for place in range(first, first + load.clients):
            if not load.gathered:
                gatherer = await opened.enter_async_context(Gatherer(database, lines=1))
            mine = transport.open(_hello(load.path)).session
            clients.append(_Client(gatherer, serving, mine, load, place))
        transport.close(0)  # the connections; the sessions live on
        await asyncio.gather(*(client.begin() for client in clients))
        await asyncio.to_thread(ends.ready.wait, READY_S)
        await asyncio.gather(*(client.work(ends.board) for client in clients))


@dataclass(slots=True)
class _Client:
    """One client: never holds more than it wants, and claims with what it reports."""

    gatherer: Gatherer
    serving: Serving
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
        self.tasks = (await self.gatherer.exchange(request, self.serving)).tasks
        return len(reports)
