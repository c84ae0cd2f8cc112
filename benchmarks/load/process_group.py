"""Group of processes that start together and end with a `with` block."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from types import TracebackType
from typing import Final

from typing_extensions import Self

from taskq.model.errors import Unavailable

#: Imported once, by the server that forks all processes: it takes each of them most of a second.
_PRELOADED: Final = ["benchmarks.load.agent_load", "benchmarks.load.clients"]


class ProcessGroup(ABC):
    """Processes at work from the start of a `with` block to its end.

    Each calls `run_process`, and waits for its parent at a barrier once it is ready.
    """

    who = "processes"
    """Name of the processes in messages."""

    def __init__(self, count: int, ready_s: float) -> None:
        """ready_s: seconds that the processes get to be ready, and to end."""
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(_PRELOADED)
        self.ready = self.context.Barrier(count + 1)
        self.troubles: SimpleQueue[str] = self.context.SimpleQueue()
        self._ready_s = ready_s
        self._processes: list[ForkServerProcess] = []

    def add(self, target: Callable[..., None], *values: object) -> None:
        """Add a process that starts with the block."""
        self._processes.append(self.context.Process(target=target, args=values, daemon=True))

    @abstractmethod
    def stop(self) -> None:
        """Signal the processes to stop."""

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
        """The process ids."""
        return tuple(process.pid for process in self._processes if process.pid is not None)

    def check(self) -> None:
        """Raise `Unavailable` if a process has failed."""
        if not self.troubles.empty():
            raise Unavailable(f"the {self.who} of the benchmark failed: {self.troubles.get()}")

    def _end(self) -> None:
        self.stop()
        self.ready.abort()  # releases processes that still wait at the barrier
        for process in self._processes:
            if process.pid is not None:
                process.join(self._ready_s)
                process.kill()


def run_process(work: Callable[[], None], ready: Barrier, troubles: SimpleQueue[str]) -> None:
    """Do the work of one process; report an exception in `troubles`, and abort the others."""
    # Ctrl-C reaches all processes of the terminal; the parent ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        work()
    except threading.BrokenBarrierError:
        pass  # another process has failed and reported why
    except Exception as error:  # noqa: BLE001  # reported to the parent
        troubles.put(f"{type(error).__name__}: {error}")
        ready.abort()
