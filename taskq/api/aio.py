"""The submitters' API for asyncio: twins of `Client`, `Campaign` and `Run`.

    async with await aio.connect() as queue:
        value = await queue.submit(pow, 2, 10)
        run = await queue.map(function, arguments, name="/demo")
        async for outcome in run.as_completed():
            ...

A twin has the methods of its original, with the same arguments. Iterate with `async for` over what
returns an iterator, and await everything else. `Client.submit` gives the value of the call instead
of a future. Each call that is under way has a thread, since the original blocks one. Cancelling a
wait ends the wait; the task goes on. Cancelling a call whose value is awaited cancels its task if
that has not begun, as futures do.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from typing_extensions import Self

from taskq.api.client import Client
from taskq.api.client import connect as connect_now
from taskq.campaign.campaign import Campaign
from taskq.model.pauses import GIVEN_UP

_END: Final = object()


async def connect(
    address: str | None = None,
    *,
    token_file: str | Path | None = None,
    ca: str | Path | None = None,
) -> AsyncTwin:
    """Connect to a queue, as `taskq.connect` does; return the twin of a `Client`."""
    return AsyncTwin(await _in_thread(connect_now, address, token_file=token_file, ca=ca))


class AsyncTwin:
    """The twin of `original`: a `Client`, a `Campaign` or a `Run`.

    Other attributes are those of the original. `async with` closes the twin of a client; `async
    for` iterates over the twin of a run.
    """

    def __init__(self, original: Any) -> None:
        self.original: Final = original

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.original, name)
        if not inspect.ismethod(value):
            return _twin(value)
        if name == "submit" and isinstance(self.original, Client):
            return partial(_value, value)
        if iterates(value):
            return partial(_items, value)
        return partial(_result, value)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *dir(self.original)]

    def __repr__(self) -> str:
        return f"<AsyncTwin of {type(self.original).__name__}>"

    def __len__(self) -> int:
        return len(self.original)

    def __aiter__(self) -> AsyncIterator[Any]:
        return _items(iter, self.original)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await _in_thread(self.original.close)


def iterates(method: Callable[..., Any]) -> bool:
    """Return whether a method returns an iterator."""
    returns = inspect.signature(method).return_annotation
    return isinstance(returns, str) and returns.startswith(("Iterator[", "Selection"))


def _twin(value: Any) -> Any:
    if isinstance(value, list):
        return [_twin(one) for one in value]
    from taskq.compute.run import Run  # noqa: PLC0415  # few programs compute

    return AsyncTwin(value) if isinstance(value, (Client, Campaign, Run)) else value


async def _result(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return _twin(await _in_thread(method, *args, **kwargs))


async def _value(submit: Callable[..., Future[Any]], *args: Any, **kwargs: Any) -> Any:
    begun: Future[Future[Any]] = Future()

    def begin() -> Future[Any]:
        try:
            begun.set_result(submit(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001  # raised below
            begun.set_exception(error)
        return begun.result()

    def cancel() -> None:
        with suppress(Exception):  # nobody waits any more
            begun.result().cancel()

    try:
        called = await _in_thread(begin)
        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def tell(call: Future[Any]) -> None:
            if ended.done():
                return
            if call.cancelled():
                ended.cancel()
            elif (error := call.exception()) is not None:
                _fail(ended, error)
            else:
                ended.set_result(call.result())

        def done(call: Future[Any]) -> None:
            with suppress(RuntimeError):  # nobody waits any more, not even the loop
                loop.call_soon_threadsafe(tell, call)

        called.add_done_callback(done)
        return await ended
    except asyncio.CancelledError:
        # Cancelling asks the queue, and the call may be on its way there: the loop must go on.
        threading.Thread(target=cancel, name="taskq-aio", daemon=True).start()
        raise


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    """Set an exception as a coroutine would raise it: a bare `StopIteration` ends the awaiter."""
    if isinstance(error, StopIteration):
        known, error = error, RuntimeError("the call raised StopIteration")
        error.__cause__ = known
    future.set_exception(error)


async def _items(method: Callable[..., Any], *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
    items: Iterator[Any] = iter(await _in_thread(method, *args, **kwargs))
    while (item := await _in_thread(next, items, _END)) is not _END:
        yield _twin(item)


async def _in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function in a thread of its own, which does not hold up the end of this program.

    The threads of `asyncio.to_thread` are few, and a program waits for them at its end.
    """
    loop, given_up = asyncio.get_running_loop(), threading.Event()
    future = loop.create_future()
    context = contextvars.copy_context()
    context.run(GIVEN_UP.set, given_up)

    def tell(how: Callable[[asyncio.Future[Any], Any], None], what: Any) -> None:
        if not future.done():  # it is cancelled when nobody waits any more
            how(future, what)

    def work() -> None:
        try:
            result = context.run(function, *args, **kwargs)
        except BaseException as error:  # noqa: BLE001  # the waiting coroutine gets it
            outcome = partial(tell, _fail, error)
        else:
            outcome = partial(tell, asyncio.Future.set_result, result)
        with suppress(RuntimeError):  # nobody waits any more, not even the loop
            loop.call_soon_threadsafe(outcome)

    threading.Thread(target=work, name="taskq-aio", daemon=True).start()
    try:
        return await future
    finally:
        given_up.set()
