"""Heartbeats that keep a session alive, from a thread of their own."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from typing import Callable, FrozenSet, Optional

from taskq_agent.core.events import (
    AgentFailed,
    Event,
    HeartbeatAnswered,
    HeartbeatFailed,
    StopOrdered,
)
from taskq_agent.errors import Refused, SessionLost, TransportError, TransportFailed
from taskq_agent.protocol import Heartbeat, Held, Welcome
from taskq_agent.transport import Transport
from taskq_agent.update_messages import FollowingAnswer
from taskq_agent.watchdog import CHECK_S, Watchdog

log = logging.getLogger(__name__)

_LONGEST_RETRY_S = 5.0
_FOLLOWED_S = 2.0


class HeartbeatThread:
    """Sends heartbeats for the newest session: the first at once, then at its interval.

    snapshot: takes the attempts whose output is followed, and soon returns the heartbeat to send,
    or None to send none this time. post: takes events; must not block. check_loop: called at
    least every `CHECK_S` seconds while no heartbeat is in flight.

    While somebody follows an attempt, heartbeats come every two seconds.
    """

    task = "a heartbeat"

    def __init__(
        self,
        transport: Transport,
        snapshot: Callable[[FrozenSet[Held]], Optional[Heartbeat]],
        post: Callable[[Event], None],
        check_loop: Callable[[], None],
        *,
        watchdog: Watchdog,
    ) -> None:
        self._transport = transport
        self._snapshot = snapshot
        self._post = post
        self._check_loop = check_loop
        self._watchdog = watchdog
        self._changed = threading.Condition()
        self._heartbeat_s = 0.0
        self._due = math.inf
        self._failing = False
        self._followed: FrozenSet[Held] = frozenset()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="taskq-heartbeat", daemon=True)
        self._thread.start()

    def keep(self, welcome: Welcome) -> None:
        """Send heartbeats for this session from now on."""
        with self._changed:
            self._heartbeat_s = welcome.heartbeat_s
            self._due = time.monotonic()
            self._changed.notify()

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
                if time.monotonic() >= self._due:
                    self._send_heartbeat()
        except Exception:
            log.exception("the heartbeat thread has failed")
            self._post(AgentFailed("its heartbeats have failed"))

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
        heartbeat = self._snapshot(self._followed)
        if heartbeat is None:
            self._schedule(begun + heartbeat_s)
            return
        try:
            answer = self._transport.heartbeat(heartbeat)
        except (SessionLost, Refused) as error:
            self._post(HeartbeatFailed(heartbeat.session, error))
            return
        except TransportError as error:
            log.log(
                logging.DEBUG if self._failing else logging.WARNING, "a heartbeat failed: %s", error
            )
            self._failing = True
            retry_s = min(heartbeat_s / 4, _LONGEST_RETRY_S) * _spread(0.5)
            if isinstance(error, TransportFailed) and error.retry_after_s is not None:
                retry_s += min(error.retry_after_s, heartbeat_s)  # the session must not expire
            self._schedule(time.monotonic() + retry_s)
            return
        self._failing = False
        self._post(
            HeartbeatAnswered(heartbeat.session, answer.orders, answer.timeline, answer.suspect)
        )
        for held in answer.stop:
            self._post(StopOrdered(held))
        self._followed = frozenset(answer.follow if isinstance(answer, FollowingAnswer) else ())
        interval_s = min(heartbeat_s, _FOLLOWED_S) if self._followed else heartbeat_s
        self._schedule(begun + interval_s * _spread(0.9))

    def _schedule(self, due: float) -> None:
        with self._changed:
            self._due = min(self._due, due)  # `keep` may have come in between


def _spread(least: float) -> float:
    """Return a random part, so that agents do not send heartbeats in step."""
    return random.uniform(least, 1.0)  # noqa: S311 - no secret
