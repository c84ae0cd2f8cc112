"""Refusals of requests: a status, a code for programs, a sentence for people."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

#: Clients a second that are asked to come back, so that a second try finds the server less busy.
#: With many clients the rate rises, so that all are back within `_SOON_S`; but only up to the last
#: rate, which can be served.
_BACK_PER_S: Final = 1_000
_SOON_S: Final = 4.4
_SERVED_PER_S: Final = 10_000


class Busy(Exception):
    """There is too much to do already; come again later.

    after_s: seconds until there is likely to be room; None if it was not measured.
    """

    def __init__(self, after_s: float | None = None) -> None:
        super().__init__("the gateway has too much to do; try again later")
        self.after_s = after_s


class BadRequest(ValueError):
    """A body does not fit its type or its limits."""


class TooLarge(Exception):
    """A body is larger than is allowed."""


class ClientLeft(Exception):
    """The client has gone, or was sent away: nobody waits for the answer."""


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
        text = json.dumps({"error": known}, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")

    def lines(self) -> bytes:
        """Return the lines of the head that are this answer's own."""
        retry = b"retry-after: %a\r\n" % self.after_s if self.after_s else b""
        return b"content-type: application/json\r\n" + retry


def retry_after_s(connections: int) -> float:
    """Return random seconds to stay away, so that clients come back spread over time.

    No client stays away for long: for a client, an outage lasts until it asks again. Each stays
    away for at least half of the time, so that it does not ask more often than it must.
    """
    spread_s = max(1.0, min(connections / _BACK_PER_S, _SOON_S), connections / _SERVED_PER_S)
    return round(random.uniform(spread_s / 2, spread_s), 2)  # noqa: S311  # spreads them
