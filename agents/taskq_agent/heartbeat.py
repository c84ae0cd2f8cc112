"""Heartbeats that keep a session alive, from a thread of their own."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from dataclasses import replace
from typing import Callable, FrozenSet, Optional

from taskq_agent.core.events import (
    AgentFailed,
    Event,
    HeartbeatAnswered,
    HeartbeatFailed,
    OthersStopOrdered,
    StopOrdered,
)
from taskq_agent.errors import LostOnTheWay, Refused, SessionLost, TransportError, TransportFailed
from taskq_agent.protocol import Heartbeat, Held, Welcome
from taskq_agent.task_messages import FollowingAnswer
from taskq_agent.threads import CHECK_S, Watchdog
from taskq_agent.transport import Transport

log = logging.getLogger(__name__)

_LONGEST_RETRY_S = 5.0
_FOLLOWED_S = 2.0
#: Seconds after a heartbeat from which on one that is called for is not put off, or up to twice as
#: many: what calls for it may be the same everywhere.
_EARLY_S = 10.0
#: Seconds between heartbeats while they say which tasks have begun, for so many of these.
_BEGUN_S, _BEGUN = 5.0, 100


def without_texts(heartbeat: Heartbeat) -> Heartbeat:
    """Return a heartbeat without anything that payloads or programs have written."""
    fields = {name: value for name, value in vars(heartbeat).items() if name != "updates"}
    trouble = heartbeat.trouble
    if trouble is not None:
        fields["trouble"] = replace(trouble, error_class="", cause="")
    return Heartbeat(**fields)


class HeartbeatThread:
    """Sends heartbeats for the newest session: the first at once, then at its interval.

    snapshot: takes the attempts whose output is followed, and soon returns the heartbeat to send,
    or None to send none this time. post: takes events; must not block. check_loop: called at
    least every `CHECK_S` seconds while no heartbeat is in flight. heard: takes each answered
    heartbeat. is_called_for: asked as often; whether a heartbeat, if the last is ten to twenty
    seconds old, should come before its time.

    While somebody follows an attempt, heartbeats come every two seconds; while programs say which
    of many tasks have begun, every five or more. One that was lost on the way is followed by one
    without texts: a filter may dislike what an attempt has printed, and the session must not expire
    for that.
    """

    task = "a heartbeat"

    def __init__(
        self,
        transport: Transport,
        snapshot: Callable[[FrozenSet[Held]], Optional[Heartbeat]],
        post: Callable[[Event], None],
        check_loop: Callable[[], None],
        *,
        heard: Callable[[Heartbeat], object] = lambda _: None,
        is_called_for: Callable[[], bool] = lambda: False,
        watchdog: Watchdog,
    ) -> None:
        self._transport = transport
        self._snapshot = snapshot
        self._post = post
        self._check_loop = check_loop
        self._heard = heard
        self._is_called_for = is_called_for
        self._early = math.inf
        self._watchdog = watchdog
        self._changed = threading.Condition()
        self._heartbeat_s = 0.0
        self._due = math.inf
        self._failing = self._lost = False
        self._followed: FrozenSet[Held] = frozenset()
        self._stopped = self._leaving = False
        self._thread = threading.Thread(target=self._run, name="taskq-heartbeat", daemon=True)
        self._thread.start()

    def keep(self, welcome: Welcome) -> None:
        """Send heartbeats for this session from now on."""
        with self._changed:
            self._heartbeat_s = welcome.heartbeat_s
            self._due = time.monotonic()
            self._changed.notify()

    def leave(self) -> None:
        """Send no more heartbeats; the session ends, so how one in flight ends does not matter."""
        with self._changed:
            self._leaving, self._due = True, math.inf

    def is_hung(self, now: float) -> bool:
        """Return whether the thread has made no progress for too long; see `Watchdog`."""
        return self._watchdog.is_hung(now)

    def close(self, timeout_s: float) -> None:
        """Send no more heartbeats; wait at most so long for a heartbeat in flight."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while self._wait():
                self._watchdog.reset()
                self._check_loop()
                now = time.monotonic()
                if now >= self._due or self._is_early(now):
                    self._send_heartbeat()
        except Exception:
            log.exception("the heartbeat thread has failed")
            self._post(AgentFailed("its heartbeats have failed"))

    def _is_early(self, now: float) -> bool:
        """Return whether a heartbeat is called for before it is due."""
        return self._early <= now and self._due < math.inf and self._is_called_for()

    def _wait(self) -> bool:
        with self._changed:
            wait_s = min(self._due - time.monotonic(), CHECK_S)
            if not self._stopped and wait_s > 0:
                self._changed.wait(wait_s)
            return not self._stopped

    def _send_heartbeat(self) -> None:
        with self._changed:
            heartbeat_s, self._due = self._heartbeat_s, math.inf
        begun = time.monotonic()
        self._early = begun + _EARLY_S / _spread(0.5)
        heartbeat = self._snapshot(self._followed)
        if heartbeat is None:
            self._schedule(begun + heartbeat_s)
            return
        if self._lost:
            heartbeat = without_texts(heartbeat)
        try:
            answer = self._transport.heartbeat(heartbeat)
        except TransportError as error:
            self._early = math.inf  # when to try again is decided below
            if self._leaving:
                log.debug("a heartbeat failed while the session ended: %s", error)
                return
            if isinstance(error, (SessionLost, Refused)):
                self._post(HeartbeatFailed(heartbeat.session, error))
                return
            log.log(
                logging.DEBUG if self._failing else logging.WARNING, "a heartbeat failed: %s", error
            )
            self._failing, self._lost = True, isinstance(error, LostOnTheWay)
            retry_s = min(heartbeat_s / 4, _LONGEST_RETRY_S) * _spread(0.5)
            if isinstance(error, TransportFailed) and error.retry_after_s is not None:
                retry_s += min(error.retry_after_s, heartbeat_s)  # the session must not expire
            self._schedule(time.monotonic() + retry_s)
            return
        self._failing = self._lost = False
        self._heard(heartbeat)
        self._post(
            HeartbeatAnswered(
                heartbeat.session,
                answer.orders,
                answer.timeline,
                answer.suspect,
                answer.banned,
                answer.stamp,
            )
        )
        for held in answer.stop:
            self._post(StopOrdered(held))
        for left in answer.left:
            self._post(OthersStopOrdered(left))
        self._followed = frozenset(answer.follow if isinstance(answer, FollowingAnswer) else ())
        interval_s = min(heartbeat_s, needed_every_s(heartbeat, self._followed))
        self._schedule(begun + interval_s * _spread(0.9))

    def _schedule(self, due: float) -> None:
        with self._changed:
            if not self._leaving:
                self._due = min(self._due, due)  # `keep` may have come in between


def needed_every_s(heartbeat: Heartbeat, followed: FrozenSet[Held]) -> float:
    """Return after how many seconds what changes is worth another heartbeat."""
    if followed:
        return _FOLLOWED_S
    # They cost the server about as much as a heartbeat for each hundred.
    begun = sum(len(claim.begun or ()) for claim in heartbeat.claims)
    return _BEGUN_S * max(1.0, begun / _BEGUN) if begun else math.inf


def _spread(least: float) -> float:
    """Return a random factor up to 1, so that agents do not send heartbeats in step."""
    return random.uniform(least, 1.0)  # noqa: S311 - no secret
