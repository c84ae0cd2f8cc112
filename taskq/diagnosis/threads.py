"""Blocking calls for an asyncio loop, in threads that do not delay a program's end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(call: Callable[..., T], *values: Any) -> T:
    """Return the result of a call in a thread of its own.

    Unlike with `asyncio.to_thread`, the end of the loop does not wait for the thread: a server that
    does not answer would delay the end of the program.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(result)  # type: ignore[arg-type]  # it is what the call returned
        else:
            done.set_exception(error)

    def run() -> None:
        result: T | None = None
        failed: BaseException | None = None
        try:
            result = call(*values)
        except BaseException as error:  # noqa: BLE001  # it goes to who waits
            failed = error
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=run, name="taskq-look", daemon=True).start()
    return await done
