"""Heartbeats that keep a session alive, from a thread of their own, and what they carry."""

from __future__ import annotations

import logging
import math
import os
import random
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Callable, Container, FrozenSet, List, Optional, Sequence, Tuple

from taskq_agent.core.events import (
    AgentFailed,
    CallFailed,
    Event,
    HeartbeatAnswered,
    HeartbeatFailed,
    OthersStopOrdered,
    StopOrdered,
)
from taskq_agent.errors import LostOnTheWay, Refused, SessionLost, TransportError, TransportFailed
from taskq_agent.protocol import (
    Answer,
    Heartbeat,
    Held,
    Trouble,
    Welcome,
)
from taskq_agent.spool import Spool
from taskq_agent.task_messages import (
    MAX_OUTPUTS,
    MAX_UPDATES,
    FollowingAnswer,
    Update,
    UpdatingHeartbeat,
)
from taskq_agent.threads import CHECK_S, Slot, Watchdog
from taskq_agent.transport import Transport
from taskq_agent.warning_words import (
    CLOCK_OFF,
    DISK_FULL,
    EXCHANGES_FAIL,
    SPOOL_UNUSABLE,
    TRANSFERS_FAIL,
)
from taskq_agent.wire import fitted

_PATIENCE_S = 0.5
#: Heartbeats with more held attempts than this are large enough without updates.
_MOST_HELD = 4_000


#: A scratch disk with less free than this share of it and these bytes is nearly full.
_LOW_SHARE = 0.05
_LOW_BYTES = 1 << 30
_CLOCK_OFF_S = 60.0
#: A warning needs a transfer that fails for so long, or so many exchanges in a row over so long: a
#: single one that waits for tasks may be ended early.
_LEAST_FAILED = 3
_FAILING_S = 20.0

log = logging.getLogger(__name__)

_LONGEST_RETRY_S = 5.0
_FOLLOWED_S = 2.0
#: Seconds between heartbeats while they say which tasks have begun, for so many of these.
_BEGUN_S, _BEGUN = 5.0, 100


class Warnings:
    """Warnings about the agent and its host, for the queue's operators.

    scratch: the folder whose disk is watched. spool: None if there is none. slots: their transfers
    are watched.
    """

    def __init__(
        self, scratch: Optional[Path], spool: Optional[Spool], slots: Sequence[Slot] = ()
    ) -> None:
        self._scratch = scratch
        self._spool = spool
        self._slots = slots
        self._disk_low = False
        self._queue_ahead_s: Optional[float] = None
        self._heard: Tuple[str, ...] = ()
        self._failed = 0
        self._failing_since = 0.0
        self._failure = ""

    def note(self, event: Event) -> None:
        """Note whether an exchange was answered."""
        if isinstance(event, Answer):
            self._failed = 0
        elif isinstance(event, CallFailed):
            if not self._failed:
                self._failing_since = time.monotonic()
            self._failed += 1
            self._failure = str(event.error)

    def opened(self, welcome: Welcome) -> None:
        """Begin a session; compare the queue's clock with the monotonic one, which nobody sets."""
        self._heard = ()
        self._failed = 0
        if welcome.now:
            self._queue_ahead_s = welcome.now - time.monotonic()

    def look_at_disk(self) -> None:
        """Check how much of the disk is free; this may wait for the file system."""
        if self._scratch is not None:
            with suppress(OSError):
                usage = os.statvfs(self._scratch)
                low = usage.f_bavail < _LOW_SHARE * usage.f_blocks
                self._disk_low = low and usage.f_bavail * usage.f_frsize < _LOW_BYTES

    def is_news(self, words: Tuple[str, ...]) -> bool:
        """Return whether these warnings differ from those that the queue has of this session."""
        return words != self._heard

    def heard(self, heartbeat: Heartbeat) -> None:
        """Note that the queue has got this heartbeat."""
        self._heard = () if heartbeat.trouble is None else heartbeat.trouble.warnings

    def words(self) -> Tuple[str, ...]:
        """Return the words for a heartbeat."""
        found = []
        if self._spool is not None and self._spool.is_unusable:
            found.append(SPOOL_UNUSABLE)
        if self._disk_low:
            found.append(DISK_FULL)
        if self._queue_ahead_s is not None:
            off_s = time.time() - time.monotonic() - self._queue_ahead_s
            if abs(off_s) > _CLOCK_OFF_S:
                found.append(CLOCK_OFF)
        if self._exchanges_fail():
            found.append(EXCHANGES_FAIL)
        if self._failing_transfers():
            found.append(TRANSFERS_FAIL)
        return tuple(found)

    def cause(self) -> str:
        """Return what came in place of an answer, if exchanges or transfers fail."""
        if self._exchanges_fail():
            return self._failure
        return next(iter(self._failing_transfers()), "")

    def _exchanges_fail(self) -> bool:
        long_ago = time.monotonic() - _FAILING_S
        return self._failed >= _LEAST_FAILED and self._failing_since < long_ago

    def _failing_transfers(self) -> List[str]:
        long_ago = time.monotonic() - _FAILING_S
        failing = [slot.runner.transfer_failure for slot in self._slots]
        return [
            failure.why for failure in failing if failure is not None and failure.since < long_ago
        ]


class UpdateCollector:
    """Collects updates in its own thread: a heartbeat must not wait for files of payloads.

    look: called there as well, before each heartbeat.
    """

    def __init__(self, slots: Sequence[Slot], look: Callable[[], object] = lambda: None) -> None:
        self._slots = slots
        self._look = look
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
            self._look()
            found = (slot.runner.update(followed) for slot in self._slots)
            return tuple(update for update in found if update is not None)
        except Exception:
            log.exception("the updates of attempts cannot be collected")
            return ()


def with_warnings(
    heartbeat: Optional[Heartbeat], words: Tuple[str, ...], cause: str = ""
) -> Optional[Heartbeat]:
    """Return a heartbeat with further warnings, and their cause unless it has one."""
    if heartbeat is None or not (words or heartbeat.trouble):
        return heartbeat
    known = heartbeat.trouble or Trouble()
    warnings = (*known.warnings, *words)
    trouble = replace(known, warnings=warnings, cause=known.cause or (cause if words else ""))
    return replace(heartbeat, trouble=fitted(trouble))


def with_updates(heartbeat: Optional[Heartbeat], found: Sequence[Update]) -> Optional[Heartbeat]:
    """Return a heartbeat with updates of attempts that it names, as many as it may carry."""
    if heartbeat is None or len(heartbeat.held) > _MOST_HELD:
        return heartbeat
    held = frozenset(heartbeat.held)
    updates = sorted(
        (update for update in found if update.held in held),
        key=lambda update: update.output is None,
    )
    if not updates:
        return heartbeat
    silent = [
        replace(update, output=None, written=0) for update in updates[MAX_OUTPUTS:MAX_UPDATES]
    ]
    return UpdatingHeartbeat(**vars(heartbeat), updates=(*updates[:MAX_OUTPUTS], *silent))


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
    heartbeat.

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
        watchdog: Watchdog,
    ) -> None:
        self._transport = transport
        self._snapshot = snapshot
        self._post = post
        self._check_loop = check_loop
        self._heard = heard
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
        if self._lost:
            heartbeat = without_texts(heartbeat)
        try:
            answer = self._transport.heartbeat(heartbeat)
        except TransportError as error:
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
            HeartbeatAnswered(heartbeat.session, answer.orders, answer.timeline, answer.suspect)
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
