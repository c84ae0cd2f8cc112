"""`concurrent.futures.Executor` on a queue."""

from __future__ import annotations

import concurrent.futures
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from taskq.campaign.campaign import Campaign
from taskq.compute.functions import Arguments, python_version
from taskq.compute.futures import TaskFuture, Watcher
from taskq.compute.local_agents import Computing, LocalAgents
from taskq.compute.pickling import function_archive
from taskq.compute.plan import call_settings
from taskq.compute.unpickling import ResultReader, Trust
from taskq.db.access import task_ids
from taskq.db.stored_spec import spec_body
from taskq.files.blobs import open_blobs
from taskq.model.campaign_spec import CampaignSpec, RetryPolicy
from taskq.model.errors import TaskqError
from taskq.model.handler import Handler
from taskq.model.seed import Seed
from taskq_agent.handlers.resident import ARCHIVE
from taskq_agent.protocol import Input

CHUNK: Final = 1_000


class Executor(concurrent.futures.Executor):
    """Calls functions on the agents of a queue; each call is a task of a campaign of its own.

    Functions and arguments are pickled, so they may be anything that can be, of 48 KiB together.
    For larger ones, and for results that should survive this program, use `Client.map`. `shutdown`
    removes the campaign with all its results; a `with` block calls it at its end.

    queue: the queue. max_workers: start agents with so many slots on this machine, for as long as
    the executor lives; None if others serve the queue. path: of the campaign; it must not exist.
    trust: see `Client.map`; the modules of called functions are trusted as well. settings: see
    `Client.map`.
    """

    def __init__(
        self,
        queue: Computing,
        max_workers: int | None = None,
        *,
        path: str | None = None,
        trust: Trust = (),
        **settings: Any,
    ) -> None:
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        self._database = queue.queries
        self._settings = call_settings(settings)
        self._read = ResultReader(trust)
        self._campaign, seal = self._created(path or f"/executor/{secrets.token_hex(8)}")
        self._arguments = Arguments(seal)
        self._lock = threading.Lock()
        self._is_shut_down = False
        self._process = os.getpid()
        self._pending: set[TaskFuture] = set()
        agents: list[LocalAgents] = []
        self._agents: LocalAgents | None = None
        try:
            if max_workers is not None:
                self._agents = LocalAgents(queue, max_workers, self.path, grace_s=0.0)
                self._agents.start()
                agents.append(self._agents)
            self._watcher = Watcher(self._database, agents)
        except BaseException:
            self._end()  # nobody has the executor, to shut it down
            raise

    @property
    def path(self) -> str:
        """The path of the executor's campaign."""
        return self._campaign.path

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> TaskFuture:
        """Call a function; return the future. Raise `RuntimeError` after `shutdown`."""
        (future,) = self._submit([self._payload(fn, args, kwargs)])
        return future

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        **others: Any,
    ) -> Iterator[Any]:
        """Return an iterator over the values; see `concurrent.futures`.

        All calls are submitted at once, a thousand in a statement; chunksize is not needed.
        """
        del chunksize, others
        deadline = None if timeout is None else time.monotonic() + timeout
        payloads = [self._payload(fn, args, {}) for args in zip(*iterables, strict=False)]
        return _values(self._submit(payloads), deadline)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls, wait for the pending ones, and remove the campaign.

        cancel_futures: cancel calls that have not begun. wait: with False, return at once; the rest
        is done when the last call has ended, unless the program ends before. In a forked child
        nothing is done: the calls are its parent's.
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
            self._watcher.join()
            if first or self._agents is not None:
                self._end()
        elif first:
            threading.Thread(target=self._end_after, args=(pending,), daemon=True).start()

    def _created(self, path: str) -> tuple[Campaign, str]:
        stored, size = open_blobs(self._database).put([function_archive("executor", None)])
        seal = secrets.token_hex(32)
        handler = Handler(
            "function",
            name="executor",
            target="taskq_agent.handlers.calls:apply",
            archive=stored,
            python=python_version(),
            seal=seal,
        )
        usual: dict[str, Any] = {
            "retry": RetryPolicy(max_attempts=1),
            "max_failure_share": None,  # exceptions are results here
        }
        spec = CampaignSpec(path, handler=handler, **{**usual, **self._settings})
        body = spec_body(spec, {ARCHIVE: Input(stored, size)})
        number = self._database.value("create_campaign", path=path, spec=body)
        return Campaign(self._database, number, path), seal

    def _payload(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        module = getattr(fn, "__module__", None)
        if isinstance(module, str):
            self._read.homes.add(module)
        return self._arguments.payload((fn, *args), kwargs)

    def _submit(self, payloads: Sequence[dict[str, Any]]) -> list[TaskFuture]:
        with self._lock:
            if self._is_shut_down:
                raise RuntimeError("cannot schedule new futures after shutdown")
        futures: list[TaskFuture] = []
        for start in range(0, len(payloads), CHUNK):
            seeds = [Seed(one, secrets.token_hex(16)) for one in payloads[start : start + CHUNK]]
            if len(seeds) == 1:
                self._campaign.submit(seeds[0].payload, seeds[0].key)
            else:
                self._campaign.seed(seeds)
            keys = [str(seed.key) for seed in seeds]
            known = task_ids(self._database, self._campaign.campaign_id, keys)
            futures += [TaskFuture(self._campaign, known[key], key) for key in keys]
        with self._lock:
            self._pending.update(futures)
        for future in futures:
            future.add_done_callback(self._pending.discard)
        self._watcher.watch(self._campaign, self._read, futures)
        return futures

    def _end_after(self, pending: Sequence[TaskFuture]) -> None:
        concurrent.futures.wait(pending)
        self._end()

    def _end(self) -> None:
        agents, self._agents = self._agents, None
        if agents is not None:
            agents.stop()
        with suppress(TaskqError):
            self._campaign.remove()


def _values(futures: list[TaskFuture], deadline: float | None) -> Iterator[Any]:
    """Yield values in order; cancel the rest if the iteration ends early."""
    try:
        futures.reverse()
        while futures:
            # popped, so that no reference keeps a value alive
            left = None if deadline is None else deadline - time.monotonic()
            yield futures.pop().result(left)
    finally:
        for future in futures:
            future.cancel()
