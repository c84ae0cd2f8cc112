"""joblib on a queue: `joblib.Parallel` computes on agents, and what they have computed stays.

    import taskq_joblib  # registers the backend

    with joblib.parallel_config(backend="taskq", queue=taskq.connect()):
        energies = joblib.Parallel()(joblib.delayed(energy)(one) for one in molecules)

Each call is a task, made by `Client.submit`; so one that was made before, by this program or
another, is not computed again.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from typing import Any, Final

import cloudpickle  # type: ignore[import-untyped]  # it has no types
import joblib  # type: ignore[import-untyped]  # nor has it

import taskq

#: Calls that are tasks at a time if n_jobs is not given; joblib prepares as many again.
CALLS: Final = 100
#: Bytes from which an argument is stored with the function, once for all calls that have it.
LARGE: Final = 8_192
#: Seconds after which somebody should be told that there are no agents.
QUIET_S: Final = 10.0


class TaskqBackend(joblib.parallel.ParallelBackendBase):  # type: ignore[misc]  # it has no types
    """Makes calls of `joblib.Parallel` tasks; queue: where, which whoever gives it closes.

    n_jobs: how many calls are tasks at a time; with 1, joblib computes in its own process.
    """

    supports_retrieve_callback = True
    default_n_jobs = -1

    def __init__(self, queue: taskq.Client, nesting_level: int | None = None) -> None:
        super().__init__(nesting_level)
        self._queue = queue
        self._pending: set[Future[Any]] = set()
        self._times: Counter[tuple[str, str]] = Counter()
        self._complaint = threading.Timer(QUIET_S, self._complain)

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return how many calls are tasks at a time, whatever the agents are."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 has no meaning")
        return CALLS if n_jobs is None or n_jobs < 0 else n_jobs

    def configure(self, *args: Any, prefer: str | None = None, **others: Any) -> int:
        """Return n_jobs; 1, so that calls stay here, if they are small and prefer threads."""
        made: int = super().configure(*args, prefer=prefer, **others)
        return 1 if prefer == "threads" else made

    def start_call(self) -> None:
        """Begin a `Parallel`, of which each call happens, be it equal to another or not."""
        self._times.clear()
        self._complaint = threading.Timer(QUIET_S, self._complain)
        self._complaint.daemon = True

    def stop_call(self) -> None:
        """End a `Parallel`."""
        self._complaint.cancel()

    def submit(
        self, func: Any, callback: Callable[[Sequence[Future[Any]]], Any]
    ) -> Sequence[Future[Any]]:
        """Make a task of each call of joblib's batch, and call back when all have ended."""
        try:
            futures = [self._submit(*call) for call in func.items]
        except Exception as error:  # noqa: BLE001  # raised in a callback, nobody would hear of it
            futures = [Future()]
            futures[0].set_exception(error)
        left = count(len(futures) - 1, -1)

        def ended(future: Future[Any]) -> None:
            self._pending.discard(future)
            if next(left) == 0:
                callback(futures)

        self._pending.update(futures)
        for future in futures:
            future.add_done_callback(ended)
        return futures

    def retrieve_result_callback(self, out: Sequence[Future[Any]]) -> list[Any]:
        """Return the values of a batch, or raise what a call has raised."""
        return [future.result() for future in out]

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Cancel what has not begun, after an error or Ctrl-C. What has begun is kept."""
        del ensure_ready
        with suppress(taskq.TaskqError):  # the reason why it ends matters more
            for future in tuple(self._pending):
                future.cancel()

    def _submit(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> taskq.TaskFuture:
        large = {at: v for at, v in [*enumerate(args), *kwargs.items()] if _is_large(v)}
        args = [None if at in large else value for at, value in enumerate(args)]
        kwargs = {at: None if at in large else value for at, value in kwargs.items()}
        call = _call_of(function, large)
        future = self._queue.submit(call, *args, **kwargs)
        known = (future.campaign.path, future.key)
        if not self._times:
            self._complaint.start()
        self._times[known] += 1
        if self._times[known] > 1:
            future = self._queue.submit(call, *args, **kwargs, taskq_time=self._times[known])
        return future

    def _complain(self) -> None:
        paths = {path for path, _ in tuple(self._times)}
        with suppress(taskq.TaskqError):
            for path in paths:
                if not self._queue.agents(path, limit=1):
                    warnings.warn(f"no agent serves {path}: run `taskq agent run`", stacklevel=2)
                    return


def _is_large(value: Any) -> bool:
    with suppress(Exception):  # what cannot be pickled is refused, with a reason, later
        return len(cloudpickle.dumps(value)) >= LARGE
    return False


def _call_of(function: Callable[..., Any], large: dict[Any, Any]) -> Callable[..., Any]:
    """Return what agents call: by value, so they need not have this module.

    large: arguments by place or name, for which None is given. taskq_time: tells equal calls apart.
    """

    @functools.wraps(function, updated=())
    def call(*args: Any, taskq_time: int = 1, **kwargs: Any) -> Any:
        del taskq_time
        places = [large.get(at, value) for at, value in enumerate(args)]
        names = {at: large.get(at, value) for at, value in kwargs.items()}
        with joblib.parallel_config(backend="sequential"):  # an agent's slot is one core
            return function(*places, **names)

    return call


joblib.register_parallel_backend("taskq", TaskqBackend)
