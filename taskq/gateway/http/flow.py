"""Flow of one connection's bytes in both directions, and what is kept of an answer meanwhile.

What is kept of an answer that is not taken is counted for its token (`kept_bytes`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from taskq.gateway.http.kept_bytes import Account, Kept, KeptBytes

#: Bytes that are written at a time. With as many in its buffer a connection counts as one whose
#: client does not take its answer, until fewer than `LOW_WATER_BYTES` are left.
PIECE_BYTES: Final = 65_536
HIGH_WATER_BYTES: Final = 65_536
LOW_WATER_BYTES: Final = 16_384


class Flow:
    """Whether a connection reads, and whether its client takes what is written."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.is_paused = False  # whether the client does not take its answer
        self.reads = True
        self._taken = asyncio.Event()
        self._taken.set()

    def pause_reading(self) -> None:
        """Read nothing for now."""
        if self.reads and not self.transport.is_closing():
            self.reads = False
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        if not (self.reads or self.transport.is_closing()):
            self.reads = True
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        """Note that the client does not take its answer."""
        self.is_paused = True
        self._taken.clear()

    def resume_writing(self) -> None:
        """Note that the client has taken most of its answer, or that it has gone."""
        self.is_paused = False
        self._taken.set()

    async def drain(self) -> None:
        """Wait until the client has taken most of what was written."""
        await self._taken.wait()


class UntakenAnswer:
    """What one connection keeps of its answer, counted while its client does not take it.

    address: whom it counts for until a token is known. whole: bytes of an answer that was written
    at once, which the transport keeps until it has sent the last of them.
    """

    def __init__(self, flow: Flow, all_: KeptBytes, address: str) -> None:
        self._flow = flow
        self._all = all_
        self._kept = Kept(address, self._drop)
        self._in_hand = 0
        self.whole = 0

    @property
    def account(self) -> Account:
        """Whom this client counts for."""
        return self._kept.account

    def act_for(self, account: Account) -> None:
        """Count for the owner of a token from now on."""
        if account != self._kept.account:
            self.release()
            self._kept.account = account

    @asynccontextmanager
    async def part(self, size: int) -> AsyncIterator[None]:
        """Wait until the last part is taken and there is room for the next; hold that meanwhile."""
        await self._flow.drain()
        await self._all.room(self._kept, size)
        self._in_hand = size
        try:
            yield
        finally:
            self._in_hand = 0
            self.count()

    def count(self) -> None:
        """Count what is kept now."""
        size = self._in_hand
        if self._flow.is_paused:
            size = max(size, self.whole, self._flow.transport.get_write_buffer_size())
        else:
            self.whole = 0
        if size:
            self._all.keep(self._kept, size)
        else:
            self.release()

    def release(self) -> None:
        """Count nothing any more."""
        self._all.release(self._kept)

    def _drop(self) -> None:
        asyncio.get_running_loop().call_soon(self._flow.transport.abort)
