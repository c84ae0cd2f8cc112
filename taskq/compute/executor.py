"""`concurrent.futures.Executor` on a queue."""

from __future__ import annotations

import concurrent.futures
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

from typing_extensions import ParamSpec, Unpack

from taskq.campaign.campaign import Campaign
from taskq.compute.fingerprint import attribute_text
from taskq.compute.functions import Arguments, python_version
from taskq.compute.futures import TaskFuture, Watcher
from taskq.compute.local_agents import Computing, LocalAgents
from taskq.compute.outbox import Call, CallOutbox, Lane
from taskq.compute.pickling import function_archive
from taskq.compute.plan import SEAL_BYTES, call_settings, remedy
from taskq.compute.trust import ResultReader, Trust, own_results
from taskq.db.gateway_queries import home
from taskq.db.stored_spec import spec_body
from taskq.files.blobs import open_blobs
from taskq.model.call_settings import CallSettings
from taskq.model.campaign_spec import CampaignSpec
from taskq.model.errors import Forbidden, LoginForbidden, TaskqError
from taskq.model.handler import Handler
from taskq.model.retry_policy import RetryPolicy
from taskq_agent.handlers.resident import ARCHIVE
from taskq_agent.protocol import Input

T = TypeVar("T")
P = ParamSpec("P")

#: Calls that a library should have under way if agents elsewhere serve them.
ELSEWHERE: Final = 100


class Executor(concurrent.futures.Executor):
    """Calls functions on the agents of a queue; each call is a task of a campaign of its own.

    Functions and arguments may be anything that can be pickled, each of 48 MiB. `shutdown` removes
    the campaign with all its results; a `with` block calls it at its end. For results that should
    survive this program, use `Client.map`.

    Args:
        queue: The queue.
        max_workers: Start agents with so many slots on this machine, for as long as the executor
            lives; None if others serve the queue.
        path: Path of the campaign, which must not exist.
        trust: See `Client.map`.
        max_tasks_per_child: After so many calls a process of an agent ends, and the next call gets
            a new one; None: it stays.
        settings: See `Client.map`.
    """

    def __init__(
        self,
        queue: Computing,
        max_workers: int | None = None,
        *,
        path: str | None = None,
        trust: Trust = (),
        max_tasks_per_child: int | None = None,
        **settings: Unpack[CallSettings],
    ) -> None:
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        self._database = queue.queries
        self._settings = call_settings(settings)
        self._tasks_per_child = max_tasks_per_child
        self._campaign = self._created(
            path or f"{home(self._database)}/executor/{secrets.token_hex(8)}"
        )
        read = ResultReader(trust, is_own=own_results(self._database, embedded=queue.embedded))
        self._lane = Lane(self._database, self._campaign, read)
        self._max_workers = max_workers or ELSEWHERE  # dask reads it
        self._lock = threading.Lock()
        self._is_shut_down = False
        self._process = os.getpid()
        self._pending: set[TaskFuture[Any]] = set()
        agents = queue.local_agents
        self._agents: LocalAgents | None = None
        try:
            if max_workers is not None:
                self._agents = LocalAgents(queue, max_workers, self.path, grace_s=0.0)
                self._agents.start()
                agents = [self._agents]
            self._watcher = Watcher(self._database, agents)
            self._outbox = CallOutbox(self._database, self._watcher)
        except BaseException:
            self._end()  # nobody has the executor, to shut it down
            raise

    @property
    def path(self) -> str:
        """The path of the executor's campaign."""
        return self._campaign.path

    def __repr__(self) -> str:
        state = "shut down" if self._is_shut_down else f"{len(self._pending):,} calls pending"
        return f"<Executor {self.path}: {state}>"

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> TaskFuture[T]:
        """Call a function; return the future.

        Raises:
            RuntimeError: `shutdown` was called.
        """
        (future,) = self._submit([self._call(fn, args, kwargs)])
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[T]:
        """Return an iterator over the values; see `concurrent.futures`.

        Args:
            fn: What to call; `functools.partial` gives it the same keywords in all calls.
            iterables: Its positional arguments.
            timeout: Seconds from now on in which a value must come.
            chunksize: Has no effect: each call is a task.
            buffersize: Calls that are submitted at most before their values were taken, as in
                Python 3.14; None submits all at once.
        """
        del chunksize
        if buffersize is not None and not isinstance(buffersize, int):
            raise TypeError("buffersize must be an integer or None")
        if buffersize is not None and buffersize < 1:
            raise ValueError("buffersize must be None or > 0")
        deadline = None if timeout is None else time.monotonic() + timeout
        calls = (self._call(fn, args, {}) for args in zip(*iterables, strict=False))
        begun = deque(self._submit([*islice(calls, buffersize)]))
        return _values(begun, deadline, lambda: self._submit([*islice(calls, 1)]))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls, wait for the pending ones, and remove the campaign.

        In a forked child nothing is done: the calls are its parent's.

        Args:
            wait: False returns at once; the rest is done when the last call has ended, unless the
                program ends before.
            cancel_futures: Cancel calls that have not begun.
        """
        if os.getpid() != self._process:
            return
        with self._lock:
            first, self._is_shut_down = not self._is_shut_down, True
            pending = list(self._pending)
        if cancel_futures:
            for future in pending:
                future.cancel()
        if wait:
            concurrent.futures.wait(pending)
            self._outbox.close()
            self._watcher.join()
            if first or self._agents is not None:
                self._end()
        elif first:
            threading.Thread(target=self._end_after, args=(pending,), daemon=True).start()

    def _created(self, path: str) -> Campaign:
        try:
            stored, size = open_blobs(self._database).put([function_archive("executor", None)])
            handler = Handler(
                "function",
                name="executor",
                target="taskq_agent.handlers.calls:apply",
                archive=stored,
                python=python_version(),
                seal=secrets.token_hex(SEAL_BYTES),
                tasks_per_child=self._tasks_per_child,
            )
            usual: dict[str, Any] = {
                "retry": RetryPolicy(max_attempts=1),
                "max_failure_share": None,  # exceptions are results here
            }
            spec = CampaignSpec(path, handler=handler, **{**usual, **self._settings})
            body = spec_body(spec, {ARCHIVE: Input(stored, size)})
            number = self._database.value("create_campaign", path=path, spec=body)
        except LoginForbidden:  # which says how to get the right
            raise
        except Forbidden as error:
            how = remedy(self._database, path, "pickler")
            raise Forbidden(f"{error}: {how}") from error
        return Campaign(self._database, number, path)

    def _call(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        if (module := attribute_text(fn, "__module__")) is not None:
            self._lane.read.homes.add(module)
        encode = partial(Arguments.payload, args=(fn, *args), kwargs=kwargs)
        return Call.of(self._lane, encode(self._lane.arguments), secrets.token_hex(16), encode)

    def _submit(self, calls: Sequence[Call]) -> list[TaskFuture[Any]]:
        futures = [call.future for call in calls]
        with self._lock:
            if self._is_shut_down:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._pending.update(futures)
        for future in futures:
            future.add_done_callback(self._pending.discard)
        try:
            self._outbox.put(self._lane, calls)
        except BaseException:
            self._pending.difference_update(futures)
            raise
        return futures

    def _end_after(self, pending: Sequence[TaskFuture[Any]]) -> None:
        concurrent.futures.wait(pending)
        self._end()

    def _end(self) -> None:
        agents, self._agents = self._agents, None
        if agents is not None:
            agents.stop()
        with suppress(TaskqError):
            self._campaign.remove()


def _values(
    futures: deque[TaskFuture[T]], deadline: float | None, more: Callable[[], list[TaskFuture[T]]]
) -> Iterator[T]:
    """Yield values in order; cancel the rest if the iteration ends early.

    more: submits the next call, if there is one.
    """
    try:
        while futures:
            left = None if deadline is None else deadline - time.monotonic()
            if futures[0].exception(left) is None:
                futures += more()
            # popped, so that no reference keeps a value alive
            yield futures.popleft().result()
    finally:
        for future in futures:
            future.cancel()
