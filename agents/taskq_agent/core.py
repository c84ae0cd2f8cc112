"""The agent's mind: events in, actions out; it reads no clock and touches nothing.

Everything an agent decides is decided here, one event at a time, so that it can be tested
without threads, processes or a network. What it keeps to:

* One call at most is in the air. One that failed is repeated as it is, under the same lease id
  and with the same reports, until it is answered. So there is never a lease that the agent
  does not know of, and a report never counts twice.
* A report is kept until it has its verdict. All verdicts are final.
* Beats name what is in hand *and* the claim in the air. The claim leaves the beat in the same
  step in which its tasks enter it.
* An order to stop is bound to a lease. What it does not find in hand it does not touch.
* A lost session is replaced by another. What is in hand goes on: from here nobody can tell
  whose outage it was, and the fence decides what counts.
"""

from __future__ import annotations

import logging
import math
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from taskq_agent import events as ev
from taskq_agent.claiming import Claiming
from taskq_agent.conversation import Conversation
from taskq_agent.errors import Refused, SessionLost, TransportError
from taskq_agent.hand import Hand, Queued, Running
from taskq_agent.journal import Journal, Tally
from taskq_agent.leaving import Leaving
from taskq_agent.protocol import DONE, Answer, Beat, Hello, Report, Request, Task
from taskq_agent.reports import ended_report, fence, line, unstarted_report
from taskq_agent.settings import AgentSettings

EXIT_NODE_BROKEN = 69  # EX_UNAVAILABLE
EXIT_AGENT_BROKEN = 70  # EX_SOFTWARE
EXIT_UNDELIVERED = 75  # EX_TEMPFAIL
EXIT_REFUSED = 77  # EX_NOPERM

_TELL_AGAIN_S = 1.0


class AgentCore:
    """One agent, from its first call to its exit.

    now, and all times: seconds of a clock that only rises. draw_hello: makes the hello of a new
    session, with a key of its own. draw_lease: makes lease ids that rise. uniform: draws from
    0 to 1. inherited: reports of an earlier process, with the lengths of their lines.
    """

    def __init__(
        self,
        settings: AgentSettings,
        *,
        now: float,
        draw_hello: Callable[[], Hello],
        draw_lease: Callable[[], str],
        uniform: Callable[[], float],
        inherited: Iterable[Tuple[Report, int]] = (),
    ) -> None:
        self._settings = settings
        self._draw_hello = draw_hello
        self._draw_lease = draw_lease
        self._hand = Hand(settings.slots, inherited)
        self._queue = Conversation(uniform)
        self._journal = Journal(now)
        self._claiming = Claiming(settings, now, uniform)
        self._newest_lease = ""
        self._leaving: Optional[Leaving] = None
        self._exited = False
        self._now = now
        self._out: List[ev.Action] = []
        self._take: Dict[type, Callable[[Any], None]] = {
            ev.Opened: self._opened,
            ev.AnswerArrived: self._answered,
            ev.Closed: self._closed,
            ev.CallFailed: self._call_failed,
            ev.BeatFailed: self._beat_failed,
            ev.StopOrdered: self._stop_ordered,
            ev.TaskEnded: self._task_ended,
            ev.TermSignal: self._terminated,
            ev.Broken: self._broken,
            ev.Tick: lambda _: None,
        }

    def handle(self, event: ev.Event, now: float) -> List[ev.Action]:
        """Take in an event; return what is to be done, in this order.

        A Tick is wanted at `due()`, and every second besides. After Exit nothing more happens.
        """
        self._now = now
        self._out = []
        if not self._exited:
            self._take[type(event)](event)
            self._advance()
        return self._out

    def beat(self) -> Optional[Beat]:
        """Return what a beat says at this moment; None while there is no session."""
        if self._queue.session is None:
            return None
        claim = self._queue.claim()
        return Beat(
            session=self._queue.session,
            held=self._hand.held(),
            pending=() if claim is None else (claim.lease,),
            drawn=self._newest_lease,
        )

    def due(self) -> float:
        """Return when time alone will next change something."""
        times = [self._claiming.stop_at, self._claiming.claim_at]
        ready_at = self._queue.ready_at()
        if ready_at is not None:
            times.append(ready_at)
        if self._leaving is not None:
            times += self._leaving.times()
        return min((time for time in times if time > self._now), default=math.inf)

    def tally(self) -> Tally:
        """Return how the attempts have ended."""
        return self._journal.tally

    def undelivered(self) -> int:
        """Return how many reports have no verdict."""
        return len(self._hand.reports)

    # Events

    def _opened(self, event: ev.Opened) -> None:
        self._call_answered()
        self._queue.session = event.welcome.session
        self._do(ev.StartBeats(event.welcome))
        text = "session %d is open: serving %s with %d slots"
        settings = self._settings
        self._say(logging.INFO, text, self._queue.session, settings.campaign, settings.slots)

    def _answered(self, event: ev.AnswerArrived) -> None:
        claim = self._queue.claim()
        self._call_answered()
        settled = []
        for ack in event.answer.acks:
            if self._hand.reports.pop(fence(ack), None) is not None:
                settled.append(fence(ack))
                self._journal.settled(ack)
        if settled:
            self._do(ev.ForgetReports(tuple(settled)))
        if claim is not None:
            self._take_in(claim, event.answer)

    def _take_in(self, claim: Request, answer: Answer) -> None:
        campaigns = {campaign.campaign: campaign for campaign in answer.campaigns}
        kept = 0
        for task in answer.tasks:
            campaign, held = campaigns.get(task.campaign), fence(task)
            if campaign is None or task.lease != claim.lease or held in self._hand.queue:
                self._say(logging.WARNING, "task %s is not what was asked for: left", task.key)
            elif self._leaving is not None or not self._claiming.fits(campaign, self._now):
                self._hand_back(task)
            else:
                self._hand.queue[held] = Queued(task, campaign, self._now)
                kept += 1
        self._claiming.claimed(answer, kept, self._now)
        if kept:
            self._say(logging.DEBUG, "claimed %d tasks", kept)

    def _closed(self, _: ev.Closed) -> None:
        self._queue.dropped()
        self._queue.session = None

    def _call_failed(self, event: ev.CallFailed) -> None:
        queue, call = self._queue, self._queue.call
        if isinstance(call, ev.CloseSession):
            self._closed(ev.Closed())
        elif isinstance(event.error, Refused):
            queue.dropped()
            self._refused(event.error)
        elif isinstance(call, ev.SendExchange) and call.request.session != queue.session:
            queue.dropped()  # it asked within a session that a beat has found to be lost
        elif isinstance(event.error, SessionLost):
            queue.dropped()
            self._lose_session()
        else:
            first = queue.failing_since is None
            queue.failed(self._now)
            level = logging.WARNING if first else logging.DEBUG
            self._say(level, "no answer from the queue, trying on: %s", event.error)

    def _beat_failed(self, event: ev.BeatFailed) -> None:
        if event.session != self._queue.session:
            return
        if isinstance(event.error, SessionLost):
            self._lose_session()
        else:
            self._refused(event.error)

    def _stop_ordered(self, event: ev.StopOrdered) -> None:
        if self._hand.queue.pop(event.held, None) is not None:
            self._say(logging.DEBUG, "task %d was taken back", event.held.task)
        for running in self._hand.running.values():
            if running.held == event.held and not running.void:
                running.void = True
                self._say(logging.INFO, "task %s was taken back: stopping it", running.key)

    def _task_ended(self, event: ev.TaskEnded) -> None:
        running, ended = self._hand.running.pop(event.slot), event.ended
        self._hand.idle.append(event.slot)
        if not ended.node_broken:
            self._claiming.attempted(self._now - running.since, done=ended.outcome == DONE)
        if not running.void:
            stopped = running.told_at is not None
            report = ended_report(running.held, ended, wait_s=running.wait_s, stopped=stopped)
            self._report(report)
            self._do(self._journal.ended(running, report, self._now))
        if ended.node_broken:
            self._leave(f"this node is broken: {ended.error}", EXIT_NODE_BROKEN, grace=True)

    def _terminated(self, _: ev.TermSignal) -> None:
        self._leave("it was told to", 0, grace=self._leaving is None)

    def _broken(self, event: ev.Broken) -> None:
        self._leave(event.what, EXIT_AGENT_BROKEN)

    # What follows from any event

    def _advance(self) -> None:
        if self._leaving is None:
            self._consider_leaving()
        if self._leaving is None:
            if self._claiming.is_stale(self._hand, self._now):
                self._hand_back_queue()
            self._start_tasks()
        self._tell_to_stop()
        if self._leaving is not None and self._leaving.falls_quiet(
            len(self._hand.running), self._now
        ):
            self._queue.hasten(self._now)
        self._communicate()
        self._out += self._journal.summary(self._hand, self._now)
        self._consider_exit()

    def _consider_leaving(self) -> None:
        if self._now >= self._claiming.stop_at:
            self._leave("its time is up", 0)
        elif self._queue.call is None and self._hand.is_empty():
            reason = self._claiming.why_over(self._now)
            if reason is not None:
                self._leave(reason, 0)

    def _leave(self, reason: str, code: int, *, grace: bool = False, mute: bool = False) -> None:
        stop_at = self._now + (self._settings.grace_s if grace else 0.0)
        stop_at = min(stop_at, self._claiming.stop_at)
        if self._leaving is None:
            self._leaving = Leaving(self._settings, reason, code, stop_at, mute=mute)
            self._hand_back_queue()
            self._queue.hasten(self._now)
        else:
            self._leaving.hasten(reason, code, stop_at, mute=mute)
        level = logging.ERROR if code else logging.INFO
        text = "the agent leaves, because %s; still running: %d"
        self._say(level, text, reason, len(self._hand.running))

    def _start_tasks(self) -> None:
        hand = self._hand
        while hand.idle and hand.queue:
            held = next(iter(hand.queue))
            queued = hand.queue.pop(held)
            if not self._claiming.fits(queued.campaign, self._now):
                self._hand_back(queued.task)
                continue
            slot, wait_s = hand.idle.pop(), self._now - queued.since
            hand.running[slot] = Running(held, queued.task.key, self._now, wait_s)
            self._do(ev.StartTask(slot, queued.task, queued.campaign))

    def _tell_to_stop(self) -> None:
        """Tell again now and then: the first word may have come before the payload was there."""
        all_stop = self._leaving is not None and self._now >= self._leaving.stop_at
        for slot, running in self._hand.running.items():
            if (all_stop or running.void) and (
                running.told_at is None or self._now - running.told_at >= _TELL_AGAIN_S
            ):
                running.told_at = self._now
                self._do(ev.StopTask(slot))

    def _communicate(self) -> None:
        queue, leaving = self._queue, self._leaving
        if leaving is not None:
            if leaving.mute:
                return
            if isinstance(queue.call, ev.OpenSession) and not (queue.in_air or self._hand.reports):
                queue.dropped()  # nothing to open a session for
        if queue.is_ready(self._now):
            call = queue.call or self._next_call()
            if call is not None:
                queue.sent(call)
                self._do(call)

    def _next_call(self) -> Optional[ev.Call]:
        session, leaving, hand = self._queue.session, self._leaving, self._hand
        reports = hand.first_reports()
        if leaving is not None and not reports:
            if session is None or leaving.quiet_at is None:
                return None
            return ev.CloseSession(session)
        if session is None:
            return ev.OpenSession(self._draw_hello())
        want = 0 if leaving is not None else self._claiming.want(hand, self._now)
        if not reports and (want == 0 or hand.free() <= 0):
            return None
        if want:
            self._newest_lease = self._draw_lease()
        lease = self._newest_lease if want else ""
        lifetime_s = self._claiming.lifetime_s(self._now)
        return ev.SendExchange(Request(session, reports, want, lease, lifetime_s))

    def _consider_exit(self) -> None:
        leaving, queue = self._leaving, self._queue
        if leaving is None or leaving.quiet_at is None:
            return
        undelivered = self.undelivered()
        all_said = queue.session is None and queue.call is None and not undelivered
        if all_said or leaving.is_over(self._now):
            code = leaving.code or (EXIT_UNDELIVERED if undelivered else 0)
            self._exited = True
            self._do(ev.Exit(code, leaving.reason))

    # Steps that several of these share

    def _do(self, action: ev.Action) -> None:
        self._out.append(action)

    def _say(self, level: int, text: str, *args: object) -> None:
        self._out.append(ev.Say(level, text, args))

    def _call_answered(self) -> None:
        away_s = self._queue.answered(self._now)
        if away_s is not None:
            self._say(logging.INFO, "the queue answers again after %.1f s", away_s)

    def _lose_session(self) -> None:
        self._queue.lost_session(self._now)
        self._say(logging.WARNING, "the session was lost: opening another")

    def _refused(self, error: TransportError) -> None:
        self._leave(f"the queue refuses to serve it: {error}", EXIT_REFUSED, mute=True)

    def _hand_back_queue(self) -> None:
        for queued in self._hand.queue.values():
            self._hand_back(queued.task)
        self._hand.queue.clear()

    def _hand_back(self, task: Task) -> None:
        self._journal.handed_back()
        self._report(unstarted_report(fence(task)))

    def _report(self, report: Report) -> None:
        held, text = fence(report), line(report)
        self._hand.reports[held] = (report, len(text))
        self._do(ev.SpoolReport(held, text))
