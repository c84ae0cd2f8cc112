"""Pages for people: the gateway passes their requests on to a process of their own.

So rendering and reading delay no agent. `web` runs in that process, at a lower priority, with
connections and bounds of its own, and asks every viewer for a manager's token. This module only
copies bytes, of `MOST` requests at a time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from taskq.gateway.http.errors import Busy
from taskq.gateway.http.request import ClientRequest
from taskq.gateway.http.response import HttpResponse
from taskq.model.page_paths import VIEWER_HEADER

log: Final = logging.getLogger("taskq.gateway")

#: Requests that are passed on at a time; each viewer of a live page has one.
MOST: Final = 64
#: ... and those of one token, so that no token keeps the viewers of others out.
MOST_OF_TOKEN: Final = 32
#: Bytes of a form, of the head of an answer, and of what is passed on at a time.
MAX_FORM_BYTES: Final = 4_096
MAX_HEAD_BYTES: Final = 32_768
_CHUNK: Final = 65_536
#: Seconds for an answer to begin, and between two starts of the process.
ANSWER_S: Final = 60.0
AGAIN_S: Final = 10.0
END_S: Final = 5.0
LOOK_S: Final = 1.0
#: Headers that are passed on; the pages read no others.
_THERE: Final = frozenset(
    {b"host", b"cookie", b"authorization", b"origin", b"sec-fetch-site", b"content-type"}
)
_VIEWER: Final = VIEWER_HEADER.encode()
_LENGTH: Final = b"content-length"
_OF_CONNECTION: Final = frozenset({b"connection", b"date", b"transfer-encoding", _LENGTH, _VIEWER})

T = TypeVar("T")


class PagesProcess:
    """The process that serves pages, and the way to it. dsn: the queue's.

    secure: whether the gateway is reached over TLS, so that cookies are for TLS only.
    """

    def __init__(self, dsn: str, *, secure: bool) -> None:
        self._words = json.dumps({"dsn": dsn, "secure": secure}) + "\n"
        self._folder = tempfile.TemporaryDirectory(prefix="taskq-pages-")
        self._path = Path(self._folder.name) / "socket"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen(MOST)
        self._under_way = 0
        self._of_token = Counter[bytes]()
        self._process: subprocess.Popen[str] | None = None
        self._started_at = float("-inf")
        self._start()

    def _start(self) -> bool:
        """Start the process unless it runs, once in `AGAIN_S` at most; return whether it runs."""
        if self._process is not None and self._process.poll() is None:
            return True
        if time.monotonic() < self._started_at + AGAIN_S:
            return False
        if self._process is not None:
            log.warning("the pages have ended; they are started again")
            self._dismiss(self._process)
        number, again = self._listener.fileno(), self._process is not None
        self._started_at = time.monotonic()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "taskq.gateway.web", f"{number}"],
                stdin=subprocess.PIPE,  # it closes when this process ends
                pass_fds=[number],
                start_new_session=True,  # Ctrl-C is for the gateway
                text=True,
            )
        except OSError as error:
            if not again:
                raise
            log.warning("the pages cannot be started now, trying again: %s", error)
            return False
        with suppress(BrokenPipeError):
            assert self._process.stdin is not None  # noqa: S101  # it is a pipe
            self._process.stdin.write(self._words)
            self._process.stdin.flush()
        return True

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._dismiss(self._process)
        self._listener.close()
        self._folder.cleanup()

    @staticmethod
    def _dismiss(process: subprocess.Popen[str]) -> None:
        with suppress(BrokenPipeError):
            if process.stdin is not None:
                process.stdin.close()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    async def answer(self, ending: Callable[[], bool], request: ClientRequest) -> HttpResponse:
        """Return the answer of the pages to a request; raise `Busy` if there are too many.

        ending: returns whether the gateway is about to end; live pages then end too.
        """
        body = await request.read(MAX_FORM_BYTES)
        if self._under_way >= MOST or not self._start():
            raise Busy
        self._under_way += 1
        try:
            return await self._passed(request, body, ending)
        except BaseException:
            self._under_way -= 1
            raise

    async def _passed(
        self, request: ClientRequest, body: bytes, ending: Callable[[], bool]
    ) -> HttpResponse:
        """Send a request; return the answer, whose body follows as it comes."""
        reader, writer = await asyncio.open_unix_connection(self._path, limit=MAX_HEAD_BYTES)
        try:
            writer.write(_head(request, len(body)) + body)
            status, headers = await self._while_it_runs(_answered(reader))
            token = dict(headers).get(_VIEWER, b"")
            self._check_share(token)
        except BaseException as error:
            writer.close()
            if isinstance(error, (OSError, EOFError, asyncio.TimeoutError)):
                raise Busy from error
            raise

        def end() -> None:
            writer.close()
            self._under_way -= 1
            self._of_token[token] -= 1
            self._of_token += Counter()  # forgets those that have none

        self._of_token[token] += 1
        request.when_gone = writer.close
        return _Passed(_body(reader, ending), status, headers, end)

    def _check_share(self, token: bytes) -> None:
        """Raise `Busy` if too many answers to a token are under way."""
        if token and self._of_token[token] >= MOST_OF_TOKEN:
            raise Busy

    async def _while_it_runs(self, answer: Coroutine[Any, Any, T]) -> T:
        """Wait for an answer; raise `TimeoutError` if none comes, or the process does not run."""
        ends_at = time.monotonic() + ANSWER_S
        waiting = asyncio.ensure_future(answer)
        try:
            while time.monotonic() < ends_at and self._start():
                done, _ = await asyncio.wait([waiting], timeout=LOOK_S)
                if done:
                    return waiting.result()
        finally:
            waiting.cancel()
        raise asyncio.TimeoutError


class _Passed(HttpResponse):
    """An answer that is passed on. end: called when it is complete, or the client is gone."""

    def __init__(
        self,
        parts: AsyncIterator[bytes],
        status: int,
        headers: Sequence[tuple[bytes, bytes]],
        end: Callable[[], None],
    ) -> None:
        super().__init__(status=status)
        kept = [header for header in headers if header[0] not in _OF_CONNECTION]
        self.lines = b"".join(b"%s: %s\r\n" % header for header in kept)
        length = dict(headers).get(_LENGTH)
        self._length = None if length is None else int(length)
        self._parts = parts
        self._end = end

    async def send(self, request: ClientRequest) -> None:
        """Send the answer."""
        try:
            request.start(self.status, self.lines, self._length)
            async for part in self._parts:
                await request.write(part)
            request.finish()
        finally:
            self._end()


async def _body(reader: asyncio.StreamReader, ending: Callable[[], bool]) -> AsyncIterator[bytes]:
    while not ending() and (chunk := await reader.read(_CHUNK)):
        yield chunk


def _head(request: ClientRequest, length: int) -> bytes:
    """Return the head of a request as it is passed on, in HTTP/1.0: one for each connection."""
    path = request.raw_path + b"?" + request.query
    kept = [name + b": " + value for name, value in request.headers if name in _THERE]
    lines = [request.method + b" " + path + b" HTTP/1.0", *kept]
    return b"\r\n".join([*lines, b"content-length: %d" % length, b"", b""])


async def _answered(reader: asyncio.StreamReader) -> tuple[int, list[tuple[bytes, bytes]]]:
    """Return the status and the headers of an answer."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).rstrip().split(b"\r\n")
    named = [line.split(b": ", 1) for line in lines]
    return int(first.split(b" ")[1]), [(name.lower(), value) for name, value in named]
