"""Readings that are kept for some seconds, so that many viewers cost as much as one.

They are made in threads that do not delay a program's end.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, TypeVar

from taskq.model.pauses import in_thread

T = TypeVar("T")


#: Readings that are kept.
MOST_KEPT: Final = 256
#: Readings that run at a time; the others wait.
AT_A_TIME: Final = 2


class Readings:
    """Readings by key; for one asyncio loop. A failed reading is not kept."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._turns = asyncio.Semaphore(AT_A_TIME)
        self._kept: OrderedDict[Any, tuple[float, asyncio.Future[Any]]] = OrderedDict()

    async def get(self, key: object, fresh_s: float, read: Callable[[], T]) -> T:
        """Return the result of `read` for this key if at most `fresh_s` seconds old, or read now.

        `read` runs in a thread, once for all concurrent callers.
        """
        kept = self._kept.get(key)
        if kept is None or (kept[1].done() and self._clock() >= kept[0] + fresh_s):
            task = asyncio.ensure_future(self._read(key, read))
            kept = self._clock(), task
            self._kept[key] = kept
            self._kept.move_to_end(key)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return await asyncio.shield(kept[1])

    def forget(self, name: str) -> None:
        """Forget what has this name in its key, since it was changed."""
        for key in [key for key in self._kept if isinstance(key, tuple) and name in key]:
            if self._kept[key][1].done():
                del self._kept[key]

    async def _read(self, key: object, read: Callable[[], T]) -> T:
        async with self._turns:
            try:
                found = await in_thread(read)
            except BaseException:
                self._kept.pop(key, None)
                raise
        kept = self._kept.get(key)
        if kept is not None:
            self._kept[key] = self._clock(), kept[1]
        return found
