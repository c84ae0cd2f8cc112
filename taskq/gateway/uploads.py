"""Uploads of blobs: they arrive in temporary files, and then take one of few places to be stored.

How long a body takes to arrive is its client's choice, so it holds no place meanwhile, only the
bytes that have come, which are counted (`kept_bytes`). Storing takes the time of the store. Of the
places, the token that has the fewest gets the next, and one stays free of each token.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import IO, Final

from taskq.files.blob_store import BlobStore
from taskq.gateway.http.errors import Busy, TooLarge
from taskq.gateway.http.kept_bytes import Account
from taskq.gateway.http.request import LARGE_BYTES, ClientRequest
from taskq_agent.transport import MAX_BLOB_BYTES

log: Final = logging.getLogger("taskq.gateway")

#: Bodies that are stored at a time: results of agents and the like, and large inputs of submitters.
MOST_UPLOADS: Final = 4
MOST_INPUTS: Final = 2


class FairPlaces:
    """Places that are taken for a while; for one asyncio loop. most: how many there are."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: Counter[Account] = Counter()
        # First come, first served, among those of tokens with equally many places.
        self._waiting: dict[asyncio.Future[None], Account] = {}

    @asynccontextmanager
    async def place(self, account: Account) -> AsyncIterator[None]:
        """Wait for a place, and have it for the length of a `with` block."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting[turn] = account
        self._give()
        try:
            await turn
            yield
        finally:
            if self._waiting.pop(turn, None) is None:
                self._taken[account] -= 1
                if not self._taken[account]:
                    del self._taken[account]
                self._give()

    def _give(self) -> None:
        """Give free places away, to those who have the fewest; the last to none with the rest."""
        while self._waiting and (free := self._most - self._taken.total()) > 0:
            turn, account = min(self._waiting.items(), key=lambda waiter: self._taken[waiter[1]])
            if free == 1 and self._taken[account] == self._most - 1:
                return
            del self._waiting[turn]
            self._taken[account] += 1
            if not turn.done():
                turn.set_result(None)


class Uploads:
    """Receives blobs, and stores them; for one asyncio loop."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._places = FairPlaces(MOST_UPLOADS)
        self._of_inputs = FairPlaces(MOST_INPUTS)

    async def store(self, request: ClientRequest, digest: str, *, most: int) -> None:
        """Store the body of a request, which must have this digest, when it has arrived.

        Raise `TooLarge` before more than `most` bytes are kept, `Busy` if there is no room for
        them, `ClientLeft` if the client leaves, and as `BlobStore.put_file` does.
        """
        request.check_length(most)
        kept, spooled = request.kept(), request.link.client_bytes.spooled
        if spooled.is_full(kept.account, request.length):
            raise Busy
        places = self._places if most <= MAX_BLOB_BYTES else self._of_inputs
        try:
            with tempfile.SpooledTemporaryFile(LARGE_BYTES, prefix="taskq-upload-") as file:
                async for chunk in request.parts():
                    if kept.size + len(chunk) > most:
                        raise TooLarge(f"a body of at most {most} bytes is allowed here")
                    spooled.keep(kept, kept.size + len(chunk))
                    await _written(file, chunk)
                async with places.place(kept.account):
                    await asyncio.to_thread(self._blobs.put_file, file, digest)
        finally:
            spooled.release(kept)


async def _written(file: IO[bytes], chunk: bytes) -> None:
    """Write to a temporary file; raise `Busy` if its file system is full."""
    try:
        await asyncio.to_thread(file.write, chunk)
    except OSError as error:
        log.warning("an upload cannot be kept in %s: %s", tempfile.gettempdir(), error.strerror)
        raise Busy from error
