"""What an agent warns its queue's operators of, with its heartbeats."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import List, Optional, Sequence, Tuple

from taskq_agent.core.events import CallFailed, Event
from taskq_agent.paths import is_dir
from taskq_agent.protocol import Answer, Heartbeat, Trouble, Welcome
from taskq_agent.spool import Spool
from taskq_agent.threads import Slot
from taskq_agent.warning_words import (
    CLOCK_OFF,
    DISK_FULL,
    EXCHANGES_FAIL,
    REPORTS_WITHHELD,
    SCRATCH_UNUSABLE,
    SPOOL_UNUSABLE,
    TRANSFERS_FAIL,
)
from taskq_agent.wire import fitted

#: A scratch disk with less free than this share of it and these bytes is nearly full.
_LOW_SHARE = 0.05
_LOW_BYTES = 1 << 30
_CLOCK_OFF_S = 60.0
#: A warning needs a transfer that fails for so long, or so many exchanges in a row over so long: a
#: single one that waits for tasks may be ended early.
_LEAST_FAILED = 3
_FAILING_S = 20.0


class Warnings:
    """Warnings about the agent and its host, for the queue's operators.

    scratch: the folder that is watched, with its disk. spool: None if there is none. slots: their
    transfers are watched.
    """

    def __init__(
        self, scratch: Optional[Path], spool: Optional[Spool], slots: Sequence[Slot] = ()
    ) -> None:
        self._scratch = scratch
        self._spool = spool
        self._slots = slots
        self._disk_low = False
        self._scratch_gone = False
        self._moves_seen = 0
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
        """Check the scratch folder, and how much of its disk is free.

        This may wait for the file system. Without the folder tasks work in another one.
        """
        if self._scratch is not None:
            usable = is_dir(self._scratch) and os.access(self._scratch, os.W_OK | os.X_OK)
            self._scratch_gone = not usable
            with suppress(OSError):
                usage = os.statvfs(self._scratch)
                low = usage.f_bavail < _LOW_SHARE * usage.f_blocks
                self._disk_low = low and usage.f_bavail * usage.f_frsize < _LOW_BYTES

    def calls_for_heartbeat(self) -> bool:
        """Return whether there is something to warn of, or to look at, that cannot wait."""
        moves, seen = self._moves(), self._moves_seen
        self._moves_seen = moves  # whether or not the file system lets us look
        return moves != seen or self.is_news(self.words())

    def is_news(self, words: Tuple[str, ...]) -> bool:
        """Return whether these warnings differ from those that the queue has of this session."""
        return words != self._heard

    def heard(self, heartbeat: Heartbeat) -> None:
        """Note that the queue has got this heartbeat."""
        said = () if heartbeat.trouble is None else heartbeat.trouble.warnings
        self._heard = tuple(word for word in said if word != REPORTS_WITHHELD)

    def words(self) -> Tuple[str, ...]:
        """Return the words for a heartbeat."""
        found = []
        if self._spool is not None and self._spool.is_unusable:
            found.append(SPOOL_UNUSABLE)
        if self._scratch_gone:
            found.append(SCRATCH_UNUSABLE)
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

    def _moves(self) -> int:
        return sum(slot.runner.scratch_moves for slot in self._slots)

    def _failing_transfers(self) -> List[str]:
        long_ago = time.monotonic() - _FAILING_S
        failing = [slot.runner.transfer_failure for slot in self._slots]
        return [
            failure.why for failure in failing if failure is not None and failure.since < long_ago
        ]


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
