"""Large bodies, decoded one at a time, since the gateway serves nothing else meanwhile.

A body that has arrived waits undecoded for its turn. The turn comes when the body before it is
decoded and the rest after that is over. So a small request waits for one large body at most, and
seldom. The bytes that wait are bounded, and a token has one place; a body without a place is not
read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

from taskq.dispatch.fair_queue import LargeTurns
from taskq.gateway.http.errors import Busy, ClientLeft
from taskq.gateway.http.request import LARGE_BYTES

#: Bytes of bodies that may wait.
MOST_BYTES: Final = 64 << 20
#: The rest after a large body: this multiple of the time that it took to decode, times its size in
#: units of `LARGE_BYTES`, up to a limit.
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
        """Raise `Busy` if there is no room for a body of this size, or one of its token waits."""
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
        is_gone: Callable[[], bool],
    ) -> Message:
        """Decode a body when its turn comes; a small one at once.

        token: the sender's. is_gone: returns whether the client has left. Raise `Busy` as `check`
        does, `ClientLeft` if the client has left meanwhile, and what `read` raises.
        """
        if len(body) <= LARGE_BYTES:
            return read(body)
        self.check(token, len(body))
        self._sizes[token] = len(body)
        try:
            async with self._first:
                await asyncio.sleep(self._turns.wait_s(time.monotonic()))
                if is_gone():
                    raise ClientLeft
                self._turns.begin(time.monotonic())
                try:
                    return read(body)
                finally:
                    times = min(len(body) / LARGE_BYTES, MOST_TIMES)
                    self._turns.end(time.monotonic(), times)
        finally:
            del self._sizes[token]
