"""A batch in which one request is at fault: its halves run apart, so that only that one fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def in_halves(
    batch: list[T],
    run: Callable[[list[T]], Awaitable[None]],
    fail: Callable[[list[T], Exception], None],
    is_of_one: Callable[[Exception], bool],
) -> None:
    """Run a batch; run its halves apart after an error that one of its requests has caused.

    So only the request at fault gets the error. fail: takes a batch that cannot be halved further,
    or need not be, and its error.
    """
    try:
        await run(batch)
    except Exception as error:  # noqa: BLE001  # those that wait get it
        if len(batch) == 1 or not is_of_one(error):
            fail(batch, error)
            return
        half = len(batch) // 2
        for some in (batch[:half], batch[half:]):
            await in_halves(some, run, fail, is_of_one)
