"""Waits at a gateway for the ends of calls, so that a client need not ask again and again.

The gateway answers when a call has ended, wherever it ran. A call for which nobody waits, since the
gateway is too old or has too many to wait for, is found by asking (`tracker`).
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from taskq.compute.tracker import EndedCall, Tracker
from taskq.db.access import Queries
from taskq.db.gateway_queries import GatewayQueries
from taskq.db.rows import Row
from taskq.model.errors import NotOverGateway

#: Longest wait. Its end brings a look for what a gateway cannot know.
WAIT_S: Final = 20.0
#: If more calls are pending, ends come so often that asking finds many at a time.
MOST_CALLS: Final = 32
#: Waits at a time, each in a thread: calls that come later have one of their own.
MOST_WAITS: Final = 4
#: Seconds without a further wait after one that was refused.
AGAIN_S: Final = 5.0
#: The longest pause between looks while all pending calls are waited for.
LOOK_S: Final = 5.0


class CallWaits:
    """The waits of one client. Thread-safe.

    ended: called, in any thread, when a wait has ended; `take` then has what it brought.
    """

    def __init__(self, database: Queries, ended: Callable[[], object]) -> None:
        self._gateway = database if isinstance(database, GatewayQueries) else None
        self._ended = ended
        self._lock = threading.Lock()
        self._covered: list[set[int]] = []
        self._brought: deque[tuple[int, list[Row]]] = deque()
        self._not_before = -math.inf

    def cover(self, trackers: Iterable[Tracker]) -> bool:
        """Wait for the ends of all pending calls; return whether all are waited for."""
        if self._gateway is None:
            return False
        with self._lock:
            covered = [self._covers(self._gateway, tracker) for tracker in trackers]
        return all(covered)

    def take(self) -> tuple[bool, list[tuple[int, list[EndedCall]]]]:
        """Return whether a look is due, and the calls by campaign that have ended."""
        brought = [self._brought.popleft() for _ in range(len(self._brought))]
        ended = [
            (campaign, [EndedCall(row["task_id"], "done", row) for row in rows])
            for campaign, rows in brought
            if rows
        ]
        return len(ended) < len(brought), ended

    def _covers(self, gateway: GatewayQueries, tracker: Tracker) -> bool:
        if len(tracker.pending) > MOST_CALLS:
            return False
        tasks = tracker.pending.after(0, MOST_CALLS)
        if not (further := [task for task in tasks if not any(task in it for it in self._covered)]):
            return True
        if len(self._covered) >= MOST_WAITS or time.monotonic() < self._not_before:
            return False
        covered = set(further)
        thread = threading.Thread(
            target=self._wait,
            args=(gateway, tracker.campaign_id, further, covered),
            name="taskq-waits",
            daemon=True,
        )
        with suppress(RuntimeError):  # there are too many threads, or the program ends
            thread.start()
            self._covered.append(covered)
        return covered in self._covered

    def _wait(
        self, gateway: GatewayQueries, campaign: int, tasks: list[int], covered: set[int]
    ) -> None:
        rows: list[Row] = []
        again_s = 0.0
        try:
            rows = gateway.results_when_ended(campaign, tasks, WAIT_S)
        except NotOverGateway:
            again_s = math.inf
        except Exception:  # noqa: BLE001  # a look will find it too, and says it
            again_s = AGAIN_S
        with self._lock:
            self._not_before = max(self._not_before, time.monotonic() + again_s)
            self._covered = [chunk for chunk in self._covered if chunk is not covered]
        self._brought.append((campaign, rows))
        self._ended()
