"""Checked parts of requests: the client's address, the target, and the body.

Large bodies are decoded one at a time, since the gateway serves nothing else meanwhile. A body that
has arrived waits undecoded for its turn. The turn comes when the body before it is decoded and the
rest after that is over. So a small request waits for one large body at most, and seldom. The bytes
that wait are bounded, and a token has one place; a body without a place is not read.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import Final, TypeVar
from urllib.parse import unquote_to_bytes

from starlette.requests import ClientDisconnect, Request

from taskq.dispatch.fair_queue import LargeTurns
from taskq.gateway.errors import Busy, TooLarge
from taskq.gateway.messages import BadRequest
from taskq.model.errors import Forbidden

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def check_target(request: Request) -> None:
    """Raise `BadRequest` unless path and query are text that a database can store."""
    for part in (request.scope["raw_path"], request.scope["query_string"]):
        if b"%" in part:
            try:
                text = unquote_to_bytes(part).decode()
            except UnicodeDecodeError:
                raise BadRequest("path or query are not UTF-8") from None
            if _CONTROL.search(text):
                raise BadRequest("a control character in path or query")


def address_of(client: tuple[str, int] | None) -> str:
    """Return the IP address of a client; raise `Forbidden` if a proxy does not pass it on."""
    # Without the zone of a link-local address, which means nothing elsewhere.
    text = client[0].partition("%")[0] if client else ""
    try:
        address = ip_address(text)
    except ValueError:
        raise Forbidden(f"{text!r:.80}, from where this comes, is not an address") from None
    # A socket for both families gives an IPv4 address within one of IPv6.
    return str(getattr(address, "ipv4_mapped", None) or address)


async def read_body(request: Request, most: int) -> bytes:
    """Return the body; raise `TooLarge` before more than `most` bytes are kept."""
    if length_of(request) > most:
        raise TooLarge(f"a body of at most {most} bytes is allowed here")
    chunks, size = [], 0
    async for chunk in request.stream():
        chunks.append(chunk)
        size += len(chunk)
        if size > most:
            raise TooLarge(f"a body of at most {most} bytes is allowed here")
    return b"".join(chunks)


def length_of(request: Request) -> int:
    """Return the length of the body in bytes, according to the head."""
    return int(request.headers.get("content-length", 0))


#: Bytes above which a body is large. Smaller ones are decoded in less than a millisecond.
LARGE_BYTES: Final = 65_536
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
        is_gone: Callable[[], Awaitable[bool]],
    ) -> Message:
        """Decode a body when its turn comes; a small one at once.

        token: the sender's. is_gone: returns whether the client has left. Raise `Busy` as `check`
        does, `ClientDisconnect` if the client has left meanwhile, and what `read` raises.
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
