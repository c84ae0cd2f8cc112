"""A refiller beside what is not asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from taskq.db.connections import Database
from taskq.front.address import FrontAddress
from taskq.front.entries import POOL_S
from taskq.front.refiller import Refiller

END_S: Final = 6.0


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
