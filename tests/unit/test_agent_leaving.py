from __future__ import annotations

import pytest

from taskq_agent.core import events as ev
from taskq_agent.core.shutdown import PATIENCE_S
from taskq_agent.errors import Refused, TransportFailed
from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import DONE, FAILED, RELEASED
from tests.helpers.core_harness import CoreHarness, queue_of, started_harness


def test_terminated_agent_hands_back_what_has_not_begun_at_once() -> None:
    """Others can go on with the tasks claimed ahead while the running ones end."""
    harness = started_harness(10_000, slots=2)
    harness.run_quickly(0.01, 20)
    in_hand = len(harness.heartbeat().held)
    harness.reported.clear()
    harness.feed(ev.TermSignal())
    assert len(harness.reported) == in_hand - 2
    assert {(report.outcome, report.started) for report in harness.reported} == {(RELEASED, False)}
    assert harness.stopped_slots == []


def test_terminated_agent_lets_running_tasks_end_within_the_grace() -> None:
    """What ends in time counts as it is, what does not is stopped and handed back."""
    harness = started_harness(4, slots=2, grace_s=20, ahead_s=0)
    harness.feed(ev.TermSignal())
    harness.tick(10)
    harness.end(0)
    harness.deliver_all()
    assert harness.queue.outcomes(1) == [DONE]
    assert len(harness.running) == 1, "no task is claimed any more"
    harness.tick(10)
    assert harness.stopped_slots == [1]
    harness.end(1, Ended(FAILED, error_class="Signal", error="terminated", exit_code=-15))
    harness.deliver_all()
    assert harness.queue.outcomes(2) == [RELEASED]
    assert harness.exit == ev.Exit(0, "it got a signal to stop")
    assert harness.queue.opened == set(), "the session is closed"


def test_second_signal_stops_running_tasks_at_once() -> None:
    """Somebody who asks twice does not want to wait."""
    harness = started_harness(2, slots=2, grace_s=3600)
    harness.feed(ev.TermSignal(PATIENCE_S))
    harness.tick(0.9)
    harness.feed(ev.TermSignal(PATIENCE_S))
    assert harness.stopped_slots == [], "a batch system and its job's script send one signal twice"
    harness.feed(ev.TermSignal())
    assert sorted(harness.stopped_slots) == [0, 1]


def test_task_that_ends_before_the_order_to_stop_arrives_is_done() -> None:
    """Its result is not thrown away."""
    harness = started_harness(1, slots=1, grace_s=0)
    harness.feed(ev.TermSignal())
    assert harness.stopped_slots == [0]
    harness.end(0)
    harness.deliver_all()
    assert harness.queue.outcomes(1) == [DONE]


def test_order_to_stop_is_given_again() -> None:
    """An order that comes between two steps of a runner is not lost for good."""
    harness = started_harness(1, slots=1, grace_s=0)
    harness.feed(ev.TermSignal())
    harness.tick(0.5)
    harness.tick(0.5)
    assert harness.stopped_slots == [0, 0]


def test_tasks_of_a_claim_in_flight_are_handed_back_when_the_agent_leaves() -> None:
    """No task stays working because it came while the agent was leaving."""
    harness = CoreHarness(queue_of(3), slots=1)
    harness.deliver()
    harness.feed(ev.TermSignal())
    harness.deliver_all()
    assert not harness.running
    assert harness.exit == ev.Exit(0, "it got a signal to stop")
    assert harness.queue.verdicts == {"accepted": 1}
    assert harness.queue.outcomes(1) == [RELEASED]


@pytest.mark.parametrize("stuck", ["payload", "call"])
def test_terminated_agent_leaves_in_bounded_time_whatever_hangs(stuck: str) -> None:
    """A batch system kills what does not leave; the agent is faster."""
    harness = started_harness(2, slots=1, grace_s=20, stop_s=10, farewell_s=10, ahead_s=0)
    if stuck == "call":
        harness.end(0)
    harness.feed(ev.TermSignal())
    begun = harness.now
    while harness.exit is None and harness.now < begun + 100:
        harness.tick(1)
        if stuck == "payload" and harness.in_flight is not None:
            harness.deliver()
    assert harness.exit is not None
    assert harness.now - begun <= 40
    assert harness.exit.code == (75 if stuck == "call" else 0)


def test_last_reports_are_tried_often_however_long_the_queue_was_away() -> None:
    """A queue that comes back in the last seconds still gets the results."""
    harness = started_harness(2, slots=2, grace_s=20, farewell_s=10, ahead_s=0, uniform=1.0)
    harness.end(0)
    harness.feed(ev.TermSignal())
    for second in range(26):
        if second == 20:
            harness.end(1)
        if harness.in_flight is not None:
            harness.fail(TransportFailed("down"))
        harness.tick(1)
    while harness.exit is None:
        harness.tick(1)
        harness.deliver_all()
    assert harness.exit == ev.Exit(0, "it got a signal to stop")
    assert not harness.spool


def test_agent_that_never_had_a_session_leaves_at_once() -> None:
    """Ctrl-C while the queue cannot be reached ends an agent that has nothing to tell."""
    harness = CoreHarness(queue_of(1), slots=1)
    harness.fail(TransportFailed("down"))
    harness.feed(ev.TermSignal())
    assert harness.exit == ev.Exit(0, "it got a signal to stop")


def test_broken_node_hands_its_task_back_uncounted_and_leaves() -> None:
    """What a broken node tried counts neither as failure nor as loss; that it tried is recorded."""
    harness = started_harness(5, slots=2, grace_s=20, ahead_s=0)
    harness.end(0, Ended(RELEASED, error_class="NodeBroken", error="no GPU", node_broken=True))
    report = harness.reported[-1]
    assert (report.outcome, report.started, report.error) == (RELEASED, True, "no GPU")
    harness.deliver_all()
    assert harness.exit is None, "the other task gets its grace"
    harness.end(1)
    harness.deliver_all()
    assert harness.exit == ev.Exit(69, "this node is broken: no GPU")
    assert harness.queue.outcomes(2) == [DONE]


def test_broken_agent_leaves_with_an_error() -> None:
    """An agent that has lost one of its threads does not go on looking alive."""
    harness = started_harness(2, slots=1)
    harness.feed(ev.AgentFailed("its heartbeats have failed"))
    assert harness.stopped_slots == [0]
    harness.end(0, Ended(RELEASED))
    harness.deliver_all()
    assert harness.exit == ev.Exit(70, "its heartbeats have failed")


@pytest.mark.parametrize("by", ["call", "beat"])
def test_refused_agent_leaves_without_another_word(by: str) -> None:
    """An agent without the right to be here does not knock again."""
    harness = started_harness(1, slots=2, ahead_s=0)
    if by == "call":
        harness.fail(Refused("no right to /test"))
    else:
        harness.deliver()
        harness.feed(ev.HeartbeatFailed(1, Refused("no right to /test")))
    harness.end(0)
    assert harness.in_flight is None
    assert harness.exit == ev.Exit(77, "the queue refuses to serve it: no right to /test")
    assert len(harness.spool) == 1
