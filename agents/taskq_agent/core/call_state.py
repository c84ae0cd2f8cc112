"""The agent's side of its talk with the queue: one call at a time, repeated until answered."""

from __future__ import annotations

import math
from typing import Callable, Optional

from taskq_agent.core.backoff import Backoff
from taskq_agent.core.events import Call, SendExchange
from taskq_agent.errors import TransportError, TransportFailed
from taskq_agent.protocol import Request, Welcome

_FIRST_REPEAT_S = 0.5
_LAST_REPEAT_S = 30.0


class CallState:
    """Which session is open, which call is under way, and when it may be made again.

    A call is in the air from `sent` to `answered`, `failed` or `dropped`. One that failed stays
    the current call, and is to be sent again as it is. expires_at: when the session must have
    expired if no further beat is answered. A claim that is parked is a beat; other exchanges do not
    renew the lease.
    """

    def __init__(self, uniform: Callable[[], float]) -> None:
        self.session: Optional[int] = None
        self.call: Optional[Call] = None
        self.in_flight = False
        self.failing_since: Optional[float] = None
        self.expires_at = math.inf
        self._lease_s = math.inf
        self._sent_at = 0.0
        self._not_before = 0.0
        self._uniform = uniform
        self._repeats = Backoff(_FIRST_REPEAT_S, _LAST_REPEAT_S, uniform)

    def is_ready(self, now: float) -> bool:
        """Tell whether a call may be sent: the one that failed, or a new one."""
        return not self.in_flight and now >= self._not_before

    def ready_at(self) -> Optional[float]:
        """Return when a call may be sent; None while one is in the air."""
        return None if self.in_flight else self._not_before

    def claim(self) -> Optional[Request]:
        """Return the claim whose outcome is not known yet, if there is one."""
        if isinstance(self.call, SendExchange) and self.call.request.want:
            return self.call.request
        return None

    def long_poll(self) -> Optional[Request]:
        """Return the current claim if the queue may park it: keep it until it has tasks."""
        claim = self.claim()
        return claim if claim is not None and claim.wait_s > 0 else None

    def is_long_polling(self) -> bool:
        """Tell whether the queue may have parked a claim in the air; it takes that for a beat."""
        return self.in_flight and self.long_poll() is not None

    def has_long_polled(self, now: float) -> bool:
        """Tell whether the queue has parked the claim for most of the time it may."""
        claim = self.long_poll()
        return claim is not None and now - self._sent_at >= claim.wait_s / 2

    def drop_long_poll(self) -> Optional[Request]:
        """Drop a claim that the queue may park; return it if it is in the air instead."""
        claim = self.long_poll()
        if claim is not None and not self.in_flight:
            self.dropped()
            return None
        return claim

    def opened(self, welcome: Welcome, now: float) -> None:
        """Note the session that is open now."""
        self.session = welcome.session
        self._lease_s = welcome.lease_s
        self.expires_at = now + self._lease_s

    def renewed(self, at: float) -> None:
        """Note that the lease was renewed, at that time or later."""
        self.expires_at = max(self.expires_at, at + self._lease_s)

    def sent(self, call: Call, now: float) -> None:
        """Note that the call is in the air."""
        self.call = call
        self.in_flight = True
        self._sent_at = now

    def answered(self, now: float) -> Optional[float]:
        """Note that the call was answered; return how long the queue had been away, if it was."""
        failing_since = self.failing_since
        if isinstance(self.call, SendExchange):
            self._repeats.reset()
        if self.is_long_polling():
            self.renewed(self._sent_at)
        self.dropped()
        self.failing_since = None
        return None if failing_since is None else now - failing_since

    def failed(self, now: float, error: TransportError) -> None:
        """Note that no answer came: the same call is to be made again, after a while.

        If the queue itself has said after which while, it knows better than we do.
        """
        retry_after_s = error.retry_after_s if isinstance(error, TransportFailed) else None
        self.in_flight = False
        if self.failing_since is None:
            self.failing_since = now
        if retry_after_s is None:
            self._not_before = now + self._repeats.draw()
        else:
            self._not_before = now + retry_after_s + self._uniform() * _FIRST_REPEAT_S

    def hasten(self, now: float) -> None:
        """Try again at once what is waiting to be repeated: there may be little time left."""
        self._not_before = now
        self._repeats.reset()

    def dropped(self) -> None:
        """Note that the call is not to be made again."""
        self.call = None
        self.in_flight = False

    def lost_session(self, now: float) -> None:
        """Note that the session is void.

        Nothing is sent for a while: the queue may not keep the next session either. A call in
        the air is left to its end.
        """
        self.session = None
        if not self.in_flight:
            self.call = None
        self._not_before = now + self._repeats.draw()
