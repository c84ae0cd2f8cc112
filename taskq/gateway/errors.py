"""Errors over HTTP: a status, a code for programs, a sentence for people."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from taskq.gateway.messages import BadRequest, encode
from taskq.model import errors
from taskq.model.errors import SessionEnded
from taskq_agent.errors import AnswerUnreadable, Refused, SessionLost, TransportFailed

_NOT_NOW: Final = 503
_UPGRADED: Final = "the queue was upgraded; restart this gateway with that release"
#: Clients a second that are asked to come back, so that a second try finds the gateway less busy.
#: With many clients the rate rises, so that all are back within `_SOON_S`; but only up to the last
#: rate, which can be served.
_BACK_PER_S: Final = 1_000
_SOON_S: Final = 4.4
_MOST_BACK_PER_S: Final = 10_000


class Busy(Exception):
    """There is too much to do already; come again later.

    after_s: seconds until there is likely to be room; None if it was not measured.
    """

    def __init__(self, after_s: float | None = None) -> None:
        super().__init__("the gateway has too much to do; try again later")
        self.after_s = after_s


class Draining(Exception):
    """This gateway is about to end; use another one."""


class TooLarge(Exception):
    """A body is larger than is allowed."""


class TooSlow(Exception):
    """The request did not arrive in time."""


class StatementTooLong(Exception):
    """What was asked for takes the database too long; ask for less, or ask PostgreSQL itself."""


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An answer that is an error.

    retry: whether the same request may succeed later. after_s: seconds until then, if known. kind,
    details: the name of the exception in `model.errors`, and its fields, for taskq's own client.
    """

    status: int
    code: str
    message: str
    retry: bool = False
    after_s: float | None = None
    kind: str = ""
    details: Mapping[str, Any] | None = None

    def body(self) -> bytes:
        """Return the answer's body."""
        known: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.kind:
            known |= {"kind": self.kind, "details": self.details or {}}
        return encode({"error": known})


def failure(error: Exception) -> ErrorAnswer:
    """Return the answer for an error; the text of an unexpected error is not disclosed."""
    if isinstance(error, errors.SchemaError) or isinstance(error.__cause__, errors.SchemaError):
        return ErrorAnswer(_NOT_NOW, "upgraded", _UPGRADED, retry=True)
    for kind, status, code in KNOWN:
        if isinstance(error, kind):
            text = str(error) or kind.__doc__ or ""
            if code == "unavailable":  # its own text names the database's address, and more
                text = "the database does not answer now"
            elif kind is errors.ValueRefused:  # its own text is the database's
                text = "a value of this request cannot be stored"
            after_s = error.after_s if isinstance(error, Busy) else None
            return ErrorAnswer(status, code, text, status == _NOT_NOW, after_s)
    return ErrorAnswer(500, "defect", "the gateway has failed; its log says why")


def retry_after_s(connections: int) -> float:
    """Return random seconds to stay away, so that clients come back spread over time.

    No client stays away for long: for a client, an outage lasts until it asks again. Each stays
    away for at least half of the time, so that it does not ask more often than it must.
    """
    spread_s = max(1.0, min(connections / _BACK_PER_S, _SOON_S), connections / _MOST_BACK_PER_S)
    return round(random.uniform(spread_s / 2, spread_s), 2)  # noqa: S311  # spreads them


#: Exceptions, each with the status and the code of its answer; the first that fits.
KNOWN: Final[tuple[tuple[type[Exception], int, str], ...]] = (
    (BadRequest, 400, "malformed"),
    (errors.Unauthorized, 401, "unauthorized"),
    (errors.Forbidden, 403, "forbidden"),
    (errors.NotFound, 404, "not_found"),
    (errors.NotOverGateway, 404, "not_offered"),
    (TooSlow, 408, "too_slow"),
    (errors.KeyConflict, 409, "key_conflict"),
    (errors.Conflict, 409, "conflict"),
    (SessionLost, 410, "session_lost"),
    (SessionEnded, 410, "session_lost"),
    (TooLarge, 413, "too_large"),
    (errors.ValueRefused, 422, "refused"),
    (errors.UsageError, 422, "refused"),
    (Refused, 422, "refused"),
    (StatementTooLong, 504, "too_long"),
    (Busy, 503, "busy"),
    (Draining, 503, "draining"),
    (AnswerUnreadable, 500, "unreadable"),
    (TransportFailed, 503, "unavailable"),
    (errors.Unavailable, 503, "unavailable"),
)
