"""The agent's core: a state machine that takes events and returns actions, without a clock or I/O.

Every decision of an agent is made here, one event at a time, so that it can be tested without
threads, processes or a network. Its invariants:

* At most one call is in flight. A claim that failed is repeated unchanged, under the same lease id
  and with the same reports, until it is answered. So the agent knows every lease it was given, and
  a report never counts twice. A claim whose answer cannot be read, or is lost for what it holds, is
  given up after some tries: the next heartbeat, which does not name it, hands its tasks back.
* A report is kept until it has its verdict. All verdicts are final. A report that the queue
  refuses, or that is lost on the way each time, does not keep others back. If tasks come without
  verdicts, the reports are sent again with the next claims, or on their own after a while.
* Heartbeats name the held tasks *and* the claim in flight. The claim leaves the heartbeat in the
  same step in which its tasks enter it.
* An order to stop names a lease. An order for a lease that is not held has no effect.
* A lost session is replaced by a new one. Held tasks go on: the agent cannot tell whose outage it
  was, and the fence decides what counts. Tasks stop only if their campaign forbids them to run once
  the session must have expired.
* A claim becomes a long poll, kept waiting by the queue, only while nothing is held. It is
  cancelled when the agent shuts down.
* While everything fails at once, one attempt is made at a time, with growing pauses.
* A campaign that cannot run here is left to other agents for a while. Only a fault of the node that
  does not depend on the campaign makes the agent shut down.
"""

from __future__ import annotations

import logging
import math
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple

from taskq_agent import exit_codes
from taskq_agent.core import events as ev
from taskq_agent.core.call_state import CallState
from taskq_agent.core.claiming import Claiming
from taskq_agent.core.delivery import Delivery
from taskq_agent.core.events import Outbox
from taskq_agent.core.held_tasks import HeldTasks
from taskq_agent.core.progress_log import ProgressLog, Totals
from taskq_agent.core.shutdown import KilledTasks, Shutdown, SlotEvent
from taskq_agent.core.task_flow import TaskFlow
from taskq_agent.errors import Refused, SessionLost, TransportError
from taskq_agent.protocol import Answer, Heartbeat, Held, Hello, Orders, Report, Request, Welcome
from taskq_agent.room import Room
from taskq_agent.settings import AgentSettings

_REPORT_AGAIN_S = 5.0


class AgentCore:
    """One agent, from its first call to its exit.

    now, and all times: by a monotonic clock. draw_hello: for a new session, with a new key.
    draw_lease: makes increasing lease ids. uniform: draws from 0 to 1. inherited: reports of
    earlier processes, with the lengths of their lines. kept: see `HeldTasks`. room: see `Room`.
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
        kept: Optional[Mapping[Held, str]] = None,
        room: Optional[Room] = None,
    ) -> None:
        self._settings = settings
        self._draw_hello = draw_hello
        self._draw_lease = draw_lease
        self._held_tasks = HeldTasks(settings.slots, inherited, kept)
        self._calls = CallState(uniform)
        self._progress = ProgressLog(now)
        self._claiming = Claiming(settings, now, uniform, room)
        self._out = Outbox()
        self._task_flow = TaskFlow(self._held_tasks, self._claiming, self._progress, self._out)
        self._delivery = Delivery(self._held_tasks, self._progress, self._out, uniform)
        self._newest_lease = ""
        self._uniform = uniform
        self._reports_at = 0.0
        self._trouble_in_heartbeat = self._trouble_reported = False
        self._killed_tasks = KilledTasks()
        self._shutdown: Optional[Shutdown] = None
        self._signalled = self._exited = False
        self._now = now
        self._handlers: Dict[type, Callable[[Any], None]] = {
            Welcome: self._opened,
            Answer: self._answered,
            ev.Closed: self._closed,
            ev.CallFailed: self._call_failed,
            ev.HeartbeatFailed: self._heartbeat_failed,
            ev.HeartbeatAnswered: self._heartbeat_answered,
            ev.StopOrdered: lambda event: self._task_flow.revoke(event.held),
            ev.OthersStopOrdered: lambda event: self._task_flow.revoke_others(event.left),
            ev.CallsEnded: lambda event: self._task_flow.calls_ended(
                event, self._now, shutting_down=self._shutdown is not None
            ),
            ev.BatchMoved: lambda event: self._killed_tasks.hold(event, self._now),
            ev.TaskEnded: lambda event: self._killed_tasks.hold(event, self._now),
            ev.ResultStored: lambda event: self._delivery.stored(event.held, event.refusal),
            ev.TermSignal: self._terminated,
            ev.AgentFailed: lambda event: self._shut_down(event.what, exit_codes.AGENT_BROKEN),
            ev.Woken: lambda _: self._claiming.woken(self._now, self._calls.claim() is not None),
            ev.Tick: lambda _: None,
        }

    def handle(self, event: ev.Event, now: float) -> List[ev.Action]:
        """Handle an event; return the actions to perform, in order.

        It needs a Tick at `due()`, and at least every second. After Exit nothing more happens.
        """
        self._now = now
        if not self._exited:
            self._handlers[type(event)](event)
            self._advance()
        return self._out.take_all()

    def heartbeat(self, *, news: bool = False) -> Optional[Heartbeat]:
        """Return the heartbeat to send now; None without a session, or news during a long poll."""
        if self._calls.session is None or (self._calls.is_long_polling() and not news):
            return None
        claim = self._calls.claim()
        trouble = self._claiming.throttle.trouble(self._now)
        self._trouble_in_heartbeat = trouble is not None
        held, claims = self._task_flow.naming.named()
        return Heartbeat(
            session=self._calls.session,
            held=held,
            claims=claims,
            pending=() if claim is None else (claim.lease,),
            drawn=self._newest_lease,
            timeline=self._delivery.timeline,
            trouble=self._delivery.with_warning(trouble),
            tally=self._claiming.throttle.outcomes(),
            batches=self._claiming.gathering.smaller(),
            shares=self._claiming.rationing.shares(self._held_tasks.running),
            stamp=self._calls.stamp,
        )

    def due(self) -> float:
        """Return when time alone will next change something."""
        claiming, ready_at = self._claiming, self._calls.ready_at()
        times = [claiming.stop_at, claiming.claim_at, claiming.throttle.try_at, self._reports_at]
        times += [claiming.idle_at(), self._killed_tasks.next_at(), self._delivery.next_try_at()]
        if ready_at is not None:
            times.append(ready_at)
        if self._shutdown is not None:
            times += self._shutdown.due_times()
        return min((time for time in times if time > self._now), default=math.inf)

    def totals(self) -> Totals:
        """Return how many attempts ended in each way."""
        return self._progress.totals

    def undelivered(self) -> int:
        """Return the number of reports without a verdict."""
        return self._delivery.undelivered()

    # Events

    def _opened(self, welcome: Welcome) -> None:
        self._call_answered()
        self._calls.opened(welcome, self._now)
        self._out.add(ev.StartHeartbeats(welcome))
        self._task_flow.set_bans(welcome.banned)
        text = "session %d is open: serving %s with %d slot%s"
        path, slots = self._settings.campaign, self._settings.slots
        plural = "" if slots == 1 else "s"
        self._out.log(logging.INFO, text, self._calls.session, path, slots, plural)

    def _answered(self, answer: Answer) -> None:
        claim, long_polled = self._calls.claim(), self._calls.has_long_polled(self._now)
        call = self._calls.call
        self._call_answered()
        self._delivery.answered(answer.acks, answer.timeline, self._now)
        self._delivery.saw_timeline(answer.timeline, self._now)
        if isinstance(call, Request) and len(answer.acks) < len(call.reports):
            # The database is away: a gateway gave tasks that it had leased ahead, without verdicts.
            self._reports_at = self._now + _REPORT_AGAIN_S * (0.5 + self._uniform())
        if claim is not None:
            leaves = self._shutdown is not None
            kept = self._task_flow.take_in(answer, claim, self._now, shutting_down=leaves)
            self._claiming.claimed(answer, claim, kept, self._now, long_polled=long_polled)
            if news := self._claiming.unservable_news(answer):
                self._out.log(logging.WARNING, "this agent cannot get %s", news)
        self._follow_orders(answer.orders)

    def _closed(self, _: ev.Closed) -> None:
        self._calls.dropped()
        self._calls.session = None

    def _call_failed(self, event: ev.CallFailed) -> None:
        calls, call = self._calls, self._calls.call
        if isinstance(call, ev.CloseSession):
            self._closed(ev.Closed())
        elif isinstance(event.error, Refused):
            calls.dropped()
            if isinstance(call, Request) and call.reports:
                self._delivery.refused(call, event.error)
            else:
                self._refused(event.error)
        elif isinstance(call, Request) and call.session != calls.session:
            calls.dropped()  # sent within a session that a heartbeat found to be lost
        elif self._shutdown is not None and calls.long_poll() is not None:
            calls.dropped()  # cancelled; closing the session returns what it may get
        elif isinstance(event.error, SessionLost):
            calls.dropped()
            self._lose_session()
        else:
            self._unanswered(event.error)

    def _unanswered(self, error: TransportError) -> None:
        """Repeat the current call later, or give it up where it would never come through."""
        calls, call = self._calls, self._calls.call
        loud, text = calls.failed(self._now, error), "no answer from the queue, trying again: %s"
        if isinstance(call, Request) and self._delivery.is_stuck(call, calls, self._now):
            calls.dropped()
            calls.unstuck()
            if call.reports:
                self._delivery.lost(call, error, self._now)
                return
            self._claiming.unread(self._now)
            loud, text = True, "a claim does not come through, and its tasks wait again: %s"
        elif isinstance(call, Request) and not call.want:
            calls.dropped()  # the repeat may carry a claim, which may be answered sooner
        elif calls.unreadable > 1:
            calls.dropped()
            self._claiming.unread(self._now)
            loud, text = True, "a claim has failed, and its tasks wait again: %s"
        self._out.log(logging.WARNING if loud else logging.DEBUG, text, error)

    def _heartbeat_failed(self, event: ev.HeartbeatFailed) -> None:
        if event.session != self._calls.session:
            return
        if isinstance(event.error, SessionLost):
            self._lose_session()
        else:
            self._refused(event.error)

    def _heartbeat_answered(self, event: ev.HeartbeatAnswered) -> None:
        if event.session == self._calls.session:
            self._calls.heard(self._now, event.stamp)
            self._delivery.saw_timeline(event.timeline, self._now)
            reported = self._trouble_reported = self._trouble_in_heartbeat
            self._task_flow.set_suspect(event.suspect, self._now, reported=reported)
            self._task_flow.set_bans(event.banned)
            self._follow_orders(event.orders)

    def _follow_orders(self, orders: Orders) -> None:
        if orders.claim_after_s is not None:
            self._claiming.hold_off(self._now, orders.claim_after_s)
        if orders.drain and self._shutdown is None:
            why = f": {orders.why}" if orders.why else ""
            self._shut_down(f"it got the order to drain{why}", 0, patience_s=math.inf)

    def _end_tasks(self, event: SlotEvent) -> None:
        self._leave_node(self._task_flow.ended(event, self._now, signalled=self._signalled))

    def _leave_node(self, fault: Optional[str]) -> None:
        if fault is not None:
            reason, grace_s = f"this node is broken: {fault}", self._settings.grace_s
            self._shut_down(reason, exit_codes.NODE_BROKEN, patience_s=grace_s)

    def _terminated(self, event: ev.TermSignal) -> None:
        self._signalled = True
        grace_s = self._settings.grace_s
        until = self._now + grace_s - event.patience_s
        again = self._shutdown is not None and self._shutdown.stop_at <= until
        self._shut_down("it got a signal to stop", 0, patience_s=0.0 if again else grace_s)

    # Steps after every event

    def _advance(self) -> None:
        if self._now >= self._calls.expires_at:
            self._task_flow.stop_disconnected()
        for event in self._killed_tasks.take(math.inf if self._signalled else self._now):
            self._end_tasks(event)
        if not self._held_tasks.is_empty():
            self._claiming.busy_at = self._now
        if self._shutdown is None:
            self._check_for_shutdown()
        if self._shutdown is None:
            if self._claiming.is_stale(self._held_tasks, self._now):
                self._task_flow.hand_back_queue()
            self._task_flow.begin(self._now)
        all_stop = self._shutdown is not None and self._now >= self._shutdown.stop_at
        self._task_flow.stop_tasks(self._now, all_stop=all_stop)
        if self._shutdown is not None and self._shutdown.becomes_idle(
            len(self._held_tasks.running), self._now
        ):
            self._calls.hasten(self._now, self._settings.farewell_s / 4)
        self._communicate()
        running, to_report = len(self._held_tasks.running), len(self._held_tasks.reports)
        self._out.add(*self._progress.summary(running, to_report, self._now))
        self._check_for_exit()

    def _check_for_shutdown(self) -> None:
        over = self._claiming.reason_to_leave(self._held_tasks, self._calls, self._now)
        if over is not None:
            self._shut_down(*over)

    def _shut_down(
        self, reason: str, code: int, *, patience_s: float = 0.0, refused: bool = False
    ) -> None:
        stop_at = min(self._now + patience_s, self._claiming.stop_at)
        if self._shutdown is None:
            self._shutdown = Shutdown(self._settings, reason, code, stop_at, refused=refused)
            self._task_flow.hand_back_queue()
            self._calls.hasten(self._now, self._settings.farewell_s / 4)
            self._delivery.hasten(self._now)
            self._drop_long_poll()
        else:
            self._shutdown.hasten(reason, code, stop_at, refused=refused)
        text = "the agent leaves, because %s; still running: %d"
        level, running = logging.ERROR if code else logging.INFO, len(self._held_tasks.running)
        self._out.log(level, text, reason, running)

    def _communicate(self) -> None:
        calls, shutdown = self._calls, self._shutdown
        if shutdown is not None:
            if shutdown.refused:
                return
            if isinstance(calls.call, Hello) and not (calls.in_flight or self._held_tasks.reports):
                calls.dropped()  # nothing to open a session for
        if calls.is_ready(self._now):
            call = calls.call or self._next_call()
            if call is not None:
                calls.sent(call, self._now)
                self._out.add(call)

    def _next_call(self) -> Optional[ev.Call]:
        session, shutdown, held_tasks = self._calls.session, self._shutdown, self._held_tasks
        reports = self._delivery.next_reports(self._now)
        if shutdown is not None and not reports:
            if session is None or not shutdown.may_close(self.undelivered()):
                return None
            return ev.CloseSession(session, shutdown.end(self._claiming.attempts))
        if session is None:
            return self._draw_hello()
        want = 0
        if shutdown is None and self._delivery.leaves_room(self._now):
            want = self._claiming.want(held_tasks, self._now)
        claims = want > 0 and self._claiming.has_room(held_tasks)
        late = self._now < self._reports_at and shutdown is None
        if not claims and (late or not reports):
            return None
        if want:
            self._newest_lease = self._draw_lease()
        lease = self._newest_lease if want else ""
        lifetime_s = self._claiming.lifetime_s(self._now)
        # A long poll replaces heartbeats, which must report trouble and its end.
        long_poll = want and not (self._trouble_reported or self._claiming.throttle.active)
        wait_s = self._claiming.wait_s(held_tasks, self._now) if long_poll else 0.0
        return Request(
            session,
            reports,
            want,
            lease,
            lifetime_s,
            wait_s,
            until_empty=self._settings.until_empty,
            ahead=True,
            without=self._claiming.without(held_tasks, self._now) if want else (),
        )

    def _check_for_exit(self) -> None:
        shutdown, calls = self._shutdown, self._calls
        if shutdown is None or shutdown.idle_at is None:
            return
        all_said = calls.call is None and self._delivery.is_over(closed=calls.session is None)
        if all_said or shutdown.is_over(self._now):
            code = shutdown.code or (exit_codes.UNDELIVERED if self.undelivered() else 0)
            self._exited = True
            self._out.add(ev.Exit(code, shutdown.reason))

    # Shared steps

    def _call_answered(self) -> None:
        away_s = self._calls.answered(self._now)
        if away_s is not None:
            self._out.log(logging.INFO, "the queue answers again after %.1f s", away_s)

    def _lose_session(self) -> None:
        self._drop_long_poll()
        self._calls.lost_session(self._now)
        self._out.log(logging.WARNING, "the session was lost: opening another")
        self._task_flow.lose_session()

    def _drop_long_poll(self) -> None:
        """Drop a long poll that is no longer wanted; cancel it if it is in flight."""
        if (claim := self._calls.drop_long_poll()) is not None:
            self._out.add(ev.CancelExchange(claim))

    def _refused(self, error: TransportError) -> None:
        self._shut_down(f"the queue refuses to serve it: {error}", exit_codes.REFUSED, refused=True)
