"""Exceptions of handlers and of transports.

HandlerError          raised by payload code to say how an attempt ended
├── Retry               failed for now: try the task again later
├── FailForGood         failed finally: no further attempt can help
├── Continue            not done yet: another attempt goes on from the checkpoint
└── NodeBroken          not on this node: hand the task back, leave the campaign to other nodes
TransportError        raised by a transport
├── TransportFailed     no answer: repeat the same request later
│   ├── AnswerUnreadable  an answer that the agent cannot read: repeat the request once
│   └── LostOnTheWay    something else answered, or nothing did: another content may come through
├── SessionLost         the session is no longer valid: open another
└── Refused             the request can never be served: shut down; for reports see `delivery`
"""

from __future__ import annotations

from typing import Optional


class HandlerError(Exception):
    """Base class of the exceptions with which payload code says how its attempt ended."""


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

    retry_after_s: the pause in seconds that the queue asks for; None if it asks for none.
    """

    def __init__(self, text: str, retry_after_s: Optional[float] = None) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s


class AnswerUnreadable(TransportFailed):
    """The agent cannot read the answer, such as a payload: a repetition may hold the same."""


class LostOnTheWay(TransportFailed):
    """What came back, if anything, is not from the queue: a fault of the way decides nothing.

    A proxy, a filter or a portal on the way may treat other requests in another way, or this one
    later.
    """


class SessionLost(TransportError):
    """The session has expired or was ended; its leases are no longer valid."""


class Refused(TransportError):
    """The queue will never serve this request: wrong campaign, rights or release.

    The agent sends the reports of a refused exchange one at a time, to find the cause; see
    `core.delivery`.
    """
