"""Heartbeats that keep a session alive, from a thread of their own, and what they carry."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from dataclasses import replace
from typing import Callable, Container, FrozenSet, Optional, Sequence, Tuple

from taskq_agent.core.events import (
    AgentFailed,
    Event,
    HeartbeatAnswered,
    HeartbeatFailed,
    StopOrdered,
)
from taskq_agent.errors import Refused, SessionLost, TransportError, TransportFailed
from taskq_agent.protocol import Heartbeat, Held, Welcome
from taskq_agent.task_messages import (
    MAX_OUTPUTS,
    MAX_UPDATES,
    FollowingAnswer,
    TellingHeartbeat,
    Update,
)
from taskq_agent.threads import CHECK_S, Slot, Watchdog
from taskq_agent.transport import Transport

_PATIENCE_S = 0.5
#: Heartbeats with more held attempts than this are large enough without updates.
_MOST_HELD = 4_000


class UpdateCollector:
    """Collects updates in its own thread: a heartbeat must not wait for files of payloads."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._slots = slots
        self._changed = threading.Condition()
        self._asked = self._closed = False
        self._followed: Container[Held] = ()
        self._found: Tuple[Update, ...] = ()
        threading.Thread(target=self._run, name="taskq-updates", daemon=True).start()

    def collect(self, followed: FrozenSet[Held]) -> Tuple[Update, ...]:
        """Return the updates, with the output of `followed`; empty if that takes too long."""
        with self._changed:
            if self._asked:  # a file system hangs since an earlier heartbeat
                return ()
            self._asked, self._followed = True, followed
            self._changed.notify_all()
            done = self._changed.wait_for(lambda: not self._asked, _PATIENCE_S)
            return self._found if done else ()

    def close(self) -> None:
        """Collect no more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._asked or self._closed)
                followed = self._followed
            if self._closed:
                return
            found = self._collected(followed)
            with self._changed:
                self._asked, self._found = False, found
                self._changed.notify_all()

    def _collected(self, followed: Container[Held]) -> Tuple[Update, ...]:
        try:
            found = (slot.update(followed) for slot in self._slots)
            return tuple(one for one in found if one is not None)
        except Exception:
            log.exception("the updates of attempts cannot be collected")
            return ()


def with_updates(heartbeat: Optional[Heartbeat], found: Sequence[Update]) -> Optional[Heartbeat]:
    """Return a heartbeat with updates of attempts that it names, as many as it may carry."""
    if heartbeat is None or len(heartbeat.held) > _MOST_HELD:
        return heartbeat
    held = frozenset(heartbeat.held)
    updates = sorted((one for one in found if one.held in held), key=lambda one: one.output is None)
    if not updates:
        return heartbeat
    silent = [replace(one, output=None, written=0) for one in updates[MAX_OUTPUTS:MAX_UPDATES]]
    return TellingHeartbeat(**vars(heartbeat), updates=(*updates[:MAX_OUTPUTS], *silent))


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
