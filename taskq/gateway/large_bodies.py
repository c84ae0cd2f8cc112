"""Large bodies: decoded one at a time, since nobody else is served meanwhile.

A body that has arrived waits for its turn undecoded. Its turn comes when the one before it has been
decoded and the rest after that is over: whoever asks for little waits for one of them at most, and
seldom. What waits is bounded in bytes, and a token has one place; what finds none is not read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from starlette.requests import ClientDisconnect

from taskq.dispatch.large_turns import LargeTurns
from taskq.gateway.errors import Busy

#: Bytes above which a body is large. Smaller ones are decoded in less than a millisecond.
LARGE_BYTES: Final = 65_536
#: Bytes of bodies that may wait.
MOST_BYTES: Final = 64 << 20
#: The rest after a large body, in durations of its decoding, and as many times longer as it is
#: larger than `LARGE_BYTES`, up to a limit.
REST_FACTOR: Final = 5.0
MOST_TIMES: Final = 16.0

Message = TypeVar("Message")


class LargeBodies:
    """The large bodies of a gateway that wait to be decoded."""

    def __init__(self) -> None:
        self._turns = LargeTurns(REST_FACTOR)
        self._first = asyncio.Lock()  # first come, first served
        self._sizes: dict[str, int] = {}

    def check(self, token: str, size: int) -> None:
        """Raise `Busy` if too much waits for a body of so many bytes, or one of its token does."""
        if size > LARGE_BYTES and (
            token in self._sizes or sum(self._sizes.values()) + size > MOST_BYTES
        ):
            raise Busy

    async def decoded(
        self,
        body: bytes,
        read: Callable[[bytes], Message],
        *,
        token: str,
        is_gone: Callable[[], Awaitable[bool]],
    ) -> Message:
        """Decode a body when its turn comes; a small one at once.

        token: whose it is. is_gone: tells whether the client has left. Raise `Busy` if too much
        waits or one of this token does, `ClientDisconnect` if the client has left meanwhile, and
        what `read` raises.
        """
        if len(body) <= LARGE_BYTES:
            return read(body)
        self.check(token, len(body))
        self._sizes[token] = len(body)
        try:
            async with self._first:
                await asyncio.sleep(self._turns.wait_s(time.monotonic()))
                if await is_gone():
                    raise ClientDisconnect
                self._turns.begin(time.monotonic())
                try:
                    return read(body)
                finally:
                    times = min(len(body) / LARGE_BYTES, MOST_TIMES)
                    self._turns.end(time.monotonic(), times)
        finally:
            del self._sizes[token]
