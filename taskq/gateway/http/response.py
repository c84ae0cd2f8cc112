"""Answers of an application: whole ones, and those of which one part at a time is in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from taskq.gateway.http.request import ClientRequest

JSON: Final = "application/json"


class HttpResponse:
    """A whole answer."""

    def __init__(
        self,
        body: bytes = b"",
        status: int = 200,
        *,
        media_type: str = JSON,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.body = body
        self.status = status
        named = {"content-type": media_type, **(headers or {})}
        self.lines = "".join(f"{name}: {value}\r\n" for name, value in named.items()).encode()

    async def send(self, request: ClientRequest) -> None:
        """Send it as the answer to a request; raise `ClientLeft` if nobody takes it."""
        request.answer(self.status, self.body, self.lines)


class PartedResponse(HttpResponse):
    """An answer of which one part at a time is in memory, once there is room for it.

    read: returns the bytes from one offset to another; it runs in a thread. begin, end: what is
    sent. part_bytes: of a part.
    """

    def __init__(
        self,
        read: Callable[[int, int], bytes],
        begin: int,
        end: int,
        *,
        part_bytes: int,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str,
    ) -> None:
        super().__init__(status=status, media_type=media_type, headers=headers)
        self._read = read
        self._begin, self._end, self._part_bytes = begin, end, part_bytes

    async def send(self, request: ClientRequest) -> None:
        """Send it, for as long as the client is there."""
        request.start(self.status, self.lines, self._end - self._begin)
        at = self._begin if request.method != b"HEAD" else self._end
        while at < self._end:
            upto = min(at + self._part_bytes, self._end)
            async with request.link.untaken.part(upto - at):
                # No variable has the part, which would keep it until there is the next.
                await request.write(await asyncio.to_thread(self._read, at, upto))
            at = upto
        request.finish()
