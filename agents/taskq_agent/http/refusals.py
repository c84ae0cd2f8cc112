"""What an agent makes of an answer that is no success."""

from __future__ import annotations

import json
import math
from http import HTTPStatus
from typing import Optional, Tuple

from taskq_agent.errors import Refused, SessionLost, TransportError, TransportFailed
from taskq_agent.text import clean

_MAX_TEXT_CHARS = 300
_MAX_RETRY_AFTER_S = 300.0
_REFUSED = frozenset({400, 401, 403, 404, 405, 413, 422})
_BUSY = "busy"


class GatewayFailed(TransportFailed):
    """It is this gateway that has failed, rather than the queue: another may serve."""


def error_of(
    status: int, retry_after: Optional[str], body: bytes, *, with_session: bool
) -> TransportError:
    """Return the error that an answer stands for.

    with_session: the request was made by right of a session, so that a credential that is not
    known means the end of that.
    """
    code, message = _code_and_message(body)
    text = f"{status} {code}: {message}".strip(" :")
    if status == HTTPStatus.GONE or (status == HTTPStatus.UNAUTHORIZED and with_session):
        return SessionLost(text)
    if status in _REFUSED:
        return Refused(text)
    # Of what else is 503 it is this gateway that cannot: it drains, its database is out of its
    # reach, or a proxy answers for it. Where there is too much to do, others would get more of it.
    if status == HTTPStatus.TOO_MANY_REQUESTS or code == _BUSY:
        return TransportFailed(text, _seconds(retry_after))
    return GatewayFailed(text, _seconds(retry_after))


def _code_and_message(body: bytes) -> Tuple[str, str]:
    try:
        error = json.loads(body)["error"]
        found = str(error["code"]), str(error["message"])
    except (ValueError, LookupError, TypeError, RecursionError):
        found = "", body[: 4 * _MAX_TEXT_CHARS].decode("utf-8", "replace")  # a proxy's page, say
    code, message = (" ".join(clean(text).split())[:_MAX_TEXT_CHARS] for text in found)
    return code, message


def _seconds(retry_after: Optional[str]) -> Optional[float]:
    try:
        seconds = float(retry_after or "")
    except ValueError:  # none, or a date, which needs clocks that agree
        return None
    return min(max(seconds, 0.0), _MAX_RETRY_AFTER_S) if math.isfinite(seconds) else None
