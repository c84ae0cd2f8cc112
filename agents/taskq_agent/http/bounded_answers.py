"""Answers over HTTP that end, whatever the other side sends before and behind their content."""

from __future__ import annotations

import io
import socket
import time
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from typing import Any, Optional

#: Answers before the one that counts, such as 100 (Continue), and lines after its content.
MAX_INTERIM_ANSWERS = 10
MAX_TRAILERS = 100

_MAX_TRAILER_BYTES = 65_537


class BoundedAnswer(HTTPResponse):
    """An answer that ends: HTTPResponse reads interim answers and trailers for ever.

    Its head, with the answers before it, must come within twice the time-out of the connection.
    """

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self._heads = 0
        self._input = _TimedInput(self.fp.detach(), sock.gettimeout())
        self.fp = io.BufferedReader(self._input)

    def begin(self) -> None:
        """Read the head."""
        super().begin()
        self._input.deadline = None

    def _read_status(self) -> Any:
        """Return the start of an answer; pass over those before it but 100, as the caller does."""
        while True:
            self._heads += 1
            if self._heads > MAX_INTERIM_ANSWERS:
                raise HTTPException(f"more than {MAX_INTERIM_ANSWERS} answers came before the one")
            start = super()._read_status()  # type: ignore[misc]  # of HTTPResponse
            if not HTTPStatus.PROCESSING <= start[1] < HTTPStatus.OK:
                return start
            self._read_and_discard_trailer()  # its headers, such as the links of 103 (Early Hints)

    def _read_and_discard_trailer(self) -> None:
        for _ in range(MAX_TRAILERS):
            if self.fp.readline(_MAX_TRAILER_BYTES) in (b"\r\n", b"\n", b""):
                return
        raise HTTPException(f"more than {MAX_TRAILERS} lines came around the answer")


class _TimedInput(io.RawIOBase):
    """What a socket receives, up to a deadline, if there is one."""

    def __init__(self, raw: io.RawIOBase, timeout_s: Optional[float]) -> None:
        super().__init__()
        self._raw = raw
        self.deadline = None if timeout_s is None else time.monotonic() + 2 * timeout_s

    def readinto(self, buffer: Any) -> Optional[int]:
        """Receive bytes; raise `socket.timeout` after the deadline."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise socket.timeout("the head of the answer is not complete in time")
        return self._raw.readinto(buffer)

    def readable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self._raw.fileno()

    def close(self) -> None:
        """Give up the socket."""
        try:
            self._raw.close()
        finally:
            super().close()
