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
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from taskq.gateway.errors import Busy
from taskq.gateway.requests import read_body

log: Final = logging.getLogger("taskq.gateway")

#: Requests that are passed on at a time; each viewer of a live page has one.
MOST: Final = 64
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
_CONNECTION: Final = frozenset({"connection", "date", "transfer-encoding"})

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
        number = self._listener.fileno()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "taskq.gateway.web", f"{number}"],
            stdin=subprocess.PIPE,  # it closes when this process ends
            pass_fds=[number],
            start_new_session=True,  # Ctrl-C is for the gateway
            text=True,
        )
        self._started_at = time.monotonic()
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

    async def answer(self, ending: Callable[[], bool], request: Request) -> Response:
        """Return the answer of the pages to a request; raise `Busy` if there are too many.

        ending: returns whether the gateway is about to end; live pages then end too.
        """
        if self._under_way >= MOST or not self._start():
            raise Busy
        self._under_way += 1
        try:
            return await self._passed(request, ending)
        except BaseException:
            self._under_way -= 1
            raise

    async def _passed(self, request: Request, ending: Callable[[], bool]) -> Response:
        """Send a request; return the answer, whose body follows as it comes."""
        body = await read_body(request, MAX_FORM_BYTES)
        reader, writer = await asyncio.open_unix_connection(self._path, limit=MAX_HEAD_BYTES)
        try:
            writer.write(_head(request, len(body)) + body)
            status, headers = await self._while_it_runs(_answered(reader))
        except BaseException as error:
            writer.close()
            if isinstance(error, (OSError, EOFError, asyncio.TimeoutError)):
                raise Busy from error
            raise

        def end() -> None:
            writer.close()
            self._under_way -= 1

        answer = _Answer(_body(reader, ending), status, end)
        answer.raw_headers = headers
        return answer

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


class _Answer(StreamingResponse):
    """An answer that is passed on. end: called when it is complete, or the client is gone."""

    def __init__(self, body: AsyncIterator[bytes], status: int, end: Callable[[], None]) -> None:
        super().__init__(body, status)
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._end()


async def _body(reader: asyncio.StreamReader, ending: Callable[[], bool]) -> AsyncIterator[bytes]:
    while not ending() and (chunk := await reader.read(_CHUNK)):
        yield chunk


def _head(request: Request, length: int) -> bytes:
    """Return the head of a request as it is passed on, in HTTP/1.0: one for each connection."""
    path = request.scope["raw_path"] + b"?" + request.scope["query_string"]
    kept = [name + b": " + value for name, value in request.scope["headers"] if name in _THERE]
    lines = [f"{request.method} ".encode() + path + b" HTTP/1.0", *kept]
    return b"\r\n".join([*lines, b"content-length: %d" % length, b"", b""])


async def _answered(reader: asyncio.StreamReader) -> tuple[int, list[tuple[bytes, bytes]]]:
    """Return the status and the headers of an answer."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).rstrip().split(b"\r\n")
    headers = [line.split(b": ", 1) for line in lines]
    return int(first.split(b" ")[1]), [
        (name.lower(), value) for name, value in headers if name.lower().decode() not in _CONNECTION
    ]
