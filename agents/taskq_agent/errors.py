"""Exceptions of handlers and of transports.

HandlerError          raised by payload code to say how an attempt ended
├── Retry               failed for now: try the task again later
├── FailForGood         failed finally: no further attempt can help
├── Continue            not done yet: another attempt goes on from the checkpoint
└── NodeBroken          not on this node: hand the task back, leave the campaign to other nodes
TransportError        raised by a transport
├── TransportFailed     no answer: repeat the same request later
│   └── AnswerUnreadable  one that the agent cannot read: repeat it once
├── SessionLost         the session is no longer valid: open another
└── Refused             the request can never be served: shut down; for reports see `delivery`
"""

from __future__ import annotations

from typing import Optional


class HandlerError(Exception):
    """Base class of the exceptions by which payload code says how its attempt ended."""


class Retry(HandlerError):
    """The attempt failed for a transient reason; counts as a failed attempt."""


class FailForGood(HandlerError):
    """The task can never succeed; it fails without a further attempt."""


class Continue(HandlerError):
    """The checkpoint has progress; the task goes back and another attempt goes on from there."""


class NodeBroken(HandlerError):
    """This node cannot run such tasks; the task goes back uncounted, the campaign is left out."""


class TransportError(Exception):
    """A request to the queue did not succeed."""


class TransportFailed(TransportError):
    """No answer came; the same request may be repeated and then gets the same answer.

    retry_after_s: the queue asks for a pause of so many seconds; None: it did not.
    """

    def __init__(self, text: str, retry_after_s: Optional[float] = None) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s


class AnswerUnreadable(TransportFailed):
    """The answer holds what cannot be read here, as a payload: a repetition may hold it again."""


class SessionLost(TransportError):
    """The session has expired or was ended; its leases are no longer valid."""


class Refused(TransportError):
    """The queue will never serve this request: wrong campaign, rights or release.

    The reports of a refused exchange are sent one at a time, to find the one that is the reason;
    see `delivery`.
    """
