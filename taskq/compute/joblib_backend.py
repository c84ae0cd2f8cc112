"""joblib on a queue: `joblib.Parallel` computes on agents, and what they have computed stays.

Each call is a task of a campaign below `/calls`, as calls of `Client.submit` are. Large arguments,
such as the training data of scikit-learn's searches, are inputs of the campaign, stored once;
arrays are mapped into memory on the node, where all processes share them.
"""

from __future__ import annotations

import copy
import functools
import inspect
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

import joblib  # type: ignore[import-untyped]  # it has no types

from taskq.compute.fingerprint import attribute_text
from taskq.compute.futures import TaskFuture
from taskq.compute.pickling import pickled
from taskq.compute.runs import Calls
from taskq.compute.trust import Trust
from taskq.db.access import Queries
from taskq.files.blob_store import MAX_INPUT_BYTES
from taskq.files.blobs import open_blobs
from taskq.model.errors import TaskqError
from taskq_agent.handlers.calls import shared
from taskq_agent.protocol import Input

#: Calls that are tasks at a time if n_jobs is not given; joblib prepares as many again.
CALLS: Final = 100
#: Bytes from which an argument is stored as an input, once for all calls that have it.
LARGE: Final = 8_192

#: Arguments of scikit-learn's functions that say who calls, and what to show: they change no
#: value. Its own caches leave out the first two.
_NO_PART: Final = ("caller", "callback_ctx", "split_progress", "candidate_progress", "verbose")
_SMALL: Final = (bool, int, float, complex, type(None))


class TaskqBackend(joblib.parallel.ParallelBackendBase):  # type: ignore[misc]  # it has no types
    """Makes calls of `joblib.Parallel` tasks of a queue.

    n_jobs: how many calls are tasks at a time; with 1, joblib computes in its own process.
    """

    supports_retrieve_callback = True
    default_n_jobs = -1

    def __init__(self, queries: Queries, calls: Calls, trust: Trust) -> None:
        super().__init__(nesting_level=0)
        self._blobs = open_blobs(queries)
        self._calls = calls
        self._trust = trust
        self._pending: set[TaskFuture[Any]] = set()
        self._times: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        # Large arguments of this Parallel by id, kept so that no other object gets the id.
        self._large: dict[int, tuple[Any, str, Input]] = {}

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return how many calls are tasks at a time; agents decide how many run."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 has no meaning")
        return CALLS if n_jobs is None or n_jobs < 0 else n_jobs

    def configure(self, *args: Any, prefer: str | None = None, **others: Any) -> int:
        """Return n_jobs; 1 if calls are small and prefer threads, so that they stay here.

        joblib passes what its `Parallel` was given, also what it does not know.
        """
        _refuse_unknown(others, joblib.Parallel)
        made: int = super().configure(*args, prefer=prefer, **others)
        return 1 if prefer == "threads" else made

    def start_call(self) -> None:
        """Begin a `Parallel`: each of its calls happens, even if two are equal."""
        self._times.clear()

    def stop_call(self) -> None:
        """End a `Parallel`."""
        self._large.clear()

    def submit(
        self, func: Any, callback: Callable[[Sequence[Future[Any]]], Any]
    ) -> Sequence[Future[Any]]:
        """Make a task of each call of joblib's batch; call back when all have ended."""
        futures: list[Future[Any]] = []
        try:
            with self._lock:
                futures += [self._submit(*call) for call in func.items]
        except Exception as error:  # noqa: BLE001  # raised in a callback, nobody would hear of it
            futures = [Future()]
            futures[0].set_exception(error)
        left = count(len(futures) - 1, -1)

        def ended(future: Future[Any]) -> None:
            self._pending.discard(future)
            if next(left) == 0:
                callback(futures)

        self._pending.update(future for future in futures if isinstance(future, TaskFuture))
        for future in futures:
            future.add_done_callback(ended)
        return futures

    def retrieve_result_callback(self, out: Sequence[Future[Any]]) -> list[Any]:
        """Return the values of a batch, or raise what a call has raised."""
        return [future.result() for future in out]

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Cancel what has not begun, after an error or Ctrl-C. What has begun is kept."""
        del ensure_ready
        with suppress(TaskqError):  # the reason why it ends matters more
            for future in tuple(self._pending):
                future.cancel()

    def _submit(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> TaskFuture[Any]:
        function, kwargs, aside = _set_aside(function, kwargs)
        large: dict[Any, str] = {}
        inputs: dict[str, Input] = {}
        for at, value in [*enumerate(args), *kwargs.items()]:
            if (known := self._stored(value)) is not None:
                large[at], inputs[known[0]] = known
        call = functools.partial(
            self._calls.submit,
            _call_of(function, large),
            tuple(None if at in large else value for at, value in enumerate(args)),
            aside=aside,
            stored=inputs,
            trust=self._trust,
        )
        names = {at: None if at in large else value for at, value in kwargs.items()}
        future = call(kwargs=names)
        known_by = (future.campaign.path, future.key)
        self._times[known_by] += 1
        if self._times[known_by] > 1:
            future = call(kwargs={**names, "taskq_time": self._times[known_by]})
        return future

    def _stored(self, value: Any) -> tuple[str, Input] | None:
        """Return name and input of a large argument, stored once in a `Parallel`; else None."""
        if type(value) in _SMALL:
            return None
        if (known := self._large.get(id(value))) is not None:
            return known[1:]
        kind = type(value)
        is_array = (kind.__module__, kind.__name__) == ("numpy", "ndarray")
        is_array = is_array and not value.dtype.hasobject
        if is_array and value.nbytes < LARGE:
            return None
        data = b""
        if not is_array:
            try:
                data = pickled(value, MAX_INPUT_BYTES)
            except Exception:  # noqa: BLE001  # what cannot be pickled is refused later, with a reason
                return None
            if len(data) < LARGE:
                return None
        with tempfile.TemporaryDirectory(prefix="taskq-joblib-") as folder:
            file = Path(folder, "value")
            with file.open("wb") as writing:
                if is_array:
                    import numpy as np  # noqa: PLC0415  # there is an array

                    np.save(writing, value, allow_pickle=False)
                else:
                    writing.write(data)
            stored = Input(*self._blobs.put(file))
        name = f"{stored.digest}.{'npy' if is_array else 'pickle'}"
        self._large[id(value)] = (value, name, stored)
        return name, stored


def configured(
    queries: Queries, calls: Calls, trust: Trust, options: Mapping[str, Any]
) -> AbstractContextManager[Any]:
    """Return joblib's configuration with this backend; see `taskq.joblib`."""
    _refuse_unknown(options, joblib.parallel_config)
    backend = TaskqBackend(queries, calls, trust)
    config: AbstractContextManager[Any] = joblib.parallel_config(backend=backend, **options)
    return config


def _refuse_unknown(given: Mapping[str, Any], taker: Callable[..., Any]) -> None:
    """Raise `TypeError` for a keyword that a function of joblib does not have."""
    # `Parallel` itself adds two: itself, and how multiprocessing would start processes.
    unknown = given.keys() - inspect.signature(taker).parameters.keys() - {"parallel", "context"}
    if unknown:
        name = taker.__name__
        raise TypeError(f"joblib.{name} got an unexpected keyword argument {min(unknown)!r}")


def _set_aside(
    function: Callable[..., Any], kwargs: Mapping[str, Any]
) -> tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]:
    """Return a function and its named arguments without those that are no part of its value.

    The third is what was set aside: it is sent, and no key depends on it. scikit-learn puts a fresh
    identity and the time into each call, for callbacks, and this process's filters of warnings.
    """
    if not (attribute_text(function, "__module__") or "").startswith("sklearn."):
        return function, dict(kwargs), {}
    aside = {name: kwargs[name] for name in _NO_PART if name in kwargs}
    if not getattr(aside.get("callback_ctx"), "_callbacks", True):
        aside |= dict.fromkeys(aside.keys() & {"caller", "callback_ctx"})  # nobody is called back
    if filters := vars(function).get("warning_filters"):
        function = copy.copy(function)
        del function.warning_filters  # type: ignore[attr-defined]  # it has no types
        aside["taskq_filters"] = list(filters)
    return function, {name: value for name, value in kwargs.items() if name not in aside}, aside


def _call_of(function: Callable[..., Any], large: Mapping[Any, str]) -> Callable[..., Any]:
    """Return what agents call: by value, so that they need not have this module.

    large: names of inputs by place or name of the argument, for which the call has None.
    taskq_time: tells equal calls apart. taskq_filters: of warnings, for functions of scikit-learn.
    """

    @functools.wraps(function, updated=())
    def call(*args: Any, taskq_time: int = 1, taskq_filters: Any = None, **kwargs: Any) -> Any:
        del taskq_time
        if taskq_filters is not None:
            function.warning_filters = taskq_filters  # type: ignore[attr-defined]
        places = [shared(large[at]) if at in large else value for at, value in enumerate(args)]
        names = {at: shared(large[at]) if at in large else value for at, value in kwargs.items()}
        with joblib.parallel_config(backend="sequential"):  # an agent's slot is one core
            return function(*places, **names)

    return call
