"""Processes that begin together, and end with a `with` block."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from multiprocessing.context import SpawnProcess
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from types import TracebackType

from typing_extensions import Self

from taskq.errors import Unavailable


class ProcessGroup(ABC):
    """Processes at work from the start of a `with` block to its end.

    Each runs `run_process`, and meets the one that has started it at a barrier once it is ready.
    """

    who = "processes"
    """What messages call them."""

    def __init__(self, count: int, ready_s: float) -> None:
        """ready_s: how long they may take to be ready, and to end."""
        self.context = multiprocessing.get_context("spawn")
        self.ready = self.context.Barrier(count + 1)
        self.troubles: SimpleQueue[str] = self.context.SimpleQueue()
        self._ready_s = ready_s
        self._processes: list[SpawnProcess] = []

    def add(self, target: Callable[..., None], *values: object) -> None:
        """Add a process to those that begin with the block."""
        self._processes.append(self.context.Process(target=target, args=values, daemon=True))

    @abstractmethod
    def stop(self) -> None:
        """Tell the processes that all is over."""

    def __enter__(self) -> Self:
        """Start the processes; return when all of them are ready."""
        try:
            for process in self._processes:
                process.start()
            self.ready.wait(self._ready_s)
        except threading.BrokenBarrierError:
            self._end()
            self.check()
            raise Unavailable(
                f"the {self.who} were not ready within {self._ready_s:.0f} s"
            ) from None
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
        """The processes."""
        return tuple(process.pid for process in self._processes if process.pid is not None)

    def check(self) -> None:
        """Raise `Unavailable` if a process has given up."""
        if not self.troubles.empty():
            raise Unavailable(f"the {self.who} of the benchmark failed: {self.troubles.get()}")

    def _end(self) -> None:
        self.stop()
        self.ready.abort()  # lets those go that still wait for the others
        for process in self._processes:
            if process.pid is not None:
                process.join(self._ready_s)
                process.kill()


def run_process(work: Callable[[], None], ready: Barrier, troubles: SimpleQueue[str]) -> None:
    """Do the work of one process; what ends it early is told, and ends the others."""
    # Ctrl-C reaches all processes of the terminal; the one that has started us ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        work()
    except threading.BrokenBarrierError:
        pass  # another has failed and has said why
    except Exception as error:  # noqa: BLE001  # told where it can be seen
        troubles.put(f"{type(error).__name__}: {error}")
        ready.abort()
