"""What exceptions become over HTTP."""

from __future__ import annotations

from typing import Final

from taskq.db.translation import TOO_LONG
from taskq.gateway.http.errors import BadRequest, Busy, ErrorAnswer, TooLarge
from taskq.model import errors
from taskq.model.errors import SessionEnded
from taskq_agent.errors import AnswerUnreadable, Refused, SessionLost, TransportFailed

_NOT_NOW: Final = 503
_UPGRADED: Final = "the queue was upgraded; restart this gateway with that release"


class Draining(Exception):
    """This gateway is about to end; use another one."""


class StatementTooLong(Exception):
    """What was asked for takes the database too long; ask for less, or ask PostgreSQL itself."""


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


#: Exceptions, each with the status and the code of its answer; the first that fits.
KNOWN: Final[tuple[tuple[type[Exception], int, str], ...]] = (
    (BadRequest, 400, "malformed"),
    (errors.Unauthorized, 401, "unauthorized"),
    (errors.Forbidden, 403, "forbidden"),
    (errors.NotFound, 404, "not_found"),
    (errors.NotOverGateway, 404, "not_offered"),
    (errors.KeyConflict, 409, "key_conflict"),
    (errors.Conflict, 409, "conflict"),
    (SessionLost, 410, "session_lost"),
    (SessionEnded, 410, "session_lost"),
    (TooLarge, 413, "too_large"),
    (errors.ValueRefused, 422, "refused"),
    (errors.UsageError, 422, "refused"),
    (Refused, 422, "refused"),
    (StatementTooLong, 504, TOO_LONG),
    (Busy, 503, "busy"),
    (Draining, 503, "draining"),
    (AnswerUnreadable, 500, "unreadable"),
    (TransportFailed, 503, "unavailable"),
    (errors.Unavailable, 503, "unavailable"),
)
