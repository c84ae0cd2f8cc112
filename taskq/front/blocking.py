"""Claims from the front by what is not asynchronous: a pool in a loop and a thread of its own."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

from taskq.db.connections import Database
from taskq.dispatch.campaign_cache import CampaignCache
from taskq.dispatch.fair_share import Scope
from taskq.front.address import FrontAddress
from taskq.front.entries import POOL_S
from taskq.front.pool import Pool
from taskq.front.refiller import Refiller
from taskq_agent.protocol import Task

log = logging.getLogger(__name__)

#: Longer than a pool that is well waits for Redis, and for those who came before.
CLAIM_S: Final = 1.0
END_S: Final = 6.0


class BlockingPool:
    """A pool beside one other thread. Begun by the first claim, and by the first after `close`."""

    def __init__(self, database: Database, address: FrontAddress, described: CampaignCache) -> None:
        """Open nothing yet. described: gets what is learnt of campaigns."""
        self._database = database
        self._address = address
        self._described = described
        self._running: _Running | None = None

    def claim(self, session: int, lease: str, want: int, serving: Scope) -> list[Task]:
        """Return up to `want` tasks of one campaign within `CLAIM_S`; none: claim in PostgreSQL.

        Whatever goes wrong here is logged, and gives none. A session's last claim, if repeated with
        its lease id, gets the same tasks for as long as they may be handed out.
        """
        try:
            if self._running is None:
                self._running = _Running(self._database, self._address, self._described)
            tasks = self._running.claim(session, lease, want, serving)
            for task in tasks:
                task.payload = _read(task.payload)
        except Exception:
            log.exception("a defect in claiming from the front")
            return []
        return tasks

    def close(self) -> None:
        """End the thread; what it has popped and not handed out waits again, in PostgreSQL."""
        running, self._running = self._running, None
        if running is not None:
            running.end()


class _Running:
    """A pool from its start to its end."""

    def __init__(self, database: Database, address: FrontAddress, described: CampaignCache) -> None:
        self._loop = asyncio.new_event_loop()
        self._pool = Pool(database, address, described)
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="taskq-front", daemon=True)
        self._thread.start()

    def claim(self, session: int, lease: str, want: int, serving: Scope) -> list[Task]:
        told: Future[list[Task]] = Future()
        self._loop.call_soon_threadsafe(self._submit, told, session, lease, want, serving)
        wait([told], CLAIM_S)
        if told.cancel():
            return []  # what comes too late waits again after the pool's deadline
        return told.result()

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(END_S)

    def _submit(
        self, told: Future[list[Task]], session: int, lease: str, want: int, serving: Scope
    ) -> None:
        tell = partial(_settle, told)
        if not self._pool.submit(session, lease, want, serving, tell):
            tell([])

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        await self._pool.start()
        await self._ended.wait()
        await self._pool.close()


def _settle(told: Future[list[Task]], tasks: list[Task]) -> None:
    if told.set_running_or_notify_cancel():
        told.set_result(tasks)


def _read(payload: Any) -> Any:
    """Read JSON text as psycopg does, so that a payload is the same on either way."""
    return json.loads(bytes(payload))


@contextmanager
def refilling(database: Database, address: FrontAddress, pool_s: float = POOL_S) -> Iterator[None]:
    """Run a `Refiller` in a thread meanwhile."""
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
