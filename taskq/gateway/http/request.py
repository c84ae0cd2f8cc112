"""Request of a client, from the end of its head to the end of its answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, Protocol
from urllib.parse import unquote, unquote_to_bytes

from taskq.gateway.http.errors import ClientLeft, ErrorAnswer, TooLarge
from taskq.gateway.http.flow import PIECE_BYTES, Flow, UntakenAnswer
from taskq.gateway.http.kept_bytes import ClientBytes, Kept
from taskq.gateway.http.proxies import Proxies

#: Bytes above which a body is large. A smaller one, whose length is known, is read before its
#: request is served.
LARGE_BYTES: Final = 65_536

NO_CONTENT: Final = 204
_BODILESS: Final = frozenset({NO_CONTENT, 304})
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_ORIGIN: Final = re.compile(rb"https?://[^/?#]*", re.IGNORECASE)


class HttpLink(Protocol):
    """The connection of a request, as requests know it.

    client_bytes: what is kept for all clients. address: the client's, as it connects. memo: what
    the application remembers with the connection.
    """

    flow: Flow
    untaken: UntakenAnswer
    client_bytes: ClientBytes
    address: str
    memo: Any
    proxies: Proxies
    is_encrypted: bool

    def write_whole(
        self, status: int, lines: bytes, body: bytes, *, keep: bool, has_body: bool = True
    ) -> None:
        """Write a whole answer. keep: whether requests may follow; else its head says so."""

    def write_head(self, status: int, lines: bytes, *, keep: bool) -> None:
        """Write the head of an answer."""

    def write(self, data: bytes) -> None:
        """Write some bytes, unless the connection is closing."""

    def is_closing(self) -> bool:
        """Return whether nothing more can be written."""

    def answered(self, *, keep: bool) -> None:
        """Go on to the next request; or end the connection."""

    def spawn(self, steps: Any) -> asyncio.Task[None]:
        """Run some steps in the background, of which the server knows."""

    def abort(self) -> None:
        """Cut the connection."""

    def turn_away(self) -> None:
        """Refuse the request whose body is arriving; its client has to come again."""


class ClientRequest:
    """A request whose head has arrived. fields: the last value of each header, by name.

    value: what stands for the parameter in the path, if there is one.

    is_small: whether its body is read before it is served. more_body: whether some of it has yet to
    arrive. is_gone: whether nobody waits for the answer; is_answered: whether all of it is written.
    when_gone: called once, if the client goes before the answer.
    """

    # Most requests need no other values.
    value = ""
    begun = has_answer_begun = is_answered = is_gone = False
    more_body = True
    when_gone: Callable[[], object] | None = None
    _is_chunked = False
    _news: asyncio.Future[None] | None = None

    def __init__(  # noqa: PLR0917  # names would cost time
        self,
        link: HttpLink,
        method: bytes,
        target: bytes,
        version: str,
        headers: Sequence[tuple[bytes, bytes]],
        fields: dict[bytes, bytes],
        keep_alive: bool,
    ) -> None:
        self.link = link
        self.method = method
        self.target = target
        self.version = version
        self.headers = headers
        self.fields = fields
        self.keep_alive = keep_alive
        self.length = int(fields.get(b"content-length", 0))
        self.is_small = (
            self.length <= LARGE_BYTES
            and b"transfer-encoding" not in fields
            and b"expect" not in fields
        )
        self._arrived: bytes | bytearray = b""

    # What was asked

    @property
    def raw_path(self) -> bytes:
        """The path, with its escapes."""
        return self._origin_form.partition(b"?")[0]

    @property
    def query(self) -> bytes:
        """The query, with its escapes."""
        return self._origin_form.partition(b"?")[2]

    @property
    def _origin_form(self) -> bytes:
        """The target without scheme and host, which some clients send too."""
        target = self.target
        return target if target.startswith(b"/") else _ORIGIN.sub(b"", target, count=1) or b"/"

    @property
    def path(self) -> str:
        """The path, without escapes."""
        path = self.raw_path.decode("ascii", "replace")
        return unquote(path) if "%" in path else path

    def header(self, name: bytes) -> str:
        """Return the value of a header; empty if there is none."""
        return self.fields.get(name, b"").decode("latin-1")

    def target_fault(self) -> str | None:
        """Return why path and query are no text that a database can store; None if they are."""
        try:
            text = unquote_to_bytes(self.target).decode()
        except UnicodeDecodeError:
            return "path or query are not UTF-8"
        return "a control character in path or query" if _CONTROL.search(text) else None

    @property
    def client(self) -> str:
        """The address of the client, also behind trusted proxies."""
        return self.link.proxies.client(self.link.address, self.headers)

    # Its body

    def arrived(self, part: bytes) -> int:
        """Keep a part of the body; return the bytes that are kept."""
        if not self.is_answered:
            if not self._arrived:
                self._arrived = part
            elif isinstance(self._arrived, bytearray):
                self._arrived += part
            else:  # one buffer: a body may come in a part for each of its bytes
                self._arrived = bytearray(self._arrived + part)
            if self._news is not None:
                self._wake()
        return len(self._arrived)

    def ended(self) -> None:
        """Note that the body has arrived in full."""
        self.more_body = False
        if self._news is not None:
            self._wake()

    def leave(self) -> bool:
        """Note that the client is gone; return whether it still waited for its answer."""
        if self.is_answered or self.is_gone:
            return False
        self.is_gone = True
        self._wake()
        when_gone, self.when_gone = self.when_gone, None
        if when_gone is not None:
            when_gone()
        return True

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def body(self) -> bytes:
        """Return the body that has arrived, and keep it no longer."""
        body, self._arrived = bytes(self._arrived), b""
        return body

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives; raise `ClientLeft` if the rest will never come."""
        if self.more_body and self._expects_continue():
            self.link.write(_CONTINUE)
        while True:
            while self.more_body and not self._arrived and not self.is_gone:
                self.link.flow.resume_reading()
                self._news = asyncio.get_running_loop().create_future()
                await self._news
            if self.is_gone:
                raise ClientLeft
            if not self._arrived:
                return
            yield self.body()

    def _expects_continue(self) -> bool:
        expected = self.fields.get(b"expect", b"").lower()
        return expected == b"100-continue" and self.version != "1.0" and not self.has_answer_begun

    async def read(self, most: int) -> bytes:
        """Return the body when it has arrived; raise `TooLarge` before more than `most` are kept.

        Large ones are counted meanwhile, for their token. Raise `ClientLeft` if the client leaves
        or has to come again.
        """
        self.check_length(most)
        if not self.more_body:
            return self.body()
        kept, arriving = self.kept(), self.link.client_bytes.arriving
        body = bytearray()
        try:
            async for chunk in self.parts():
                body += chunk
                if len(body) > most:
                    raise _too_large(most)
                if len(body) > LARGE_BYTES:
                    arriving.keep(kept, len(body))
            return bytes(body)
        finally:
            arriving.release(kept)

    def check_length(self, most: int) -> None:
        """Raise `TooLarge` if the head announces a body of more bytes."""
        if self.length > most:
            raise _too_large(most)

    def kept(self) -> Kept:
        """Return a counter for the body that is arriving."""
        return Kept(self.link.untaken.account, self._turn_away)

    def _turn_away(self) -> None:
        if self.more_body:
            self.link.turn_away()

    # Its answer

    def answer(
        self, status: int, body: bytes, lines: bytes = b"content-type: application/json\r\n"
    ) -> None:
        """Send a whole answer, unless nobody waits for one. lines: of its head, each with its end.

        A request that is answered before it has arrived in full ends its connection: the rest is
        not worth reading, and a client that expects `100 Continue` may never send it.
        """
        if self.is_answered or self.is_gone:
            return
        keep = self._keeps() if self.more_body else self.keep_alive
        if status == NO_CONTENT:
            self.link.write_head(status, b"", keep=keep)
        else:
            self.link.write_whole(status, lines, body, keep=keep, has_body=self.method != b"HEAD")
        self._end()

    def refuse(self, known: ErrorAnswer, lines: bytes = b"") -> None:
        """Answer with an error; if an answer has begun, cut it. lines: of the head, in addition."""
        if self.has_answer_begun:
            self.link.abort()
        else:
            self.answer(known.status, known.body(), known.lines() + lines)

    def start(self, status: int, lines: bytes, length: int | None = None) -> None:
        """Begin an answer in parts; without a length they go as chunks, or up to the end."""
        if self.is_gone:
            raise ClientLeft
        self.has_answer_begun = True
        if length is not None:
            lines += b"content-length: %d\r\n" % length
        elif self.version == "1.0" or status in _BODILESS:
            self.keep_alive = False
        elif self.method != b"HEAD":
            self._is_chunked = True
            lines += b"transfer-encoding: chunked\r\n"
        self.link.write_head(status, lines, keep=self._keeps())

    async def write(self, data: bytes | memoryview) -> None:
        """Send a part; return when most of it is taken. Raise `ClientLeft` if nobody takes it."""
        for at in range(0, len(data), PIECE_BYTES):
            piece = bytes(data[at : at + PIECE_BYTES])
            await self.link.flow.drain()
            if self.is_gone or self.link.is_closing():
                raise ClientLeft
            if self.method != b"HEAD":
                self.link.write(
                    b"%x\r\n%s\r\n" % (len(piece), piece) if self._is_chunked else piece
                )

    def finish(self) -> None:
        """End an answer in parts."""
        if self.is_gone or self.is_answered:
            return
        if self._is_chunked:
            self.link.write(b"0\r\n\r\n")
        self._end()

    def _keeps(self) -> bool:
        """Return whether the connection is kept after this answer."""
        if self.more_body:
            self.keep_alive = False
        return self.keep_alive

    def _end(self) -> None:
        self.is_answered = True
        self.when_gone = None  # it refers to this object
        self._arrived = b""
        self.link.answered(keep=self.keep_alive)


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"a body of at most {most} bytes is allowed here")
