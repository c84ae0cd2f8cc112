"""Threads that work for a caller who may give up waiting, and pauses that this ends."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, TypeVar

from typing_extensions import ParamSpec

P = ParamSpec("P")
T = TypeVar("T")

#: Set in a thread that works for a caller who may give up waiting; giving up sets the event.
GIVEN_UP: Final[ContextVar[threading.Event | None]] = ContextVar("GIVEN_UP", default=None)

#: Seconds after which a pause that news may end notices that its caller has given up.
GIVEN_UP_S: Final = 0.25

#: A pause between looks is this share of the time waited, and at most so many seconds.
SHARE_WAITED: Final = 0.25
LAST_PAUSE_S: Final = 0.5


class GaveUp(BaseException):
    """The caller gave up waiting for this thread."""


def sleep(seconds: float, news: threading.Event | None = None) -> None:
    """Pause for so long, or until there are news; raise `GaveUp` if the caller gives up."""
    given_up = GIVEN_UP.get()
    if given_up is None:
        if news is None:
            time.sleep(seconds)
        else:
            news.wait(seconds)
    elif news is None:
        if given_up.wait(seconds):
            raise GaveUp
    else:
        end = time.monotonic() + seconds
        while not news.wait(min(GIVEN_UP_S, max(0.0, end - time.monotonic()))):
            if given_up.is_set():
                raise GaveUp
            if time.monotonic() >= end:
                return


def grown(waited_s: float, first_s: float) -> float:
    """Return how long to pause before the next look, at least first_s, after waiting so long.

    So what is waited for is noticed after a quarter more than it took, and seldom looked for.
    """
    return min(LAST_PAUSE_S, max(first_s, SHARE_WAITED * waited_s))


async def in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a thread of its own, which does not hold up the end of this program.

    The threads of `asyncio.to_thread` are few, and a program waits for them at its end.
    """
    loop, given_up = asyncio.get_running_loop(), threading.Event()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()
    context.run(GIVEN_UP.set, given_up)

    def settle(how: Callable[[asyncio.Future[Any], Any], None], what: Any) -> None:
        if not future.done():  # it is cancelled when nobody waits any more
            how(future, what)

    def work() -> None:
        try:
            result = context.run(function, *args, **kwargs)
        except BaseException as error:  # noqa: BLE001  # the waiting coroutine gets it
            outcome = partial(settle, fail, error)
        else:
            outcome = partial(settle, asyncio.Future.set_result, result)
        with suppress(RuntimeError):  # nobody waits any more, not even the loop
            loop.call_soon_threadsafe(outcome)

    threading.Thread(target=work, name="taskq-aio", daemon=True).start()
    try:
        return await future
    finally:
        given_up.set()


def fail(future: asyncio.Future[Any], error: BaseException) -> None:
    """Set an exception as a coroutine would raise it: a bare `StopIteration` ends the awaiter."""
    if isinstance(error, StopIteration):
        known, error = error, RuntimeError("the call raised StopIteration")
        error.__cause__ = known
    future.set_exception(error)
