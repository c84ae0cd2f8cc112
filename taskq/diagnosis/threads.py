"""Blocking calls beside an asyncio loop, in threads that keep no program from ending."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(call: Callable[..., T], *values: Any) -> T:
    """Return what a call returns, made in a thread of its own.

    Unlike those of `asyncio.to_thread`, the thread is not waited for when the loop ends: a server
    that does not answer would hold up the end of a program for as long.
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
