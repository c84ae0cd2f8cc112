"""State of the calls from agent to queue: one call at a time, repeated until it is answered."""

from __future__ import annotations

import math
from typing import Callable, Optional

from taskq_agent.backoff import Backoff
from taskq_agent.core.events import Call
from taskq_agent.errors import AnswerUnreadable, LostOnTheWay, TransportError, TransportFailed
from taskq_agent.protocol import Request, Welcome

_FIRST_REPEAT_S = 0.5
# An outage is over for an agent when it asks again. 20,000 agents ask a dead server about 7,000
# times a second, which harms nobody; a server that is back gets them spread over 5 s.
_LAST_REPEAT_S = 5.0
# So many exchanges in a row, lost on the way while heartbeats come through, are lost for what they
# hold. While their reports go one at a time, two and the last heartbeat are enough.
_STUCK_AFTER = 3
_STUCK_ALONE_AFTER = 2
_HEARD_LATELY_S = 60.0
_TELL_EVERY_S = 600.0


class CallState:
    """The open session, the current call, and the time at which it may be sent.

    A call is in flight from `sent` until `answered`, `failed` or `dropped`. A call that failed
    stays the current call and is sent again unchanged. unreadable: how often in a row its answer
    could not be read. expires_at: when the session must have expired unless a further heartbeat is
    answered. stamp: see `HeartbeatAnswer`; it outlives the session. A long poll counts as a
    heartbeat; other exchanges do not renew the lease.
    """

    def __init__(self, uniform: Callable[[], float]) -> None:
        self.session: Optional[int] = None
        self.call: Optional[Call] = None
        self.in_flight = False
        self.failing_since: Optional[float] = None
        self.unreadable = 0
        self.stamp = ""
        self.expires_at = math.inf
        self._told_at = -math.inf
        self._lost = 0
        self._lost_since = math.inf
        self._heard_at = -math.inf
        self._lease_s = math.inf
        self._sent_at = 0.0
        self._not_before = 0.0
        self._most_s = math.inf
        self._uniform = uniform
        self._repeats = Backoff(_FIRST_REPEAT_S, _LAST_REPEAT_S, uniform)

    def is_ready(self, now: float) -> bool:
        """Return whether a call may be sent now: the failed one again, or a new one."""
        return not self.in_flight and now >= self._not_before

    def ready_at(self) -> Optional[float]:
        """Return when a call may be sent; None while one is in flight."""
        return None if self.in_flight else self._not_before

    def claim(self) -> Optional[Request]:
        """Return the claim whose outcome is unknown so far; None if there is none."""
        if isinstance(self.call, Request) and self.call.want:
            return self.call
        return None

    def long_poll(self) -> Optional[Request]:
        """Return the current claim if the queue may keep it waiting for tasks; else None."""
        claim = self.claim()
        return claim if claim is not None and claim.wait_s > 0 else None

    def is_long_polling(self) -> bool:
        """Return whether a long poll is in flight; the queue counts it as a heartbeat."""
        return self.in_flight and self.long_poll() is not None

    def has_long_polled(self, now: float) -> bool:
        """Return whether the current long poll has lasted at least half of its longest time."""
        claim = self.long_poll()
        return claim is not None and now - self._sent_at >= claim.wait_s / 2

    def drop_long_poll(self) -> Optional[Request]:
        """Drop a long poll that is not in flight; return one that is, for the caller to cancel."""
        claim = self.long_poll()
        if claim is not None and not self.in_flight:
            self.dropped()
            return None
        return claim

    def opened(self, welcome: Welcome, now: float) -> None:
        """Note the session that is open from now on."""
        self.session = welcome.session
        self._lease_s = welcome.lease_s
        self.expires_at = now + self._lease_s

    def renewed(self, at: float) -> None:
        """Note that the lease was renewed at that time or later."""
        self.expires_at = max(self.expires_at, at + self._lease_s)

    def heard(self, now: float, stamp: str = "") -> None:
        """Note that a heartbeat was answered, with this stamp if the queue gives any."""
        self.stamp = stamp or self.stamp
        self._heard_at = now
        self.renewed(now)

    def is_stuck(self, now: float, *, alone: bool, known: bool) -> bool:
        """Return whether something on the way lets heartbeats through, and not the current call.

        alone: the call has a single report and no claim, since an earlier one was stuck. known: it
        has been lost so before.
        """
        if known:
            return self._lost > 0
        if alone:
            return self._lost >= _STUCK_ALONE_AFTER and now - self._heard_at < _HEARD_LATELY_S
        return self._lost >= _STUCK_AFTER and self._heard_at > self._lost_since

    def unstuck(self) -> None:
        """Note that the next call holds something else."""
        self._lost, self._lost_since = 0, math.inf

    def sent(self, call: Call, now: float) -> None:
        """Note that the call is in flight."""
        self.call = call
        self.in_flight = True
        self._sent_at = now

    def answered(self, now: float) -> Optional[float]:
        """Note an answer; return for how many seconds calls had failed before, or None."""
        failing_since = self.failing_since
        if isinstance(self.call, Request):
            self._repeats.reset()
            self.unstuck()
        if self.is_long_polling():
            self.renewed(self._sent_at)
        self.dropped()
        self.failing_since = None
        return None if failing_since is None else now - failing_since

    def failed(self, now: float, error: TransportError) -> bool:
        """Note that no answer came: the same call is sent again after a backoff.

        A `retry_after_s` from the queue takes precedence over the backoff. Return whether to tell
        people: the first time, and seldom from then on.
        """
        loud = self.failing_since is None or now >= self._told_at + _TELL_EVERY_S
        if loud:
            self._told_at = now
        retry_after_s = error.retry_after_s if isinstance(error, TransportFailed) else None
        self.in_flight = False
        if not isinstance(error, LostOnTheWay):
            self.unstuck()
        elif isinstance(self.call, Request):
            self._lost += 1
            self._lost_since = min(self._lost_since, now)
        self.unreadable = self.unreadable + 1 if isinstance(error, AnswerUnreadable) else 0
        if self.failing_since is None:
            self.failing_since = now
        if retry_after_s is None:
            self._not_before = now + self._repeats.draw()
        else:
            self._not_before = (
                now + min(retry_after_s, self._most_s) + self._uniform() * _FIRST_REPEAT_S
            )
        return loud

    def hasten(self, now: float, most_s: float) -> None:
        """Allow the repeat at once and reset the backoff: little time may be left.

        most_s: the longest delay from now on, even if the queue asks for more.
        """
        self._most_s = most_s
        self._not_before = now
        self._repeats.reset()

    def dropped(self) -> None:
        """Note that the call is not sent again."""
        self.call = None
        self.in_flight = False
        self.unreadable = 0

    def lost_session(self, now: float) -> None:
        """Note that the session is no longer valid.

        Nothing is sent until a backoff has passed, since the next session may be lost too. A call
        in flight may end by itself.
        """
        self.session = None
        if not self.in_flight:
            self.call = None
        self._not_before = now + self._repeats.draw()
