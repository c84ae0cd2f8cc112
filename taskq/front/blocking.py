"""The front for synchronous code: a pool or a refiller with a thread and event loop of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

from taskq.db.connections import Database
from taskq.db.stored_json import loads
from taskq.dispatch.campaign_cache import CampaignCache
from taskq.dispatch.fair_share import Scope
from taskq.front.address import FrontAddress
from taskq.front.entries import POOL_S
from taskq.front.pool import Pool
from taskq.front.refiller import Refiller
from taskq_agent.protocol import Task

log = logging.getLogger(__name__)

#: Seconds that a claim may take; a healthy pool needs less, even if others came before.
CLAIM_S: Final = 1.0
#: Seconds that the thread has to end.
END_S: Final = 6.0


class BlockingPool:
    """A pool that one other thread claims from. A claim starts it if it is not running."""

    def __init__(
        self, database: Database, campaign_cache: CampaignCache, address: FrontAddress
    ) -> None:
        """Open nothing yet. campaign_cache: receives the terms of campaigns."""
        self._database = database
        self._address = address
        self._campaign_cache = campaign_cache
        self._running: _Running | None = None

    def claim(self, session: int, lease: str, want: int, scope: Scope) -> list[Task]:
        """Return up to `want` tasks of one campaign within `CLAIM_S`; if none, claim in PostgreSQL.

        Errors are logged, and the claim gets no tasks. A session's last claim, if repeated with its
        lease id, gets the same tasks for as long as they may be handed out.
        """
        try:
            if self._running is None:
                self._running = _Running(self._database, self._address, self._campaign_cache)
            tasks = self._running.claim(session, lease, want, scope)
            for task in tasks:
                payload: Any = task.payload  # JSON text, read here as psycopg reads it
                task.payload = loads(bytes(payload))
        except Exception:
            log.exception("a defect in claiming from the front")
            return []
        return tasks

    def close(self) -> None:
        """End the thread; tasks that it has popped and not handed out wait again in PostgreSQL."""
        running, self._running = self._running, None
        if running is not None:
            running.end()


class _Running:
    """A running pool and its thread."""

    def __init__(
        self, database: Database, address: FrontAddress, campaign_cache: CampaignCache
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._pool = Pool(database, address, campaign_cache)
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="taskq-front", daemon=True)
        self._thread.start()

    def claim(self, session: int, lease: str, want: int, scope: Scope) -> list[Task]:
        claimed: Future[list[Task]] = Future()
        self._loop.call_soon_threadsafe(self._submit, claimed, session, lease, want, scope)
        wait([claimed], CLAIM_S)
        if claimed.cancel():
            return []  # tasks that come too late wait again after the pool's deadline
        return claimed.result()

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(END_S)

    def _submit(
        self, claimed: Future[list[Task]], session: int, lease: str, want: int, scope: Scope
    ) -> None:
        callback = partial(_resolve, claimed)
        if not self._pool.submit(session, lease, want, scope, callback):
            callback([])

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        await self._pool.start()
        await self._ended.wait()
        await self._pool.close()


def _resolve(claimed: Future[list[Task]], tasks: list[Task]) -> None:
    if claimed.set_running_or_notify_cancel():
        claimed.set_result(tasks)


@contextmanager
def refilling(database: Database, address: FrontAddress, pool_s: float = POOL_S) -> Iterator[None]:
    """Run a `Refiller` in a thread for the duration of the block."""
    loop = asyncio.new_event_loop()
    running = loop.create_task(Refiller(database, address, pool_s).run())
    thread = threading.Thread(target=_run, args=(loop, running), name="taskq-refiller", daemon=True)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(running.cancel)
        thread.join(END_S)


def _run(loop: asyncio.AbstractEventLoop, running: asyncio.Task[Any]) -> None:
    try:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(running)
    finally:
        loop.close()
