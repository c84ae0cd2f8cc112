"""Stores calls as tasks: those that come while some are being stored go together as the next.

A `submit` only puts its call here. A thread stores what has gathered, so a lone call goes at once,
and many calls share a transaction. A call that cannot be stored gets the error in its future, and
the next `submit` to its campaign raises it. Calls that were not stored when a process is killed are
lost; an orderly end of the program stores them first.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from taskq.campaign.campaign import Campaign
from taskq.compute.functions import Arguments
from taskq.compute.futures import TaskFuture, Watcher
from taskq.compute.trust import ResultReader
from taskq.db.access import Queries, check_process, in_chunks
from taskq.ingest.seeding import REMOTE_CHUNK, REMOTE_CHUNK_CHARS, task_json
from taskq.model.errors import NotFound, UsageError
from taskq.model.seed import Seed

#: Calls that wait to be stored, and characters of their payloads; beyond this `put` waits.
MOST_UNSENT: Final = 10_000
MOST_UNSENT_CHARS: Final = 16_000_000
#: Seconds that the thread waits for the next call before it ends.
LINGER_S: Final = 1.0
#: Seconds that the end of a program waits for calls to be stored.
FLUSH_S: Final = 30.0

_OPEN: Final[weakref.WeakSet[CallOutbox]] = weakref.WeakSet()


class Lane:
    """The campaign that gets the calls of a function.

    prepare: finds the campaign, or makes it again after it was removed; None if that is an error.
    owns: see `Arguments`.
    """

    def __init__(
        self,
        database: Queries,
        campaign: Campaign,
        read: ResultReader,
        prepare: Callable[[], Campaign] | None = None,
        owns: Callable[[type], bool] | None = None,
    ) -> None:
        self._database = database
        self.read: Final = read
        self.prepare: Final = prepare
        self._owns = owns
        #: Why calls could not be stored, until a caller gets it.
        self.failure: Exception | None = None
        self.turn_to(campaign)

    def turn_to(self, campaign: Campaign) -> None:
        """Send further calls to a campaign."""
        self.campaign = campaign
        self.arguments = Arguments.of(self._database, campaign, self._owns)


@dataclass(slots=True)
class Call:
    """A call to be stored. encode: makes its payload again, for a campaign that was made again."""

    future: TaskFuture[Any]
    task: str
    encode: Callable[[Arguments], dict[str, Any]]

    @classmethod
    def of(
        cls, lane: Lane, payload: dict[str, Any], key: str, encode: Callable[[Arguments], Any]
    ) -> Call:
        """Return a call; raise `InvalidTask` if its payload cannot be stored."""
        task = task_json(Seed(payload, key).encoded())
        return cls(TaskFuture(lane.campaign, key), task, encode)


class CallOutbox:
    """Stores calls in the order of `put`, and has their futures completed. Thread-safe."""

    def __init__(self, database: Queries, watcher: Watcher) -> None:
        self._database = database
        self._watcher = watcher
        self._changed = threading.Condition()
        self._unsent: deque[tuple[Lane, Call]] = deque()
        self._chars = 0
        self._is_sending = self._is_closed = False
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        _OPEN.add(self)

    def put(self, lane: Lane, calls: Sequence[Call]) -> None:
        """Take calls, to be stored soon; raise the error of earlier calls of the lane."""
        check_process(self._process)
        with self._changed:
            self._changed.wait_for(lambda: not self._is_full)
            if lane.failure is not None:
                failure, lane.failure = lane.failure, None
                raise failure
            self._unsent.extend((lane, call) for call in calls)
            self._chars += sum(len(call.task) for call in calls)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="taskq-calls", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until each call is stored or has failed; return whether that is so."""
        if os.getpid() != self._process:
            return True  # they are the parent's
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._unsent and not self._is_sending, timeout_s
            )

    def close(self) -> None:
        """Store what has gathered, and end the thread."""
        self.flush()
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    @property
    def _is_full(self) -> bool:
        return len(self._unsent) >= MOST_UNSENT or self._chars >= MOST_UNSENT_CHARS

    def _run(self) -> None:
        while self._send_next():
            pass

    def _send_next(self) -> bool:
        """Store the next calls, and keep no reference to them; return False at the end."""
        with self._changed:
            if not self._unsent and not self._is_closed:
                self._changed.wait(LINGER_S)
            if not self._unsent:
                self._thread = None
                return False
            batch = self._take()
            self._is_sending = True
        for lane, calls in batch.items():
            self._send(lane, calls)
        with self._changed:
            self._is_sending = False
            self._changed.notify_all()
        return True

    def _take(self) -> dict[Lane, list[Call]]:
        """Return the next calls by lane, as many as one statement takes."""
        batch: dict[Lane, list[Call]] = {}
        chars = 0
        for _ in range(min(REMOTE_CHUNK, len(self._unsent))):
            lane, call = self._unsent.popleft()
            chars += len(call.task)
            if call.future.begin_sending():
                batch.setdefault(lane, []).append(call)
            if chars >= REMOTE_CHUNK_CHARS:
                break
        self._chars -= chars
        return batch

    def _send(self, lane: Lane, calls: list[Call]) -> None:
        """Store calls of a lane; only the call that causes an error gets it."""
        try:
            try:
                self._store(lane, calls)
            except NotFound:
                if lane.prepare is None:
                    raise
                lane.turn_to(lane.prepare())  # it was removed meanwhile
                for call in calls:
                    payload = call.encode(lane.arguments)
                    call.task = task_json(Seed(payload, call.future.key).encoded())
                self._store(lane, calls)
        except Exception as error:  # noqa: BLE001  # those that wait for the calls get it
            if isinstance(error, UsageError) and len(calls) > 1:
                half = len(calls) // 2
                self._send(lane, calls[:half])
                self._send(lane, calls[half:])
                return
            if not isinstance(error, UsageError):
                lane.failure = error
            self._watcher.fail([call.future for call in calls], error)

    def _store(self, lane: Lane, calls: list[Call]) -> None:
        campaign = lane.campaign
        tasks = "[" + ",".join([call.task for call in calls]) + "]"
        about = {"path": campaign.path, "campaign": campaign.campaign_id, "tasks": tasks}
        # A pickle may differ from the stored one, though its content and its key are the same.
        rows = self._database.rows("submit_calls", **about)
        known = {row["key"]: row["task_id"] for row in rows}
        added = rows[0]["added"]
        if added < len(known):  # cancelled ones are tried again, as by `map`
            retry_cancelled(self._database, campaign.campaign_id, [*known.values()])
        for call in calls:
            call.future.note_stored(campaign, known[call.future.key])
        futures = [call.future for call in calls]
        self._watcher.watch(campaign, lane.read, futures, new=added == len(calls))
        self._watcher.wake_agents()


def retry_cancelled(database: Queries, campaign: int, tasks: Sequence[int]) -> None:
    """Retry those of these tasks that were cancelled: somebody wants them again."""
    how = {"status": "cancelled", "error_class": None, "dry_run": False}
    in_chunks(database, "retry", campaign=campaign, tasks=tasks, **how)


@atexit.register
def _flush_all() -> None:
    for outbox in tuple(_OPEN):
        with suppress(Exception):
            outbox.flush(FLUSH_S)
