"""Answers of a gateway: rows of statements, or errors, each of which stands for an exception."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from taskq.db.rows import Row
from taskq.db.stored_json import loads
from taskq.model import errors
from taskq.model.errors import Clash, KeyConflict, NotOverGateway, TaskqError
from taskq_agent.http.answers import error_in, retry_after_s
from taskq_agent.text import clean

_MAX_TEXT_CHARS: Final = 2_000
_TURNED_AWAY: Final = frozenset({"busy", "draining"})
_PASSING: Final = frozenset({429, 502, 503})
#: For answers that name no exception, such as of another release.
_BY_STATUS: Final[dict[int, type[TaskqError]]] = {
    400: errors.UsageError,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.ServerUnsuitable,
    413: errors.UsageError,
    422: errors.UsageError,
}


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


#: Types that JSON lacks, by PostgreSQL's names.
_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "timestamptz": _instant,
    "timestamptz[]": lambda texts: [*map(_instant, texts)],
    "numeric": Decimal,
    "numeric[]": lambda texts: [*map(Decimal, texts)],
    "bytea": b64decode,
    "bytea[]": lambda texts: [*map(b64decode, texts)],
}


class Refusal(Exception):
    """An answer that is an error. code, message, kind, details: as the gateway sends them."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        kind: str = "",
        details: Mapping[str, Any] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.kind = kind
        self.details = details or {}
        self.retry_after_s = retry_after_s

    @property
    def is_passing(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in _PASSING

    @property
    def is_turned_away(self) -> bool:
        """Whether the gateway has done nothing."""
        return self.code in _TURNED_AWAY

    def error(self, name: str) -> TaskqError:
        """Return the exception that it stands for. name: of the statement."""
        if self.code == "not_offered":
            return NotOverGateway(name)
        kind = getattr(errors, self.kind, None) if self.kind.isidentifier() else None
        if kind is KeyConflict:
            return _key_conflict(self.message, self.details)
        if isinstance(kind, type) and issubclass(kind, TaskqError):
            try:
                return errors.from_server(kind, self.message)
            except TypeError:  # its class has more fields
                pass
        found = _BY_STATUS.get(self.status, errors.Unavailable)
        older = " (is it of an older release?)" if found is errors.ServerUnsuitable else ""
        return found(f"the gateway answers {self.status} {self.code}: {self.message}{older}")


def read_refusal(status: int, retry_after: str | None, body: bytes) -> Refusal:
    """Return the refusal in an answer; without a code if its body is not a gateway's."""
    error = error_in(body)
    known = error or {"code": "", "message": body[: 4 * _MAX_TEXT_CHARS].decode("utf-8", "replace")}
    code, message = known["code"], known["message"]
    details = known.get("details")
    return Refusal(
        status,
        clean(code)[:100],
        " ".join(clean(message).split())[:_MAX_TEXT_CHARS],
        kind=str(known.get("kind", "")),
        details=details if isinstance(details, dict) else {},
        retry_after_s=retry_after_s(retry_after),
    )


def answered_rows(body: bytes) -> list[Row]:
    """Return the rows in an answer; raise `ValueError` if it has another form."""
    try:
        head, *lines = body.rstrip(b"\n").split(b"\n")
        columns = [(str(name), _CONVERTERS.get(kind)) for name, kind in json.loads(head)]
        names = [name for name, _ in columns]
        converted = [(place, turn) for place, (_, turn) in enumerate(columns) if turn is not None]
        rows = []
        for line in lines:
            values = loads(line)
            for place, turn in converted:
                if values[place] is not None:
                    values[place] = turn(values[place])
            rows.append(dict(zip(names, values, strict=True)))
    except (LookupError, TypeError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"the answer makes no sense: {error}") from None
    return rows


def _key_conflict(message: str, details: Mapping[str, Any]) -> KeyConflict:
    try:
        clashes = [
            Clash(str(key), str(stored), str(offered), int(number))
            for key, stored, offered, number in details["clashes"]
        ]
        return KeyConflict(
            message,
            count=int(details["count"]),
            clashes=clashes,
            too_long=bool(details["too_long"]),
        )
    except (LookupError, TypeError, ValueError):
        return KeyConflict(message)
