"""What a handler may raise, and what a transport may raise.

HandlerError          raised by payload code to say how an attempt ended
├── Retry               not now: try the task again later
├── FailForGood         never: no further attempt can help
└── NodeBroken          not here: hand the task back, and leave the campaign to other nodes
TransportError        raised by a transport
├── TransportFailed     no answer: repeat the same request later
├── SessionLost         the queue has given the session up: open another
└── Refused             the request can never be served: stop, or, if it reports, see delivery
"""

from __future__ import annotations

from typing import Optional


class HandlerError(Exception):
    """Payload code says how its attempt ended."""


class Retry(HandlerError):
    """The attempt failed for a passing reason; counts as a failed attempt."""


class FailForGood(HandlerError):
    """The task can never succeed; it is failed without a further attempt."""


class NodeBroken(HandlerError):
    """This node cannot do such tasks; the task goes back uncounted, the campaign is left out."""


class TransportError(Exception):
    """A request to the queue did not succeed."""


class TransportFailed(TransportError):
    """No answer came; the same request may be repeated and then gets the same answer.

    retry_after_s: the queue asks not to hear of it again for so long; None: it did not say.
    """

    def __init__(self, text: str, retry_after_s: Optional[float] = None) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s


class SessionLost(TransportError):
    """The session has expired or was ended; its leases are void."""


class Refused(TransportError):
    """The queue will never serve this request: wrong campaign, rights or release.

    An exchange with reports that is refused is taken apart, to find the one that is the reason;
    see `delivery`.
    """
