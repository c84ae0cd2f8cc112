"""The agent's core under any order of events: what it promises whatever happens."""

# ruff: noqa: D102 - the name of a rule says what happens, that of an invariant what holds

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from taskq_agent.core import events as ev
from taskq_agent.core.reports import fence
from taskq_agent.errors import Refused, SessionLost, TransportFailed
from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import CONTINUE, DONE, FAILED, RELEASED, STOP, Heartbeat, Held, Orders
from tests.helpers.core_harness import CoreHarness, queue_of
from tests.helpers.memory_queue import ANSWER_LOST, REQUEST_LOST, TWICE

ENDS = [
    Ended(DONE, result={}),
    Ended(FAILED, error_class="Boom", error="boom"),
    Ended(RELEASED),
    Ended(RELEASED, error_class="prepare-failed", error="no receptor", refused=True),
]
BROKEN = Ended(RELEASED, error_class="NodeBroken", error="no GPU", node_broken=True)


class AnyOrder(RuleBasedStateMachine):
    """What may happen to an agent, in any order.

    `CoreHarness` also checks: one call in flight at most, which after a failure is the same again;
    a slot runs one task at a time; no attempt runs twice or is reported twice.
    """

    harness: CoreHarness

    @initialize(
        slots=st.integers(1, 3),
        count=st.integers(0, 40),
        max_tasks=st.none() | st.integers(1, 5),
        until_empty=st.booleans(),
        max_seconds=st.none() | st.integers(60, 600),
        time_limit_s=st.none() | st.integers(1, 100),
        uniform=st.floats(0, 1),
        longest_wait_s=st.sampled_from([0.0, 0.0, 50.0]),
        on_disconnect=st.sampled_from([CONTINUE, CONTINUE, STOP]),
    )
    def begin(
        self,
        *,
        slots: int,
        count: int,
        max_tasks: int | None,
        until_empty: bool,
        max_seconds: int | None,
        time_limit_s: int | None,
        uniform: float,
        longest_wait_s: float,
        on_disconnect: str,
    ) -> None:
        self.max_tasks = max_tasks
        self.beats: list[Heartbeat] = []
        self.orders: list[Held] = []
        self.void: set[Held] = set()
        self.ended: list[Held] = []
        self.refused = 0
        queue = queue_of(count, time_limit_s=time_limit_s)
        queue.campaign = replace(queue.campaign, on_disconnect=on_disconnect)
        self.harness = CoreHarness(
            queue,
            uniform=uniform,
            slots=slots,
            max_tasks=max_tasks,
            until_empty=until_empty,
            max_seconds=max_seconds,
            longest_wait_s=longest_wait_s,
        )

    @precondition(lambda self: self.harness.in_flight is not None)
    @rule(trouble=st.sampled_from([None, None, None, REQUEST_LOST, ANSWER_LOST, TWICE]))
    def call_is_delivered(self, trouble: str | None) -> None:
        self.harness.deliver(trouble)

    @precondition(lambda self: self.harness.in_flight is not None)
    @rule(retry_after_s=st.sampled_from([0.0, 5.0, 100.0]))
    def queue_is_busy(self, retry_after_s: float) -> None:
        self.harness.fail(TransportFailed("busy", retry_after_s))

    @precondition(lambda self: self.harness.reports_something_new())
    @rule()
    def reports_are_refused(self) -> None:
        """But not that they were refused, so that none is dropped."""
        self.harness.fail(Refused("it cannot be stored"))

    @precondition(lambda self: self.harness.is_cancelled())
    @rule(trouble=st.sampled_from([REQUEST_LOST, ANSWER_LOST]))
    def wait_is_broken_off(self, trouble: str) -> None:
        self.harness.deliver(trouble)

    @precondition(lambda self: self.harness.core.heartbeat() is not None)
    @rule(orders=st.builds(Orders, claim_after_s=st.sampled_from([None, None, 0.0, 9.0])))
    def beat_is_answered(self, orders: Orders) -> None:
        self.harness.feed(ev.HeartbeatAnswered(self.harness.heartbeat().session, orders))

    @precondition(lambda self: self.harness.core.heartbeat() is not None)
    @rule()
    def order_to_drain_comes(self) -> None:
        self.harness.feed(
            ev.HeartbeatAnswered(self.harness.heartbeat().session, Orders(drain=True))
        )

    @precondition(lambda self: self.harness.running and self.harness.exit is None)
    @rule(data=st.data(), ended=st.sampled_from(ENDS))
    def task_ends(self, data: st.DataObject, ended: Ended) -> None:
        slot = data.draw(st.sampled_from(sorted(self.harness.running)))
        self.end(slot, ended)

    @precondition(lambda self: self.harness.running and self.harness.exit is None)
    @rule(data=st.data())
    def node_breaks(self, data: st.DataObject) -> None:
        slot = data.draw(st.sampled_from(sorted(self.harness.running)))
        self.end(slot, BROKEN)

    @rule(seconds=st.sampled_from([0.0, 0.01, 1.0, 7.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.harness.tick(seconds)

    @rule()
    def due_time_comes(self) -> None:
        due = self.harness.core.due()
        assert due > self.harness.now, "an agent does not spin"
        if due < self.harness.now + 1_000:
            self.harness.tick(due - self.harness.now)

    @rule()
    def beat_is_written_down(self) -> None:
        beat = self.harness.core.heartbeat()
        if beat is not None:
            self.beats.append(beat)

    @precondition(lambda self: self.beats)
    @rule(data=st.data())
    def beat_arrives(self, data: st.DataObject) -> None:
        """Late, or after younger ones, as it may be."""
        queue = self.harness.queue
        queue.trouble = lambda _: None
        beat = self.beats.pop(data.draw(st.integers(0, len(self.beats) - 1)))
        before = len(queue.given_away)
        try:
            self.orders += queue.heartbeat(beat).stop
        except SessionLost as error:
            self.harness.feed(ev.HeartbeatFailed(beat.session, error))
        current = self.harness.core.heartbeat()
        if current is not None and current.session == beat.session:
            for held in queue.given_away[before:]:
                assert held not in current.held, "what is in hand is not given away"
                assert held.lease not in current.pending, "what may be granted is not given away"

    @precondition(lambda self: self.orders)
    @rule(data=st.data())
    def order_to_stop_comes(self, data: st.DataObject) -> None:
        held = self.orders.pop(data.draw(st.integers(0, len(self.orders) - 1)))
        self.void.add(held)
        self.harness.feed(ev.StopOrdered(held))

    @precondition(lambda self: self.harness.queue.opened)
    @rule()
    def session_expires(self) -> None:
        self.harness.queue.expire(max(self.harness.queue.opened))

    @rule()
    def signal_comes(self) -> None:
        self.harness.feed(ev.TermSignal())

    @rule()
    def part_of_the_agent_breaks(self) -> None:
        self.harness.feed(ev.AgentFailed("something has failed"))

    @invariant()
    def every_end_is_reported(self) -> None:
        reported = {fence(report) for report in self.harness.reported}
        assert {held for held in self.ended if held not in self.void} <= reported

    @invariant()
    def every_report_is_kept_until_the_queue_has_judged_it(self) -> None:
        judged = sum(self.harness.queue.verdicts.values())
        assert len(self.harness.reported) - len(self.harness.spool) <= judged

    @invariant()
    def every_attempt_in_hand_is_named_in_beats(self) -> None:
        beat = self.harness.core.heartbeat()
        if beat is not None and self.harness.exit is None:
            assert self.harness.held() - self.void <= set(beat.held)
            assert set(self.harness.spool) <= set(beat.held)

    @invariant()
    def limit_of_attempts_is_kept(self) -> None:
        """Allow for what could not be run here: it does not count."""
        if self.max_tasks is not None:
            assert len(self.harness.started) <= self.max_tasks + self.refused

    def teardown(self) -> None:
        """From wherever it is, an agent that gets the order to leave does so, and all is delivered.

        Unless it was leaving before, and may have had no time left for it.
        """
        harness = self.harness
        in_time = not any(text.startswith("the agent leaves") for text in harness.logged)
        harness.feed(ev.TermSignal())
        for _ in range(200):
            if harness.exit is not None:
                break
            if harness.in_flight is not None:
                harness.deliver(REQUEST_LOST if harness.is_cancelled() else None)
            elif harness.stopped_slots and harness.running:
                self.end(next(iter(harness.running)), ENDS[1])
            else:
                harness.tick(1)
        assert harness.exit is not None, "the agent leaves"
        if in_time:
            assert not harness.spool
            assert all(entry.lease is None for entry in harness.queue.tasks.values())
        elif harness.spool:
            assert harness.exit.code != 0, (
                "it does not look well when something is left undelivered"
            )

    def end(self, slot: int, ended: Ended) -> None:
        self.ended.append(fence(self.harness.running[slot][0]))
        self.refused += ended.refused or ended.node_broken
        self.harness.end(slot, ended)


AnyOrder.TestCase.settings = settings(max_examples=100, stateful_step_count=60)
TestAnyOrder = AnyOrder.TestCase
