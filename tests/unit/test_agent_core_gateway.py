"""What the core does with what only a gateway says: orders, long polls, when to come back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from taskq_agent.core import events as ev
from taskq_agent.errors import SessionLost, TransportFailed
from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import DONE, FAILED, RELEASED, STOP, Answer, Orders
from tests.helpers.core_harness import World, queue_of, world_of

DRAIN = Orders(drain=True)
WAIT = {"longest_wait_s": 50.0, "slots": 1}


def idle_world(**settings: Any) -> World:
    """Return an agent whose first claim has found nothing and whose second is in the air."""
    world = world_of(0, **{**WAIT, **settings})
    world.tick(5)
    return world


def order(world: World, orders: Orders) -> None:
    """Let an answered beat carry orders."""
    world.feed(ev.HeartbeatAnswered(world.heartbeat().session, orders))


# Orders


def test_drained_agent_lets_its_task_end_and_leaves() -> None:
    """However long the task takes; and what has not begun goes back at once."""
    world = world_of(300, slots=2)
    world.run_briskly(0.01, 50)
    assert len(world.heartbeat().held) > 2, "it has claimed ahead"
    order(world, DRAIN)
    world.deliver_all()
    world.tick(100_000)
    assert world.told_to_stop == []
    assert len(world.heartbeat().held) == 2
    for slot in (0, 1):
        world.end(slot)
    world.deliver_all()
    assert world.exit == ev.Exit(0, "it was told to drain")
    assert {entry.lease for entry in world.queue.tasks.values()} == {None}


def test_order_to_drain_in_an_answer_counts_too() -> None:
    world = World(queue_of(5), slots=1)
    world.deliver()
    world.air = None
    world.feed(ev.AnswerArrived(Answer(unfinished=5, orders=DRAIN)))
    world.deliver_all()
    assert world.exit == ev.Exit(0, "it was told to drain")


def test_order_of_a_former_session_is_not_obeyed() -> None:
    world = world_of(1, slots=1)
    world.feed(ev.HeartbeatAnswered(world.heartbeat().session + 1, DRAIN))
    world.end(0)
    world.deliver_all()
    assert world.exit is None


def test_signal_to_a_draining_agent_grants_the_grace() -> None:
    """Only the second signal stops at once what runs; draining was not the first."""
    world = world_of(1, slots=1, grace_s=20)
    order(world, DRAIN)
    world.feed(ev.TermSignal())
    world.tick(19)
    assert world.told_to_stop == []
    world.tick(1)
    assert world.told_to_stop == [0]


def test_claims_wait_until_they_are_wanted() -> None:
    """An agent that is told to claim later reports meanwhile, and then claims."""
    world = world_of(5, slots=1, ahead_s=0)
    order(world, Orders(claim_after_s=30))
    world.end(0)
    assert world.request().want == 0
    world.deliver()
    world.tick(29)
    assert world.air is None
    world.tick(1)
    assert world.request().want == 1


def test_absurd_delay_is_cut_short() -> None:
    world = world_of(5, slots=1, ahead_s=0)
    order(world, Orders(claim_after_s=1e12))
    world.end(0)
    world.deliver()
    world.tick(3_600)
    assert world.request().want == 1


def test_queue_says_when_to_come_back() -> None:
    """Not before, and not all at once; the delays of one's own do not grow by it."""
    world = world_of(1, slots=1, uniform=1.0)
    world.end(0)
    for _ in range(3):
        world.fail(TransportFailed("busy", 7.0))
        assert world.core.due() - world.now == pytest.approx(7.5)
        world.tick(7.5)
    world.fail(TransportFailed("down"))
    assert world.core.due() - world.now == pytest.approx(1.0)


# Long polls


def test_idle_agent_lets_its_claim_wait() -> None:
    """For a time that differs between agents, so that they do not all come back together."""
    waits = {idle_world(uniform=uniform).request().wait_s for uniform in (0.0, 0.5, 1.0)}
    assert waits == {25.0, 37.5, 50.0}


def test_claim_of_a_busy_agent_does_not_wait() -> None:
    """One call at a time is in the air: reports would wait with it."""
    world = world_of(1, slots=2, longest_wait_s=50.0)
    world.tick(5)
    assert world.running
    assert (world.request().want, world.request().wait_s) == (1, 0.0)


def test_claim_with_a_report_does_not_wait() -> None:
    world = world_of(1, **WAIT)
    world.end(0)
    assert world.request().reports
    assert world.request().wait_s == 0.0


def test_agent_asks_again_at_once_after_a_full_wait() -> None:
    """The gap in which a new task finds nobody waiting stays short."""
    world = idle_world()
    for _ in range(20):
        world.now += world.request().wait_s
        world.deliver()
        assert world.core.due() - world.now <= 0.2
        world.tick(world.core.due() - world.now)


def test_agent_does_not_spin_where_claims_are_not_kept() -> None:
    """An answer that comes at once, empty, is followed by growing pauses as ever."""
    world = idle_world()
    pauses = []
    for _ in range(8):
        world.deliver()
        pauses.append(world.core.due() - world.now)
        world.tick(pauses[-1])
    assert pauses[-1] > 2


def test_wait_ends_with_the_life_of_the_agent() -> None:
    world = world_of(0, max_seconds=30, stop_s=5, farewell_s=5, **WAIT)
    assert world.core.due() <= world.now + 20
    world.tick(10)
    assert world.request().wait_s <= 10


def test_signal_breaks_the_wait_off() -> None:
    """An idle agent leaves at once; what its claim may still get is given back by the queue."""
    world = idle_world()
    world.feed(ev.TermSignal())
    assert world.broken_off == [world.request()]
    world.fail(TransportFailed("broken off"))
    assert isinstance(world.air, ev.CloseSession)
    world.deliver()
    assert world.exit == ev.Exit(0, "it was told to")


def test_tasks_that_come_although_it_was_broken_off_go_back() -> None:
    world = idle_world()
    world.queue.add({})
    world.feed(ev.TermSignal())
    world.deliver_all()
    assert world.queue.outcomes(1) == [RELEASED]
    assert world.exit == ev.Exit(0, "it was told to")


def test_wait_that_is_to_be_repeated_is_given_up() -> None:
    """An agent that leaves does not begin to wait anew."""
    world = idle_world()
    world.fail(TransportFailed("down"))
    world.feed(ev.TermSignal())
    assert isinstance(world.air, ev.CloseSession)
    assert world.broken_off == []


def test_lost_session_breaks_the_wait_off() -> None:
    """Nothing comes of a claim in a session that is gone; the next one claims at once."""
    world = idle_world()
    session = world.request().session
    world.queue.expire(session)
    world.feed(ev.HeartbeatFailed(session, SessionLost("expired")))
    assert len(world.broken_off) == 1
    world.fail(TransportFailed("broken off"))
    world.tick(2)
    assert isinstance(world.air, ev.OpenSession)
    world.deliver()
    assert world.request().want == 1


def test_agent_that_leaves_when_nothing_is_left_says_so() -> None:
    """The queue then answers at once when nothing is, instead of waiting for more."""
    for until_empty in (True, False):
        world = World(queue_of(0), until_empty=until_empty, **WAIT)
        world.deliver()
        assert world.request().wait_s > 0
        assert world.request().until_empty is until_empty


def test_waiting_claim_stands_for_a_beat() -> None:
    """An idle agent needs no second connection."""
    world = idle_world()
    assert world.request().wait_s > 0
    assert world.core.heartbeat() is None
    world.fail(TransportFailed("cut"))
    assert world.core.heartbeat() is not None


# A queue that is not heard of


def unheard_world(**settings: Any) -> World:
    """Return an agent that works on what is not to run unheard, its report of another lost."""
    world = World(queue_of(5), **settings)
    world.queue.campaign = replace(world.queue.campaign, on_disconnect=STOP)
    world.deliver()
    world.deliver()
    return world


def test_task_stops_when_the_session_must_have_expired() -> None:
    """And goes back: an attempt that was cut off is no failure."""
    world = unheard_world(slots=2)
    world.tick(119)
    assert world.told_to_stop == []
    world.tick(1)
    assert sorted(world.told_to_stop) == [0, 1]
    world.end(0, Ended(FAILED, error_class="Signal", error="terminated"))
    world.end(1)
    assert [report.outcome for report in world.reported] == [RELEASED, DONE]


def test_task_goes_on_unheard_by_default() -> None:
    world = world_of(5, slots=2)
    world.tick(100_000)
    assert world.told_to_stop == []


def test_answered_beats_keep_tasks_running() -> None:
    world = unheard_world(slots=1)
    for _ in range(10):
        world.tick(100)
        order(world, Orders())
    assert world.told_to_stop == []


def test_answered_exchanges_do_not_keep_tasks_running() -> None:
    """They do not renew the lease: without beats the queue gives the tasks to others."""
    world = unheard_world(slots=1, ahead_s=0)
    world.tick(100)
    world.end(0)
    world.deliver_all()
    world.tick(19)
    assert world.told_to_stop == []
    world.tick(1)
    assert world.told_to_stop == [0]


def test_answered_long_poll_renews_the_lease_from_when_it_was_sent() -> None:
    """Somewhere in the wait the queue took it for a beat; when, the agent cannot tell."""
    world = idle_world(until_empty=False)
    world.queue.campaign = replace(world.queue.campaign, on_disconnect=STOP)
    world.tick(200)
    world.deliver()
    world.tick(5)
    world.tick(20)
    world.queue.add({})
    world.deliver()
    world.tick(99)
    assert world.told_to_stop == []
    world.tick(1)
    assert world.told_to_stop == [0]


def test_unanswered_calls_do_not_keep_tasks_running() -> None:
    world = unheard_world(slots=2)
    world.end(0)
    for _ in range(13):
        if world.air is not None:
            world.fail(TransportFailed("down"))
        world.tick(10)
    assert set(world.told_to_stop) == {1}


def test_what_has_not_begun_goes_back_unheard() -> None:
    world = unheard_world(slots=1)
    world.run_briskly(0.01, 2)
    waiting = len(world.heartbeat().held) - 1
    assert waiting >= 1, "it has claimed ahead"
    world.feed(ev.HeartbeatFailed(world.heartbeat().session, SessionLost("expired")))
    unbegun = [report for report in world.reported if not report.started]
    assert len(unbegun) == waiting


def test_lost_session_stops_what_is_not_to_run_without() -> None:
    """The queue itself says that somebody else may have the task."""
    world = unheard_world(slots=1)
    world.feed(ev.HeartbeatFailed(world.heartbeat().session, SessionLost("expired")))
    assert world.told_to_stop == [0]
