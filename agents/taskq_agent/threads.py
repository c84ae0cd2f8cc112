"""Threads that wait for the queue and for payloads, so that the loop never does.

A `Watchdog` detects a thread that makes no progress.
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from queue import SimpleQueue
from typing import Callable, Optional, Sequence, Tuple

from taskq_agent.core.events import (
    AgentFailed,
    BatchMoved,
    Call,
    CallFailed,
    CallsEnded,
    Closed,
    Event,
    TaskEnded,
)
from taskq_agent.core.reports import fence
from taskq_agent.errors import TransportError
from taskq_agent.handlers.base import Ended, Runner, is_batched
from taskq_agent.protocol import CampaignTerms, Hello, Request, Task
from taskq_agent.room import Grant
from taskq_agent.transport import Transport

CHECK_S = 1.0

_Start = Tuple[Sequence[Task], CampaignTerms, Optional[Grant]]

log = logging.getLogger(__name__)


class Watchdog:
    """Counts the checks since the thread last reported progress.

    It counts checks, not seconds: a stopped process (SIGSTOP) or a sleeping host is not hung,
    although the clock shows no progress for long.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._checked_at = 0.0
        self._missed = 0

    def reset(self) -> None:
        """Report progress; called by the watched thread."""
        self._missed = 0

    def is_hung(self, now: float) -> bool:
        """Check; the watching thread must call this at least every `CHECK_S` seconds."""
        if now - self._checked_at >= CHECK_S:
            self._checked_at = now
            self._missed += 1
        return self._missed * CHECK_S > self._patience_s


class Caller:
    """Calls the queue, one call after the other; posts each result as an event."""

    task = "a call to the queue"

    def __init__(
        self, transport: Transport, post: Callable[[Event], None], watchdog: Watchdog
    ) -> None:
        self._transport = transport
        self._post = post
        self._watchdog = watchdog
        self._busy = False
        self._calls: SimpleQueue[Optional[Call]] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="taskq-call", daemon=True)
        self._thread.start()

    def call(self, call: Call) -> None:
        """Queue a call."""
        self._watchdog.reset()
        self._busy = True
        self._calls.put(call)

    def cancel_exchange(self, request: Request) -> None:
        """Make the exchange of this request end soon, if it is a long poll."""
        self._transport.cancel_exchange(request)

    def is_hung(self, now: float) -> bool:
        """Return whether the call in flight has taken too long; see `Watchdog`."""
        return self._busy and self._watchdog.is_hung(now)

    def close(self, timeout_s: float) -> None:
        """Make no more calls; wait at most so long for the one in flight."""
        self._calls.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while (call := self._calls.get()) is not None:
                event = self._outcome(call)
                self._busy = False
                self._post(event)
        except Exception:
            log.exception("the thread of the calls to the queue has failed")
            self._post(AgentFailed("its calls to the queue have failed"))

    def _outcome(self, call: Call) -> Event:
        try:
            if isinstance(call, Request):
                return self._transport.exchange(call)
            if isinstance(call, Hello):
                return self._transport.open(call)
            self._transport.close(call.session, call.end)
            return Closed()
        except TransportError as error:
            return CallFailed(error)


class Slot:
    """Runs the tasks of one slot, one after the other; posts the end of each as an event.

    runner: other threads stop its task, and ask it for updates.
    """

    def __init__(self, slot: int, runner: Runner, post: Callable[[Event], None]) -> None:
        self.runner = runner
        self._slot = slot
        self._post = post
        self._tasks: SimpleQueue[Optional[_Start]] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"taskq-slot-{slot}", daemon=True)
        self._thread.start()

    def start(
        self, tasks: Sequence[Task], campaign: CampaignTerms, grant: Optional[Grant] = None
    ) -> None:
        """Run a task, several short calls of a function, or a batch; the slot must be idle."""
        self._tasks.put((tasks, campaign, grant))

    def finish(self) -> None:
        """Take no more tasks, and clean up."""
        self._tasks.put(None)

    def join(self, timeout_s: float) -> None:
        """Wait at most so long for the end of the thread, after `finish`."""
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            log.warning("slot %d does not end: its thread is abandoned", self._slot)

    def _run(self) -> None:
        try:
            try:
                while (work := self._tasks.get()) is not None:
                    tasks, campaign, grant = work
                    if grant is not None:
                        self.runner.use(grant)
                    if is_batched(campaign):
                        self.runner.run_batch(tasks, campaign, partial(self._tell_batch, campaign))
                        continue
                    if len(tasks) == 1:
                        ended: Optional[Ended] = self.runner.run(tasks[0], campaign)
                    else:
                        ended = self.runner.run_several(tasks, campaign, self._tell)
                    if ended is not None:
                        self._post(TaskEnded(self._slot, ended))
            finally:
                self.runner.close()
        except Exception:
            log.exception("slot %d has failed", self._slot)
            self._post(AgentFailed(f"slot {self._slot} has failed"))

    def _tell_batch(
        self,
        campaign: CampaignTerms,
        ends: Sequence[Tuple[Task, Ended]],
        *,
        over: bool = False,
        too_large_as: Optional[str] = None,
        begun: Optional[Sequence[Task]] = (),
    ) -> None:
        named = tuple((fence(task), end) for task, end in ends)
        marked = None if begun is None else tuple(map(fence, begun))
        self._post(BatchMoved(self._slot, campaign, named, over, too_large_as, marked))

    def _tell(self, ends: Sequence[Ended], unbegun: int, apart: bool) -> None:
        self._post(CallsEnded(self._slot, tuple(ends), unbegun, apart))
