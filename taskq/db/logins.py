"""Why a server refuses a login, and what to do about it.

The text of a refusal is in the server's language, so its SQLSTATE decides; libpq keeps that to
itself, except in the trace of a connection. So the first time that a server refuses with some text,
the login is tried once more under a trace.
"""

from __future__ import annotations

import os
import re
import select
import time
from contextlib import suppress
from typing import Final

import psycopg
from psycopg import pq

#: Seconds for the second attempt.
TRACED_S: Final = 10.0
#: The most refusals that are remembered.
_KNOWN_AT_ONCE: Final = 100

#: Refusals that are not a server's.
READ_ONLY: Final = "25006"
ANSWERED: Final = ""

_ADVICE: Final = {
    "28P01": "check the user and the password in the address",
    "28000": (
        "check the user in the address; if it is right, the server's administrator can let you in, "
        "with `alter role ... login` or a line in pg_hba.conf"
    ),
    "3D000": (
        "check its name in the address; the server's administrator creates databases, and poolers "
        "have a list of theirs"
    ),
    "42501": "its owner can let you in, with `grant connect on database`",
}
#: PgBouncer has one code for most of its refusals, and speaks English only.
_OF_POOLERS: Final = "08P01"
_POOLERS_TEXTS: Final = {
    "no such user": "28P01",
    "authentication failed": "28P01",
    "no such database": "3D000",
}
#: The error of a server in the trace of libpq.
_CODE: Final = re.compile(rb"^B\t\d+\tErrorResponse\t.*? C \"(\w{5})\"", re.MULTILINE | re.DOTALL)
#: The SQLSTATE of refusals, by their text.
_known: dict[str, str | None] = {}


def advice(error: psycopg.Error, text: str) -> str | None:
    """Return what to do about a refused login; None for other errors.

    text: the first line of the error.
    """
    code = getattr(error, "refusal", None)
    if code == _OF_POOLERS:
        code = next((its for part, its in _POOLERS_TEXTS.items() if part in text), None)
    return _ADVICE.get(code or "")


def note_refusal(error: psycopg.OperationalError, conninfo: str) -> None:
    """Note in the error of a new connection with which SQLSTATE the server refused it, if it did.

    This may connect once more, and may take `TRACED_S`.
    """
    text = str(error)
    if error.pgconn is None or isinstance(error, psycopg.errors.ConnectionTimeout):
        return  # no server said anything
    if text not in _known:
        if len(_known) >= _KNOWN_AT_ONCE:
            _known.clear()
        _known[text] = _traced(conninfo)
    error.refusal = _known[text]  # type: ignore[attr-defined]


def _traced(conninfo: str) -> str | None:
    """Return the SQLSTATE of a server's refusal, `ANSWERED` without one, None without an answer.

    `READ_ONLY`, if libpq refuses the server because it takes no writes.
    """
    # The trace may have a password.
    trace = os.memfd_create("taskq-trace")
    try:
        attempt = pq.PGconn.connect_start(conninfo.encode())
        try:
            attempt.trace(trace)
            attempt.set_trace_flags(pq.Trace.SUPPRESS_TIMESTAMPS)
            _finish(attempt)
            is_refused = attempt.status == pq.ConnStatus.BAD
            if is_refused and attempt.needs_password:
                return "28P01"
        finally:
            with suppress(psycopg.Error):
                attempt.untrace()
            attempt.finish()
        said = os.pread(trace, os.fstat(trace).st_size, 0)
        if found := _CODE.findall(said):
            return str(found[-1], "ascii")
        if b"\tReadyForQuery\t" in said and is_refused:
            return READ_ONLY
        return ANSWERED if b"\nB\t" in said else None
    except (psycopg.Error, OSError):
        return None
    finally:
        os.close(trace)


def _finish(attempt: pq.abc.PGconn) -> None:
    until = time.monotonic() + TRACED_S
    while (rest_s := until - time.monotonic()) > 0:
        state = attempt.connect_poll()
        if state in {pq.PollingStatus.OK, pq.PollingStatus.FAILED}:
            return
        ready = select.poll()
        is_read = state == pq.PollingStatus.READING
        ready.register(attempt.socket, select.POLLIN if is_read else select.POLLOUT)
        ready.poll(rest_s * 1000)
