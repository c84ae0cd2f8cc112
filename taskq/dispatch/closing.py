"""Ending what runs in asyncio: what is to be closed as a context manager, and background tasks."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final

from typing_extensions import Self

_AGAIN_S: Final = 1.0


class Closing(ABC):
    """Closes itself at the end of an `async with` block."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @abstractmethod
    async def close(self) -> None:
        """Close it."""


async def cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until they have ended.

    Before Python 3.12 `asyncio.wait_for` forgets a cancellation that comes at the moment at which
    what it waits for is there (CPython issue 86296). So they are cancelled again until they end.
    """
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=_AGAIN_S)
