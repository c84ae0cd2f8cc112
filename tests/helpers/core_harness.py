"""Harness of an agent's core: no threads, and a clock that tests set."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from taskq_agent.core import events as ev
from taskq_agent.core.core import AgentCore
from taskq_agent.core.reports import fence, parsed
from taskq_agent.errors import AnswerUnreadable, LostOnTheWay, Refused, TransportError
from taskq_agent.handlers.base import Ended
from taskq_agent.lease_ids import LeaseIds
from taskq_agent.protocol import DONE, CampaignTerms, Heartbeat, Held, Hello, Report, Request, Task
from taskq_agent.settings import AgentSettings
from tests.helpers.memory_queue import MemoryQueue


def queue_of(count: int, *, time_limit_s: float | None = None) -> MemoryQueue:
    """Return a queue with so many tasks, numbered from 1."""
    return MemoryQueue(({} for _ in range(count)), time_limit_s=time_limit_s)


def started_harness(
    count: int, *, time_limit_s: float | None = None, **settings: Any
) -> CoreHarness:
    """Return a harness with an open session and its first tasks."""
    harness = CoreHarness(queue_of(count, time_limit_s=time_limit_s), **settings)
    harness.deliver()
    harness.deliver()
    return harness


class CoreHarness:
    """Performs the actions of the core when the test says so, and checks its invariants.

    in_flight: the call that waits to be delivered. running: the tasks in the slots. spool: the
    reports that were not forgotten. reported: all that ever were in it. logged: what a log at the
    level INFO shows. cancelled: the exchanges that were cancelled.
    """

    def __init__(
        self,
        queue: MemoryQueue,
        *,
        uniform: float = 0.5,
        inherited: Iterable[Report] = (),
        kept: Mapping[Held, str] = MappingProxyType({}),
        **settings: Any,
    ) -> None:
        self.queue = queue
        self.now = 1_000.0
        self.settings = AgentSettings(campaign="/test", **settings)
        self.in_flight: ev.Call | None = None
        self.running: dict[int, tuple[Task, CampaignTerms]] = {}
        self.behind: dict[int, list[Task]] = {}
        self.stopped_slots: list[int] = []
        self.asked_back: list[int] = []
        self.started: list[Held] = []
        self.spool: dict[Held, Report] = {fence(report): report for report in inherited}
        self.reported: list[Report] = []
        self.logged: list[str] = []
        self.cancelled: list[Request] = []
        self.exit: ev.Exit | None = None
        self._failed: ev.Call | None = None
        keys = itertools.count(1)
        self.core = AgentCore(
            self.settings,
            now=self.now,
            draw_hello=lambda: Hello(f"key {next(keys)}", "/test", "a", "h", 1, "", 2, "0"),
            draw_lease=LeaseIds(lambda: 0),
            uniform=lambda: uniform,
            inherited=[(report, 100) for report in inherited],
            kept=kept,
        )
        self.tick()

    def feed(self, event: ev.Event) -> None:
        """Let the core handle an event and perform its actions."""
        for action in self.core.handle(event, self.now):
            assert self.exit is None, "nothing follows an exit"
            self._perform(action)

    def tick(self, seconds: float = 0.0) -> None:
        """Let time pass."""
        self.now += seconds
        self.feed(ev.Tick())

    def deliver(self, trouble: str | None = None) -> None:
        """Deliver the call in flight, with this fault of the queue or connection."""
        call, self.in_flight = self.in_flight, None
        assert call is not None, "no call is in flight"
        self.queue.trouble = lambda _: trouble
        try:
            event = self._outcome(call)
        except TransportError as error:
            event = ev.CallFailed(error)
        self._conclude(call, event)

    def deliver_all(self) -> None:
        """Deliver calls until none is in flight."""
        while self.in_flight is not None:
            self.deliver()

    def fail(self, error: TransportError) -> None:
        """Let the call in flight fail."""
        assert self.in_flight is not None, "no call is in flight"
        call, self.in_flight = self.in_flight, None
        self._conclude(call, ev.CallFailed(error))

    def end(self, slot: int, ended: Ended | None = None) -> None:
        """End the task in a slot, by default with success."""
        del self.running[slot]
        self.feed(ev.TaskEnded(slot, ended or Ended(DONE, result={})))

    def end_calls(
        self, slot: int, count: int, *, unbegun: int = 0, run_s: float = 0.001, apart: bool = False
    ) -> None:
        """End so many calls of a slot with success; the last ones have not begun."""
        _, campaign = self.running.pop(slot)
        behind = self.behind.pop(slot)
        for task in behind[: count - 1]:
            self._begun(task)
        left = behind[max(0, count - 1) : len(behind) - unbegun]
        if left:
            self._begun(left[0])
            self.running[slot], self.behind[slot] = (left[0], campaign), left[1:]
        ends = tuple(Ended(DONE, result={}, phases={"run_s": run_s}) for _ in range(count))
        self.feed(ev.CallsEnded(slot, ends, unbegun, apart))

    def heartbeat(self) -> Heartbeat:
        """Return the heartbeat that would be sent now."""
        beat = self.core.heartbeat()
        assert beat is not None, "there is no session"
        return beat

    def wait_for_attempt(self) -> float:
        """Let time pass until an attempt begins; return how long it took, less than 1,000 s."""
        began = self.now
        while not self.running:
            self.tick(0.25)
            self.deliver_all()
            assert self.now - began < 1_000
        return self.now - began

    def run_quickly(self, seconds: float, count: int, ended: Ended | None = None) -> None:
        """End tasks one after the other, each after this time, without faults."""
        for _ in range(count):
            self.now += seconds
            self.end(next(iter(self.running)), ended)
            self.deliver_all()

    def request(self) -> Request:
        """Return the exchange in flight."""
        assert isinstance(self.in_flight, Request), self.in_flight
        return self.in_flight

    def is_cancelled(self) -> bool:
        """Return whether the exchange in flight was cancelled."""
        return isinstance(self.in_flight, Request) and self.in_flight in self.cancelled

    def reports_something_new(self) -> bool:
        """Return whether the call in flight reports more than that a report was refused."""
        return isinstance(self.in_flight, Request) and any(
            report.error_class != "report-refused" for report in self.in_flight.reports
        )

    def held(self) -> set[Held]:
        """Return the attempts in the slots."""
        return {fence(task) for task, _ in self.running.values()}

    def _conclude(self, call: ev.Call, event: ev.Event) -> None:
        unanswered = isinstance(event, ev.CallFailed) and not isinstance(
            event.error, (AnswerUnreadable, LostOnTheWay, Refused)
        )
        self._failed = call if unanswered else None
        self.feed(event)

    def _outcome(self, call: ev.Call) -> ev.Event:
        if isinstance(call, Hello):
            return self.queue.open(call)
        if isinstance(call, Request):
            return self.queue.exchange(call)
        self.queue.close(call.session, call.end)
        return ev.Closed()

    def _perform(self, action: ev.Action) -> None:
        if isinstance(action, (Hello, Request, ev.CloseSession)):
            self._send(action)
        elif isinstance(action, ev.CancelExchange):
            assert isinstance(self.in_flight, Request), "only a call in flight is cancelled"
            assert self.in_flight == action.request
            self.cancelled.append(action.request)
        elif isinstance(action, ev.TakeBack):
            self.asked_back.append(action.slot)
        elif isinstance(action, (ev.StartTask, ev.StopTask)):
            self._instruct(action)
        elif isinstance(action, ev.SpoolReport):
            report = parsed(action.line)
            assert fence(report) == action.held
            assert action.held not in self.spool, "an attempt is reported once"
            self.spool[action.held] = report
            self.reported.append(report)
        elif isinstance(action, ev.ForgetReports):
            for held in action.reports:
                del self.spool[held]
        elif isinstance(action, ev.LogMessage) and action.level >= logging.INFO:
            self.logged.append(action.text % action.args)
        elif isinstance(action, ev.Exit):
            self.exit = action

    def _send(self, call: ev.Call) -> None:
        assert self.in_flight is None, "one call at most is in flight"
        failed, self._failed, beat = self._failed, None, self.core.heartbeat()
        if isinstance(failed, Request) and beat is not None:
            claim = failed
            same = beat.session == claim.session and claim.want > 0 and claim.wait_s == 0
            assert call == failed or not same, "a claim that failed is repeated as it is"
        self.in_flight = call

    def _instruct(self, action: ev.StartTask | ev.StopTask) -> None:
        if isinstance(action, ev.StopTask):
            assert action.slot in self.running, "only a running task gets an order to stop"
            self.stopped_slots.append(action.slot)
            return
        assert action.slot not in self.running, "a slot runs one task at a time"
        self.running[action.slot] = action.task, action.campaign
        self.behind[action.slot] = list(action.behind)
        self._begun(action.task)

    def _begun(self, task: Task) -> None:
        assert fence(task) not in self.started, "an attempt runs once"
        self.started.append(fence(task))
