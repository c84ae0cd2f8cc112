from __future__ import annotations

import pytest

from taskq_agent.core import events as ev
from taskq_agent.errors import Refused, TransportFailed
from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import DONE, FAILED, RELEASED
from tests.helpers.core_harness import World, queue_of, world_of


def test_terminated_agent_hands_back_what_has_not_begun_at_once() -> None:
    """Others can go on with the tasks claimed ahead while the running ones end."""
    world = world_of(10_000, slots=2)
    world.run_briskly(0.01, 20)
    in_hand = len(world.heartbeat().held)
    world.reported.clear()
    world.feed(ev.TermSignal())
    assert len(world.reported) == in_hand - 2
    assert {(report.outcome, report.started) for report in world.reported} == {(RELEASED, False)}
    assert world.told_to_stop == []


def test_terminated_agent_lets_running_tasks_end_within_the_grace() -> None:
    """What ends in time counts as it is, what does not is stopped and handed back."""
    world = world_of(4, slots=2, grace_s=20, ahead_s=0)
    world.feed(ev.TermSignal())
    world.tick(10)
    world.end(0)
    world.deliver_all()
    assert world.queue.outcomes(1) == [DONE]
    assert len(world.running) == 1, "no task is claimed any more"
    world.tick(10)
    assert world.told_to_stop == [1]
    world.end(1, Ended(FAILED, error_class="Signal", error="terminated", exit_code=-15))
    world.deliver_all()
    assert world.queue.outcomes(2) == [RELEASED]
    assert world.exit == ev.Exit(0, "it was told to")
    assert world.queue.opened == set(), "the session is closed"


def test_second_signal_stops_running_tasks_at_once() -> None:
    """Somebody who asks twice does not want to wait."""
    world = world_of(2, slots=2, grace_s=3600)
    world.feed(ev.TermSignal())
    world.feed(ev.TermSignal())
    assert sorted(world.told_to_stop) == [0, 1]


def test_task_that_was_done_when_told_to_stop_is_done() -> None:
    """A result is not thrown away because the order to stop came first."""
    world = world_of(1, slots=1, grace_s=0)
    world.feed(ev.TermSignal())
    assert world.told_to_stop == [0]
    world.end(0)
    world.deliver_all()
    assert world.queue.outcomes(1) == [DONE]


def test_order_to_stop_is_given_again() -> None:
    """An order that comes between two steps of a runner is not lost for good."""
    world = world_of(1, slots=1, grace_s=0)
    world.feed(ev.TermSignal())
    world.tick(0.5)
    world.tick(0.5)
    assert world.told_to_stop == [0, 0]


def test_claim_in_the_air_when_told_to_leave_is_handed_back() -> None:
    """No task is left behind working because the agent was leaving when it came."""
    world = World(queue_of(3), slots=1)
    world.deliver()
    world.feed(ev.TermSignal())
    world.deliver_all()
    assert not world.running
    assert world.exit == ev.Exit(0, "it was told to")
    assert world.queue.verdicts == {"accepted": 1}
    assert world.queue.outcomes(1) == [RELEASED]


@pytest.mark.parametrize("stuck", ["payload", "call"])
def test_terminated_agent_leaves_in_bounded_time_whatever_hangs(stuck: str) -> None:
    """A batch system kills what does not leave; the agent is faster."""
    world = world_of(2, slots=1, grace_s=20, stop_s=10, farewell_s=10, ahead_s=0)
    if stuck == "call":
        world.end(0)
    world.feed(ev.TermSignal())
    begun = world.now
    while world.exit is None and world.now < begun + 100:
        world.tick(1)
        if stuck == "payload" and world.air is not None:
            world.deliver()
    assert world.exit is not None
    assert world.now - begun <= 40
    assert world.exit.code == (75 if stuck == "call" else 0)


def test_last_reports_are_tried_often_however_long_the_queue_was_away() -> None:
    """A queue that comes back in the last seconds still gets the results."""
    world = world_of(2, slots=2, grace_s=20, farewell_s=10, ahead_s=0, uniform=1.0)
    world.end(0)
    world.feed(ev.TermSignal())
    for second in range(26):
        if second == 20:
            world.end(1)
        if world.air is not None:
            world.fail(TransportFailed("down"))
        world.tick(1)
    while world.exit is None:
        world.tick(1)
        world.deliver_all()
    assert world.exit == ev.Exit(0, "it was told to")
    assert not world.spool


def test_agent_that_never_had_a_session_leaves_at_once() -> None:
    """Ctrl-C while the queue cannot be reached ends an agent that has nothing to tell."""
    world = World(queue_of(1), slots=1)
    world.fail(TransportFailed("down"))
    world.feed(ev.TermSignal())
    assert world.exit == ev.Exit(0, "it was told to")


def test_broken_node_hands_its_task_back_uncounted_and_leaves() -> None:
    """What a broken node tried counts neither as failure nor as loss; that it tried is recorded."""
    world = world_of(5, slots=2, grace_s=20, ahead_s=0)
    world.end(0, Ended(RELEASED, error_class="NodeBroken", error="no GPU", node_broken=True))
    report = world.reported[-1]
    assert (report.outcome, report.started, report.error) == (RELEASED, True, "no GPU")
    world.deliver_all()
    assert world.exit is None, "the other task gets its grace"
    world.end(1)
    world.deliver_all()
    assert world.exit == ev.Exit(69, "this node is broken: no GPU")
    assert world.queue.outcomes(2) == [DONE]


def test_broken_agent_leaves_with_an_error() -> None:
    """An agent that has lost one of its threads does not go on looking alive."""
    world = world_of(2, slots=1)
    world.feed(ev.AgentFailed("its heartbeats have failed"))
    assert world.told_to_stop == [0]
    world.end(0, Ended(RELEASED))
    world.deliver_all()
    assert world.exit == ev.Exit(70, "its heartbeats have failed")


@pytest.mark.parametrize("by", ["call", "beat"])
def test_refused_agent_leaves_without_another_word(by: str) -> None:
    """An agent without the right to be here does not knock again."""
    world = world_of(1, slots=2, ahead_s=0)
    if by == "call":
        world.fail(Refused("no right to /test"))
    else:
        world.deliver()
        world.feed(ev.HeartbeatFailed(1, Refused("no right to /test")))
    world.end(0)
    assert world.air is None
    assert world.exit == ev.Exit(77, "the queue refuses to serve it: no right to /test")
    assert len(world.spool) == 1
