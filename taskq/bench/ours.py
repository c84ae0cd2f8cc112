"""Clients of the queue: each reports its last tasks and claims the next in one exchange.

The whole job, as an agent does it: through its transport, each report fenced and with a result,
an attempt recorded, the counts kept.
"""

from __future__ import annotations

import itertools
import multiprocessing
import multiprocessing.synchronize
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue
from types import TracebackType
from typing import Any, Final

from typing_extensions import Self

from taskq.database import Database
from taskq.direct import DirectTransport
from taskq.errors import Conflict, Unavailable
from taskq_agent.protocol import DONE, Hello, LeaseIds, Report, Request

READY_S: Final = 60.0
DRY_S: Final = 0.01
LEASE_S: Final = 86_400.0
"""Longer than any measurement, so that the clients need not beat."""
RESULT: Final = {"score": -9.1}


@dataclass(frozen=True, slots=True)
class Load:
    """So many processes of so many clients (threads).

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
    opened = transport.open(Hello(str(uuid.uuid4()), path, "bench", "bench", 0, "", 1, "")).session
    try:
        yield transport, opened
    finally:
        transport.close(opened)


def _process(dsn: str, load: Load, number: int, ends: _Ends) -> None:
    # Ctrl-C reaches all processes of the terminal; the one that has started us ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    together = threading.Barrier(load.clients, action=lambda: _wait(ends.ready))

    def client(place: int) -> None:
        try:
            _client(dsn, load, together, ends.board, place)
        except threading.BrokenBarrierError:
            pass  # another has failed and has said why
        except Exception as error:  # noqa: BLE001  # told where it can be seen
            ends.troubles.put(f"{type(error).__name__}: {error}")
            together.abort()
            ends.ready.abort()

    first = number * load.clients
    threads = [
        threading.Thread(target=client, args=(place,))
        for place in range(first, first + load.clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _wait(ready: multiprocessing.synchronize.Barrier) -> None:
    ready.wait(READY_S)


def _client(dsn: str, load: Load, together: threading.Barrier, board: _Board, place: int) -> None:
    with session(Database(dsn), load.path) as (transport, mine):
        lease_ids = LeaseIds()
        answer = transport.exchange(Request(mine, want=load.want, lease=lease_ids()))
        together.wait(READY_S)
        outcomes = itertools.cycle(load.outcomes)
        while not board.stop.value:
            if not answer.tasks:
                board.dry[place] = 1
                time.sleep(DRY_S)
            reports = tuple(
                Report(task.campaign, task.task, task.lease, next(outcomes), result=RESULT)
                for task in answer.tasks
            )
            answer = transport.exchange(
                Request(mine, reports=reports, want=load.want, lease=lease_ids())
            )
            board.completed[place] += len(reports)
