"""The agent's mind: events in, actions out; it reads no clock and touches nothing.

Everything an agent decides is decided here, one event at a time, so that it can be tested
without threads, processes or a network. What it keeps to:

* One call at most is in the air. A claim that failed is repeated as it is, under the same lease
  id and with the same reports, until it is answered. So there is never a lease that the agent
  does not know of, and a report never counts twice.
* A report is kept until it has its verdict. All verdicts are final. One that the queue refuses
  does not keep the others back. Where tasks come without verdicts, reports go along with the next
  claims, or by themselves after a while.
* Beats name what is in hand *and* the claim in the air. The claim leaves the beat in the same
  step in which its tasks enter it.
* An order to stop is bound to a lease. What it does not find in hand it does not touch.
* A lost session is replaced by another. What is in hand goes on: from here nobody can tell
  whose outage it was, and the fence decides what counts; unless the campaign says that its
  tasks are not to run when the session must have expired.
* A claim is parked, kept waiting by the queue, only while nothing is in hand, and is broken off
  when the agent leaves.
* Where everything fails at once, one attempt is made at a time, and ever more rarely.
* A campaign that cannot be run here is left to others for a while. Only what is wrong with the node
  whatever the campaign makes the agent leave.
"""

from __future__ import annotations

import logging
import math
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple

from taskq_agent.core import events as ev
from taskq_agent.core.call_state import CallState
from taskq_agent.core.claiming import Claiming, in_words
from taskq_agent.core.delivery import Delivery
from taskq_agent.core.events import Outbox
from taskq_agent.core.held_tasks import HeldTasks
from taskq_agent.core.progress_log import ProgressLog, Totals
from taskq_agent.core.shutdown import Shutdown
from taskq_agent.core.task_flow import TaskFlow
from taskq_agent.errors import Refused, SessionLost, TransportError
from taskq_agent.protocol import Heartbeat, Hello, Orders, Report, Request, Unservable
from taskq_agent.settings import AgentSettings

EXIT_NODE_BROKEN = 69  # EX_UNAVAILABLE
EXIT_AGENT_BROKEN = 70  # EX_SOFTWARE
EXIT_UNDELIVERED = 75  # EX_TEMPFAIL
EXIT_REFUSED = 77  # EX_NOPERM

_LONGEST_HOLD_S = 3_600.0
_LATER_S = 5.0
_MOST_NAMED = 100


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
        self._hand = HeldTasks(settings.slots, inherited)
        self._queue = CallState(uniform)
        self._journal = ProgressLog(now)
        self._claiming = Claiming(settings, now, uniform)
        self._out = Outbox()
        self._work = TaskFlow(self._hand, self._claiming, self._journal, self._out)
        self._delivery = Delivery(self._hand, self._journal, self._out)
        self._newest_lease = ""
        self._uniform = uniform
        self._reports_at = 0.0
        self._telling = self._told = False
        self._leaving: Optional[Shutdown] = None
        self._exited = False
        self._named: Set[str] = set()
        self._now = now
        self._take: Dict[type, Callable[[Any], None]] = {
            ev.Opened: self._opened,
            ev.AnswerArrived: self._answered,
            ev.Closed: self._closed,
            ev.CallFailed: self._call_failed,
            ev.HeartbeatFailed: self._beat_failed,
            ev.Heard: self._heard,
            ev.StopOrdered: lambda event: self._work.take_back(event.held),
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
        if not self._exited:
            self._take[type(event)](event)
            self._advance()
        return self._out.emptied()

    def beat(self) -> Optional[Heartbeat]:
        """Return what a beat says at this moment; None if there is none to be sent."""
        if self._queue.session is None or self._queue.is_parked():
            return None
        claim = self._queue.claim()
        trouble = self._claiming.slowing.trouble(self._now)
        self._telling = trouble is not None
        return Heartbeat(
            session=self._queue.session,
            held=self._hand.held(),
            pending=() if claim is None else (claim.lease,),
            drawn=self._newest_lease,
            timeline=self._delivery.timeline,
            trouble=trouble,
            tally=self._claiming.slowing.tally(),
        )

    def due(self) -> float:
        """Return when time alone will next change something."""
        claiming = self._claiming
        times = [claiming.stop_at, claiming.claim_at, claiming.slowing.try_at, self._reports_at]
        ready_at = self._queue.ready_at()
        if ready_at is not None:
            times.append(ready_at)
        if self._leaving is not None:
            times += self._leaving.times()
        return min((time for time in times if time > self._now), default=math.inf)

    def tally(self) -> Totals:
        """Return how the attempts have ended."""
        return self._journal.tally

    def undelivered(self) -> int:
        """Return how many reports have no verdict."""
        return self._delivery.undelivered()

    # Events

    def _opened(self, event: ev.Opened) -> None:
        self._call_answered()
        self._queue.opened(event.welcome, self._now)
        self._out.add(ev.StartHeartbeats(event.welcome))
        text = "session %d is open: serving %s with %d slot%s"
        path, slots = self._settings.campaign, self._settings.slots
        plural = "" if slots == 1 else "s"
        self._out.say(logging.INFO, text, self._queue.session, path, slots, plural)

    def _answered(self, event: ev.AnswerArrived) -> None:
        claim, parked = self._queue.claim(), self._queue.was_parked(self._now)
        call = self._queue.call
        self._call_answered()
        self._delivery.answered(event.answer.acks, event.answer.timeline, self._now)
        self._delivery.heard(event.answer.timeline, self._now)
        if isinstance(call, ev.SendExchange) and len(event.answer.acks) < len(call.request.reports):
            # The database is away, and a gateway gave tasks out of what it has leased ahead.
            self._reports_at = self._now + _LATER_S * (0.5 + self._uniform())
        if claim is not None:
            leaving = self._leaving is not None
            kept = self._work.take_in(event.answer, self._now, leaving=leaving)
            self._claiming.claimed(event.answer, kept, self._now, parked=parked)
            self._name_unservable(event.answer.unservable)
        self._obey(event.answer.orders)

    def _closed(self, _: ev.Closed) -> None:
        self._queue.dropped()
        self._queue.session = None

    def _call_failed(self, event: ev.CallFailed) -> None:
        queue, call = self._queue, self._queue.call
        if isinstance(call, ev.CloseSession):
            self._closed(ev.Closed())
        elif isinstance(event.error, Refused):
            queue.dropped()
            if isinstance(call, ev.SendExchange) and call.request.reports:
                self._delivery.refused(call.request, event.error)
            else:
                self._refused(event.error)
        elif isinstance(call, ev.SendExchange) and call.request.session != queue.session:
            queue.dropped()  # it asked within a session that a beat has found to be lost
        elif self._leaving is not None and queue.parkable() is not None:
            queue.dropped()  # broken off; the end of the session gives back what it may get
        elif isinstance(event.error, SessionLost):
            queue.dropped()
            self._lose_session()
        else:
            first = queue.failing_since is None
            queue.failed(self._now, event.error)
            if isinstance(call, ev.SendExchange) and not call.request.want:
                queue.dropped()  # by then a claim can go along, which may be answered sooner
            level = logging.WARNING if first else logging.DEBUG
            self._out.say(level, "no answer from the queue, trying on: %s", event.error)

    def _beat_failed(self, event: ev.HeartbeatFailed) -> None:
        if event.session != self._queue.session:
            return
        if isinstance(event.error, SessionLost):
            self._lose_session()
        else:
            self._refused(event.error)

    def _heard(self, event: ev.Heard) -> None:
        if event.session == self._queue.session:
            self._queue.renewed(self._now)
            self._delivery.heard(event.timeline, self._now)
            self._told = self._telling
            self._work.suspected(event.suspect)
            self._obey(event.orders)

    def _obey(self, orders: Orders) -> None:
        if orders.claim_after_s is not None:
            hold_s = min(max(orders.claim_after_s, 0.0), _LONGEST_HOLD_S)
            self._claiming.hold_off(self._now + hold_s)
        if orders.drain and self._leaving is None:
            self._leave("it was told to drain", 0, patience_s=math.inf)

    def _task_ended(self, event: ev.TaskEnded) -> None:
        self._work.ended(event, self._now)
        if event.ended.node_broken:
            reason, grace_s = f"this node is broken: {event.ended.error}", self._settings.grace_s
            self._leave(reason, EXIT_NODE_BROKEN, patience_s=grace_s)

    def _terminated(self, _: ev.TermSignal) -> None:
        grace_s = self._settings.grace_s
        again = self._leaving is not None and self._leaving.stop_at <= self._now + grace_s
        self._leave("it was told to", 0, patience_s=0.0 if again else grace_s)

    def _broken(self, event: ev.Broken) -> None:
        self._leave(event.what, EXIT_AGENT_BROKEN)

    # What follows from any event

    def _advance(self) -> None:
        if self._now >= self._queue.expires_at:
            self._work.stop_unheard()
        if self._leaving is None:
            self._consider_leaving()
        if self._leaving is None:
            if self._claiming.is_stale(self._hand, self._now):
                self._work.hand_back_queue()
            self._work.begin(self._now)
        all_stop = self._leaving is not None and self._now >= self._leaving.stop_at
        self._work.tell_to_stop(self._now, all_stop=all_stop)
        if self._leaving is not None and self._leaving.falls_quiet(
            len(self._hand.running), self._now
        ):
            self._queue.hasten(self._now)
        self._communicate()
        self._out.add(*self._journal.summary(self._hand, self._now))
        self._consider_exit()

    def _consider_leaving(self) -> None:
        if self._now >= self._claiming.stop_at:
            self._leave("its time is up", 0)
        elif self._queue.call is None and self._hand.is_empty():
            over = self._claiming.why_over(self._now)
            if over is not None:
                self._leave(*over)

    def _leave(
        self, reason: str, code: int, *, patience_s: float = 0.0, mute: bool = False
    ) -> None:
        stop_at = min(self._now + patience_s, self._claiming.stop_at)
        if self._leaving is None:
            self._leaving = Shutdown(self._settings, reason, code, stop_at, mute=mute)
            self._work.hand_back_queue()
            self._queue.hasten(self._now)
            self._unpark()
        else:
            self._leaving.hasten(reason, code, stop_at, mute=mute)
        level = logging.ERROR if code else logging.INFO
        text = "the agent leaves, because %s; still running: %d"
        self._out.say(level, text, reason, len(self._hand.running))

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
                queue.sent(call, self._now)
                self._out.add(call)

    def _next_call(self) -> Optional[ev.Call]:
        session, leaving, hand = self._queue.session, self._leaving, self._hand
        reports = self._delivery.next_reports()
        if leaving is not None and not reports:
            if session is None or leaving.quiet_at is None:
                return None
            return ev.CloseSession(session, leaving.reason, leaving.code)
        if session is None:
            return ev.OpenSession(self._draw_hello())
        want = 0
        if leaving is None and not self._delivery.is_searching():
            want = self._claiming.want(hand, self._now)
        claims = want > 0 and hand.free() > 0
        late = self._now < self._reports_at and leaving is None
        if not claims and (late or not reports):
            return None
        if want:
            self._newest_lease = self._draw_lease()
        lease = self._newest_lease if want else ""
        lifetime_s = self._claiming.lifetime_s(self._now)
        # A claim that is parked stands for beats, which have to tell of trouble and of its end.
        parkable = want and not (self._told or self._claiming.slowing.slowed)
        wait_s = self._claiming.wait_s(hand, self._now) if parkable else 0.0
        return ev.SendExchange(
            Request(
                session,
                reports,
                want,
                lease,
                lifetime_s,
                wait_s,
                until_empty=self._settings.until_empty,
                ahead=True,
                without=self._claiming.without(hand, self._now) if want else (),
            )
        )

    def _consider_exit(self) -> None:
        leaving, queue = self._leaving, self._queue
        if leaving is None or leaving.quiet_at is None:
            return
        all_said = queue.session is None and queue.call is None and not self._hand.reports
        if all_said or leaving.is_over(self._now):
            code = leaving.code or (EXIT_UNDELIVERED if self.undelivered() else 0)
            self._exited = True
            self._out.add(ev.Exit(code, leaving.reason))

    def _name_unservable(self, unservable: Optional[Unservable]) -> None:
        """Say once what this agent waits for in vain; where it leaves for that, it says it then."""
        if unservable is None or self._settings.until_empty:
            return
        news = [reason for reason in unservable.reasons if reason not in self._named]
        if news and len(self._named) < _MOST_NAMED:
            self._named.update(news)
            text = "what this agent cannot be given: %s"
            self._out.say(logging.WARNING, text, in_words(unservable))

    # Steps that several of these share

    def _call_answered(self) -> None:
        away_s = self._queue.answered(self._now)
        if away_s is not None:
            self._out.say(logging.INFO, "the queue answers again after %.1f s", away_s)

    def _lose_session(self) -> None:
        self._unpark()
        self._queue.lost_session(self._now)
        self._out.say(logging.WARNING, "the session was lost: opening another")
        self._work.stop_unheard()

    def _unpark(self) -> None:
        """Do not leave a claim parked that is of no use any more."""
        claim = self._queue.unpark()
        if claim is not None:
            self._out.add(ev.BreakOff(claim))

    def _refused(self, error: TransportError) -> None:
        self._leave(f"the queue refuses to serve it: {error}", EXIT_REFUSED, mute=True)
