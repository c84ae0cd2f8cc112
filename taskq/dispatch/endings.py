"""How asynchronous work ends: futures get their outcome, tasks are cancelled, batchers close."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Final, TypeVar

from typing_extensions import Self

T = TypeVar("T")

_AGAIN_S: Final = 1.0


def resolve(future: asyncio.Future[T], outcome: T | Exception) -> None:
    """Set the result or the exception of a future, unless it is done: nobody waits any more."""
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


class Closing(ABC):
    """A base class: `close` is called at the end of an `async with` block."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @abstractmethod
    async def close(self) -> None:
        """Finish or break off what is under way, and release connections."""


async def cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until they have ended.

    Before Python 3.12 `asyncio.wait_for` loses a cancellation that arrives just when its awaitable
    completes (CPython issue 86296). Tasks are therefore cancelled again each second until they have
    ended.
    """
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=_AGAIN_S)
