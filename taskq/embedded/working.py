"""Whether a server works: it does if it runs a statement, not because it listens.

A server whose shared memory or programs were removed accepts connections and fails. This speaks
PostgreSQL's protocol itself, so nothing in the environment leads it to another server; see
https://www.postgresql.org/docs/current/protocol-message-formats.html.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import IO, Final

from taskq.model.errors import BROKEN

ANSWER_S: Final = 10.0

_VERSION: Final = 196_608
#: It needs memory that the server shares out, and a library of the server's.
_STATEMENT: Final = b"do $$ begin end $$"
_ERROR: Final = b"E"
_READY: Final = b"Z"


def fault_of(door: Path, role: str, database: str) -> str | None:
    """Return what a server at a socket says if it can no longer work; None otherwise.

    None also if it is busy, refuses the login, or answers nothing: a restart would not help, or
    would end what others do.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            server.settimeout(ANSWER_S)
            server.connect(os.fspath(door))
            words = ("user", role, "database", database)
            start = b"".join(word.encode() + b"\0" for word in words) + b"\0"
            server.sendall(_sized(_VERSION.to_bytes(4, "big") + start))
            with server.makefile("rb") as answer:
                fault = _until_ready(answer)
                if fault is None:
                    server.sendall(b"Q" + _sized(_STATEMENT + b"\0"))
                    fault = _until_ready(answer)
    except (OSError, EOFError):
        return None
    code, said = fault or ("", "")
    return said if code.startswith(BROKEN) else None


def _sized(body: bytes) -> bytes:
    return (len(body) + 4).to_bytes(4, "big") + body


def _until_ready(answer: IO[bytes]) -> tuple[str, str] | None:
    """Read until the server waits for a statement; return the SQLSTATE and text of an error."""
    while True:
        kind, size = answer.read(1), int.from_bytes(answer.read(4), "big")
        body = answer.read(size - 4) if size >= len(_sized(b"")) else b""
        if not kind:
            raise EOFError
        if kind == _ERROR:
            fields = {part[:1]: part[1:].decode(errors="replace") for part in body.split(b"\0")}
            return fields.get(b"C", ""), fields.get(b"M", "")
        if kind == _READY:
            return None
        if kind == b"R" and body[:4] != bytes(4):
            raise EOFError  # it asks for a password
