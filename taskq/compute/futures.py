"""Futures of single calls, and the thread that completes them."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from taskq.compute.call_waits import LOOK_S, CallWaits
from taskq.compute.outcomes import OutcomeReader
from taskq.compute.result_folder import taken
from taskq.compute.tracker import EndedCall, Pauses, Tracker
from taskq.compute.trust import ResultReader
from taskq.compute.waiting import Complaints
from taskq.db.access import Queries, check_process
from taskq.files.large_results import Fetching
from taskq.model.errors import AgentsDied, Unavailable
from taskq.model.pauses import LAST_PAUSE_S
from taskq.model.seed import NOT_BEGUN
from taskq_agent import buffers

if TYPE_CHECKING:
    from taskq.campaign.campaign import Campaign
    from taskq.compute.local_agents import LocalAgents

#: The pause after a look that found no server.
AWAY_S: Final = 2.0
#: The first pause where agents of this machine say when they have reported.
WOKEN_PAUSE_S: Final = 0.02
#: Most reported results that wait to be given to their futures, some of them not known yet.
MOST_HEARD: Final = 1_000

T = TypeVar("T")

log = logging.getLogger(__name__)


class TaskFuture(Future[T]):
    """The future of a call; also a `concurrent.futures.Future`.

    Its task is stored soon after the future was made, together with others; see `task`.

    Attributes:
        key: Key of the task in its campaign.
        campaign: The campaign of the task; another one if it was removed before the task came.
    """

    def __init__(self, campaign: Campaign, key: str) -> None:
        super().__init__()
        self.campaign = campaign
        self.key: Final = key
        self._task: int | None = None
        self._settled = threading.Event()
        self._is_sent = self._is_withdrawn = False
        self._cancelling = threading.RLock()
        self._process = os.getpid()

    @property
    def task(self) -> int:
        """The id of its task. Waits until the task is stored; raises the error if it cannot be."""
        self._check_watched()
        if (task := self._stored()) is None:
            raise self.exception() or CancelledError
        return task

    def begin_sending(self) -> bool:
        """Note that the call is on its way; return False if it was cancelled before."""
        with self._condition:
            self._is_sent = not self._is_withdrawn
            return self._is_sent

    def note_stored(self, campaign: Campaign, task: int) -> None:
        """Note the task of the call."""
        self.campaign, self._task = campaign, task
        self._settled.set()

    def note_lost(self) -> None:
        """Note that the call could not be stored; nobody waits for that any longer."""
        self._settled.set()

    def result(self, timeout: float | None = None) -> T:
        """Return the value, or raise the exception; `UsageError` in a forked child, if pending."""
        self._check_watched()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the exception, or None.

        Raises:
            UsageError: It is pending, in a forked child.
        """
        self._check_watched()
        return super().exception(timeout)

    def __repr__(self) -> str:
        state = "cancelled" if self.cancelled() else "done" if self.done() else "pending"
        return f"<TaskFuture {self.campaign.path} {self.key}: {state}>"

    def _check_watched(self) -> None:
        if not self.done():  # by a thread, which a forked child does not have
            check_process(self._process)

    def running(self) -> bool:
        """Return whether an agent works on it now; asks the database."""
        return not self.done() and self._task is not None and self._status() == "working"

    def cancel(self) -> bool:
        """Cancel the task unless it has begun; return whether it is cancelled.

        A task that begins at this very moment is stopped. A call that is on its way to the queue is
        stored first.
        """
        with self._condition:
            self._is_withdrawn = self._is_withdrawn or not self._is_sent
        if self._is_withdrawn:
            self._settled.set()
        if self._is_withdrawn or self.cancelled():
            return self.note_cancelled()
        if self._stored() is None or self.done() or self._status() not in NOT_BEGUN:
            return False
        if not self.campaign.cancel([self.key]):
            return False
        return self.note_cancelled()

    def note_cancelled(self) -> bool:
        """Mark this future as cancelled, as its task already is; return whether it is cancelled."""
        with self._cancelling:  # the caller, its callbacks and the watcher may all find it
            if not self.cancelled() and super().cancel():
                self.set_running_or_notify_cancel()
        return self.cancelled()

    def _stored(self) -> int | None:
        """Wait until the task is stored, and return its id; None if that has failed."""
        self._settled.wait()
        return self._task

    def _status(self) -> str:
        return self.campaign.task(self.key).status


@dataclass(slots=True)
class _Watched:
    """The pending futures of a campaign, by task: several if a call was repeated."""

    tracker: Tracker
    reader: OutcomeReader
    complaints: Complaints
    futures: dict[int, list[TaskFuture[Any]]]

    @property
    def is_pending(self) -> bool:
        """Whether any future waits for its end; the caller may have cancelled all."""
        return any(not future.done() for each in self.futures.values() for future in each)


class Watcher:
    """Completes futures in a thread, which lives while any are pending. Thread-safe."""

    def __init__(self, database: Queries, agents: list[LocalAgents]) -> None:
        self._database = database
        self._agents = agents
        self._fetching = Fetching(
            database,
            of_part=buffers.as_view,
            near=lambda digest: taken((agent.result_folder for agent in agents), digest),
        )
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._is_reported = False
        self._waits = CallWaits(database, self._news.set)
        self._heard: deque[tuple[int, int, Any]] = deque(maxlen=MOST_HEARD)
        self._early: dict[tuple[int, int], Any] = {}  # of tasks not watched (yet)
        self._new: list[Callable[[], bool]] = []  # return whether results may be there
        self._watched: dict[int, _Watched] = {}  # the thread's own
        self._thread: threading.Thread | None = None

    def watch(
        self,
        campaign: Campaign,
        read: ResultReader,
        futures: Sequence[TaskFuture[Any]],
        *,
        new: bool = False,
    ) -> None:
        """Complete futures of one campaign when their tasks end; new: they have just been added."""
        self._take(partial(self._begin, campaign, read, futures, new=new))

    def fail(self, futures: Sequence[TaskFuture[Any]], error: Exception) -> None:
        """Complete futures with an error; their callbacks run in the thread of the watcher."""
        for future in futures:  # all before the first callback, which may cancel the others
            future.note_lost()
        self._take(partial(_fail, futures, error))

    def _take(self, news: Callable[[], bool]) -> None:
        with self._lock:
            self._new.append(news)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="taskq-futures", daemon=True)
                self._thread.start()
        self._news.set()

    def hear(self, results: list[tuple[int, int, Any]], *, others: bool) -> None:
        """Take results that agents of this machine have reported; see `Hearing`."""
        self._heard += results
        if others or len(self._heard) == MOST_HEARD:  # then some may be dropped
            self._is_reported = True
        self._news.set()

    def wake_agents(self) -> None:
        """Wake the agents of this machine: there are new calls."""
        for agent in list(self._agents):
            agent.wake()

    def join(self) -> None:
        """Wait for the end of the thread; all futures must be done."""
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            self._news.set()
            thread.join()

    def _run(self) -> None:
        pauses, is_due, looked_at = self._pauses(), False, time.monotonic()
        while True:
            self._news.clear()
            if reported := self._is_reported:
                self._is_reported = False  # only then: it may be set at this very moment
            heard = [self._heard.popleft() for _ in range(len(self._heard))]
            begun = [begin() for begin in self._take_new()]  # after those: they were made before
            if begun:
                pauses = self._pauses()
            self._complete_heard(heard)
            lacking, brought = self._waits.take()
            for campaign, ended in brought:
                self._complete_brought(campaign, ended)
            found = False
            if is_due or reported or lacking or any(begun):
                found = self._look_at_all(reported=reported or lacking)
                looked_at = time.monotonic()
            self._watched = {
                n: watched for n, watched in self._watched.items() if watched.is_pending
            }
            with self._lock:
                if not self._watched and not self._new:
                    self._thread = None
                    return
            pause_s, last_s = pauses.next_s(found=found), LAST_PAUSE_S
            if self._waits.cover(watched.tracker for watched in self._watched.values()):
                pause_s = last_s = LOOK_S
            is_due = not self._news.wait(pause_s) or time.monotonic() > looked_at + last_s

    def _take_new(self) -> list[Callable[[], bool]]:
        with self._lock:
            new, self._new = self._new, []
        return new

    def _pauses(self) -> Pauses:
        for agents in self._agents:
            agents.watchers.add(self)
        return Pauses(first_s=WOKEN_PAUSE_S) if self._agents else Pauses()

    def _begin(
        self,
        campaign: Campaign,
        read: ResultReader,
        futures: Sequence[TaskFuture[Any]],
        *,
        new: bool,
    ) -> bool:
        """Begin to watch futures; return whether their tasks may have ended already."""
        number = campaign.campaign_id
        watched = self._watched.get(number)
        if watched is None:
            tracker = Tracker(self._database, number, campaign.path)
            reader = OutcomeReader(self._database, number, read)
            complaints = Complaints(self._database, campaign.path)
            watched = self._watched[number] = _Watched(tracker, reader, complaints, {})
        for future in futures:
            watched.futures.setdefault(future.task, []).append(future)
        watched.tracker.add(sorted(future.task for future in futures))
        if new and self._early:
            early = [
                (number, future.task) for future in futures if (number, future.task) in self._early
            ]
            self._complete_heard([(*call, self._early.pop(call)) for call in early])
        return not new

    def _complete_heard(self, heard: Sequence[tuple[int, int, Any]]) -> None:
        """Complete the futures of results that agents of this machine have reported."""
        ended: dict[int, list[EndedCall]] = {}
        for campaign, task, result in heard:
            watched = self._watched.get(campaign)
            if watched is not None and watched.tracker.pending.discard(task):
                row = {"task_id": task, "result": result}
                ended.setdefault(campaign, []).append(EndedCall(task, "done", row))
            else:
                self._early[campaign, task] = result
        for campaign, some in ended.items():
            self._look(self._watched[campaign], heard=some)
        while len(self._early) > MOST_HEARD:
            del self._early[next(iter(self._early))]

    def _complete_brought(self, campaign: int, ended: Sequence[EndedCall]) -> None:
        """Complete the futures of calls whose ends a wait has brought."""
        watched = self._watched.get(campaign)
        if watched is not None:
            ended = [end for end in ended if watched.tracker.pending.discard(end.task)]
            if ended:
                self._look(watched, heard=ended)

    def _look_at_all(self, *, reported: bool) -> bool:
        found = False
        for watched in self._watched.values():
            found = self._look(watched, reported=reported) or found
        return found

    def _look(
        self, watched: _Watched, *, reported: bool = False, heard: Sequence[EndedCall] = ()
    ) -> bool:
        """Complete the futures of one campaign whose tasks have ended; return whether any had.

        heard: those that are known to have ended.
        """
        try:
            ended = heard or watched.tracker.look(reported=reported)
            self._complete(watched, ended)
            if not ended:
                for agents in self._agents:
                    agents.check()
            if not self._agents:  # those of this machine may still start
                watched.complaints.look(working=bool(ended) or watched.tracker.is_working)
            return bool(ended)
        except AgentsDied as error:
            self._give_up(watched, error)
        except Unavailable as error:
            if self._database.is_closed:
                self._give_up(watched, error)  # by the caller, who wants no more of it
                return False
            log.warning("results cannot be fetched now, trying again: %s", error)
            time.sleep(AWAY_S)
        except Exception as error:  # noqa: BLE001  # waiting threads must get it
            self._give_up(watched, error)
        return False

    def _complete(self, watched: _Watched, ended: Sequence[EndedCall]) -> None:
        for place, end in enumerate(ended):
            futures = watched.futures.get(end.task, [])
            if not futures:
                continue
            try:
                value, error = self._end_of(watched, end, futures[0].key)
            except Unavailable:
                watched.tracker.add([other.task for other in ended[place:]])
                raise
            except Exception as known:  # noqa: BLE001  # reading runs the caller's classes
                value, error = None, known
            del watched.futures[end.task]
            for future in futures:
                if end.status == "cancelled":
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
            result = self._fetching.of(ended.row)["result"]
            return watched.reader.value(ended.task, ended.row.get("attempt"), result), None
        if ended.status == "failed":
            return None, watched.reader.error(ended.task, key)
        return None, None

    def _give_up(self, watched: _Watched, error: BaseException) -> None:
        pending, watched.futures = watched.futures, {}
        for futures in pending.values():
            _fail(futures, error)


def _fail(futures: Sequence[TaskFuture[Any]], error: BaseException) -> bool:
    """Complete futures with an error, unless they are done; return False: no results come."""
    for future in futures:
        if not future.done():
            future.set_exception(error)
    return False
