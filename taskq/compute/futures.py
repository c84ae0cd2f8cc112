"""Futures of single calls, and the thread that completes them."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from taskq.compute.outcomes import OutcomeReader
from taskq.compute.tracker import EndedCall, Pauses, Tracker
from taskq.compute.unpickling import ResultReader
from taskq.db.access import Queries, check_process
from taskq.files.large_results import Fetching
from taskq.model.errors import AgentsDied, Unavailable
from taskq.model.seed import NOT_BEGUN

if TYPE_CHECKING:
    from taskq.campaign.campaign import Campaign
    from taskq.compute.local_agents import LocalAgents

#: The pause after a look that found no server.
AWAY_S: Final = 2.0

log = logging.getLogger(__name__)


class TaskFuture(Future[Any]):
    """The future of a call; also a `concurrent.futures.Future`.

    key: of the task in its campaign.
    """

    def __init__(self, campaign: Campaign, task: int, key: str) -> None:
        super().__init__()
        self.campaign: Final = campaign
        self.task: Final = task
        self.key: Final = key
        self._cancelling = threading.RLock()
        self._was_cancelled = False
        self._process = os.getpid()

    def result(self, timeout: float | None = None) -> Any:
        """Return the value, or raise the exception; `UsageError` in a forked child, if pending."""
        self._check_watched()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the exception, or None; raise `UsageError` in a forked child, if pending."""
        self._check_watched()
        return super().exception(timeout)

    def _check_watched(self) -> None:
        if not self.done():  # by a thread, which a forked child does not have
            check_process(self._process)

    def running(self) -> bool:
        """Return whether an agent works on it now; asks the database."""
        return not self.done() and self._status() == "working"

    def cancel(self) -> bool:
        """Cancel the task unless it has begun; return whether it is cancelled.

        A task that begins at this very moment is stopped.
        """
        if self.cancelled():
            return True
        if self.done() or self._status() not in NOT_BEGUN:
            return False
        if not self.campaign.cancel([self.key]):
            return False
        return self.note_cancelled()

    def note_cancelled(self) -> bool:
        """Mark this future as cancelled, as its task already is; return whether it is cancelled."""
        with self._cancelling:  # the caller and the watcher may both find it
            if not self._was_cancelled and super().cancel():
                self._was_cancelled = True
                self.set_running_or_notify_cancel()
        return self.cancelled()

    def _status(self) -> str:
        return self.campaign.task(self.key).status


@dataclass(slots=True)
class _Watched:
    """The pending futures of a campaign, by task: several if a call was repeated."""

    tracker: Tracker
    reader: OutcomeReader
    futures: dict[int, list[TaskFuture]]

    @property
    def is_pending(self) -> bool:
        """Whether any future waits for its end; the caller may have cancelled all."""
        return any(not future.done() for each in self.futures.values() for future in each)


class Watcher:
    """Completes futures in a thread, which lives while any are pending. Thread-safe."""

    def __init__(self, database: Queries, agents: list[LocalAgents]) -> None:
        self._database = database
        self._agents = agents
        self._fetching = Fetching(database)
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._new: list[tuple[Campaign, ResultReader, Sequence[TaskFuture]]] = []
        self._watched: dict[int, _Watched] = {}  # the thread's own
        self._thread: threading.Thread | None = None

    def watch(self, campaign: Campaign, read: ResultReader, futures: Sequence[TaskFuture]) -> None:
        """Complete futures of one campaign when their tasks end."""
        with self._lock:
            self._new.append((campaign, read, tuple(futures)))  # the caller may change its list
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="taskq-futures", daemon=True)
                self._thread.start()
        self._news.set()

    def join(self) -> None:
        """Wait for the end of the thread; all futures must be done."""
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            self._news.set()
            thread.join()

    def _run(self) -> None:
        pauses = Pauses()
        while True:
            self._news.clear()
            if self._take_new():
                pauses = Pauses()
            found = self._look_at_all()
            self._watched = {n: one for n, one in self._watched.items() if one.is_pending}
            with self._lock:
                if not self._watched and not self._new:
                    self._thread = None
                    return
            self._news.wait(pauses.next_s(found=found))

    def _take_new(self) -> bool:
        with self._lock:
            new, self._new = self._new, []
        for campaign, read, futures in new:
            number = campaign.campaign_id
            watched = self._watched.get(number)
            if watched is None:
                tracker = Tracker(self._database, number, campaign.path)
                reader = OutcomeReader(self._database, number, read)
                watched = self._watched[number] = _Watched(tracker, reader, {})
            for future in futures:
                watched.futures.setdefault(future.task, []).append(future)
            watched.tracker.add(sorted(future.task for future in futures))
        return bool(new)

    def _look_at_all(self) -> bool:
        found = False
        for one in self._watched.values():
            found = self._look(one) or found
        return found

    def _look(self, watched: _Watched) -> bool:
        """Complete the futures of one campaign whose tasks have ended; return whether any had."""
        try:
            ended = watched.tracker.look()
            self._complete(watched, ended)
            if not ended:
                for agents in self._agents:
                    agents.check()
            return bool(ended)
        except AgentsDied as error:
            self._give_up(watched, error)
        except Unavailable as error:
            if self._database.is_closed:
                self._give_up(watched, error)  # by the caller, who wants no more of it
                return False
            log.warning("results must wait: %s", error)
            time.sleep(AWAY_S)
        except Exception as error:  # noqa: BLE001  # waiting threads must get it
            self._give_up(watched, error)
        return False

    def _complete(self, watched: _Watched, ended: Sequence[EndedCall]) -> None:
        for place, one in enumerate(ended):
            futures = watched.futures.get(one.task, [])
            if not futures:
                continue
            try:
                value, error = self._end_of(watched, one, futures[0].key)
            except Unavailable:
                watched.tracker.add([other.task for other in ended[place:]])
                raise
            except Exception as known:  # noqa: BLE001  # reading runs the caller's classes
                value, error = None, known
            del watched.futures[one.task]
            for future in futures:
                if one.status == "cancelled":
                    future.note_cancelled()
                elif not future.done():
                    if error is None:
                        future.set_result(value)
                    else:
                        future.set_exception(error)

    def _end_of(
        self, watched: _Watched, ended: EndedCall, key: str
    ) -> tuple[Any, BaseException | None]:
        if ended.row is not None:
            return watched.reader.value(self._fetching.of(ended.row)["result"]), None
        if ended.status == "failed":
            return None, watched.reader.error(ended.task, key)
        return None, None

    def _give_up(self, watched: _Watched, error: BaseException) -> None:
        pending, watched.futures = watched.futures, {}
        for futures in pending.values():
            for future in futures:
                if not future.done():
                    future.set_exception(error)
