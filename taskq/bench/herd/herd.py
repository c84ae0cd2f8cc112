"""A herd of agents, started and watched from outside."""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue
from types import TracebackType
from typing import Final

from typing_extensions import Self

from taskq.bench.herd.board import Ends
from taskq.bench.herd.work import NAMES, Address, Credentials, Tally, Work
from taskq.bench.latencies import BUCKETS, quantile_s
from taskq.errors import Conflict, Unavailable

READY_S: Final = 180.0
WARM_S: Final = 0.5
POLL_S: Final = 0.002


@dataclass(frozen=True, slots=True)
class Seen:
    """What a herd did within some seconds. tally: in that time only. p50_s, p99_s: of exchanges."""

    seconds: float
    tally: Tally
    p50_s: float
    p99_s: float

    @property
    def rate(self) -> float:
        """Tasks reported a second."""
        return self.tally.reported / self.seconds


class Herd:
    """Agents at work from the start of a `with` block to its end."""

    def __init__(
        self, work: Work, gateways: Sequence[Address], credentials: Sequence[Credentials] = ()
    ) -> None:
        """credentials: one for each agent, unless they enroll. Each agent has one gateway."""
        context = multiprocessing.get_context("spawn")
        self._work = work
        self._stop = context.RawValue("b", 0)
        self._ready = context.Barrier(work.processes + 1)
        self._troubles: SimpleQueue[str] = context.SimpleQueue()
        self._ends = [
            Ends(
                context.RawArray("q", len(NAMES)),
                context.RawArray("q", BUCKETS),
                self._stop,
                self._ready,
                self._troubles,
            )
            for _ in range(work.processes)
        ]
        self._processes = [
            context.Process(
                target=_process,
                args=(work, tuple(gateways), tuple(credentials), number, ends),
                daemon=True,
            )
            for number, ends in enumerate(self._ends)
        ]

    def __enter__(self) -> Self:
        """Start the agents; return when all are connected, or about to arrive."""
        try:
            for process in self._processes:
                process.start()
            self._ready.wait(READY_S)
        except threading.BrokenBarrierError:
            self._end()
            self.check()
            raise Unavailable(f"the agents were not ready within {READY_S:.0f} s") from None
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

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes of the agents."""
        return tuple(process.pid for process in self._processes if process.pid is not None)

    def tally(self) -> Tally:
        """Return what has happened so far."""
        return Tally.total(list(ends.counts) for ends in self._ends)

    def check(self) -> None:
        """Raise `Unavailable` if a process has given up."""
        if not self._troubles.empty():
            raise Unavailable(f"the agents of the benchmark failed: {self._troubles.get()}")

    def wait(self, done: Callable[[Tally], bool], at_most_s: float) -> float:
        """Wait for something to happen; return after how many seconds it had.

        Raise `Conflict` if it has not within `at_most_s`.
        """
        began = time.perf_counter()
        while not done(tally := self.tally()):
            self.check()
            if time.perf_counter() > began + at_most_s:
                raise Conflict(f"not within {at_most_s:g} s; the agents tell of {tally}")
            time.sleep(POLL_S)
        return time.perf_counter() - began

    def warm(self, seconds: float = WARM_S) -> None:
        """Wait until each agent has had a task and all has run for a while."""
        self.wait(lambda tally: tally.served == self._work.agents, READY_S)
        time.sleep(seconds)

    def watch(self, seconds: float) -> Seen:
        """Return what happens within some seconds."""
        before, counts, began = self.tally(), self._latencies(), time.perf_counter()
        time.sleep(seconds)
        after, ended = self.tally(), time.perf_counter()
        self.check()
        latencies = [now - then for now, then in zip(self._latencies(), counts, strict=True)]
        return Seen(
            ended - began,
            after.since(before),
            quantile_s(latencies, 0.5),
            quantile_s(latencies, 0.99),
        )

    def _latencies(self) -> list[int]:
        return [
            sum(column) for column in zip(*(ends.latencies for ends in self._ends), strict=True)
        ]

    def _end(self) -> None:
        self._stop.value = 1
        self._ready.abort()  # lets those go that still wait for the others
        for process in self._processes:
            if process.pid is not None:
                process.join(READY_S)
                process.kill()


def _process(
    work: Work,
    gateways: Sequence[Address],
    credentials: Sequence[Credentials],
    number: int,
    ends: Ends,
) -> None:
    # Ctrl-C reaches all processes of the terminal; the one that has started us ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # Here, since it needs the extra `gateway`, which other cases do without.
        from taskq.bench.herd import process  # noqa: PLC0415

        process.run(work, gateways, credentials, number, ends)
    except threading.BrokenBarrierError:
        pass  # another has failed and has said why
    except Exception as error:  # noqa: BLE001  # told where it can be seen
        ends.troubles.put(f"{type(error).__name__}: {error}")
        ends.ready.abort()
