"""The core and what only a gateway says: orders, long polls, when to come back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from taskq_agent.core import events as ev
from taskq_agent.errors import SessionLost, TransportFailed
from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import DONE, FAILED, RELEASED, STOP, Answer, Hello, Orders
from tests.helpers.core_harness import CoreHarness, queue_of, started_harness

DRAIN = Orders(drain=True)
WAIT = {"longest_wait_s": 50.0, "slots": 1}


def idle_world(**settings: Any) -> CoreHarness:
    """Return an agent whose first claim has found nothing and whose second is in the air."""
    harness = started_harness(0, **{**WAIT, **settings})
    harness.tick(5)
    return harness


def order(harness: CoreHarness, orders: Orders) -> None:
    """Let an answered beat carry orders."""
    harness.feed(ev.HeartbeatAnswered(harness.heartbeat().session, orders))


def test_agent_that_leaves_does_not_stay_away_for_long() -> None:
    """A killed job has half a minute: a quarter of the farewell, whatever the gateway says."""
    harness = started_harness(1, slots=1, farewell_s=8.0)
    order(harness, DRAIN)
    harness.end(0)
    harness.in_flight = None
    harness.feed(ev.CallFailed(TransportFailed("busy", 100.0)))
    harness.tick(3)
    harness.deliver_all()
    assert harness.exit == ev.Exit(0, "it got the order to drain")
    assert harness.queue.counts()["done"] == 1


# Orders


def test_drained_agent_lets_its_task_end_and_leaves() -> None:
    """However long the task takes; and what has not begun goes back at once."""
    harness = started_harness(300, slots=2)
    harness.run_quickly(0.01, 50)
    assert len(harness.heartbeat().held) > 2, "it has claimed ahead"
    order(harness, DRAIN)
    harness.deliver_all()
    harness.tick(100_000)
    assert harness.stopped_slots == []
    assert len(harness.heartbeat().held) == 2
    for slot in (0, 1):
        harness.end(slot)
    harness.deliver_all()
    assert harness.exit == ev.Exit(0, "it got the order to drain")
    assert {entry.lease for entry in harness.queue.tasks.values()} == {None}


def test_order_to_drain_in_an_answer_counts_too() -> None:
    harness = CoreHarness(queue_of(5), slots=1)
    harness.deliver()
    harness.in_flight = None
    harness.feed(Answer(unfinished=5, orders=DRAIN))
    harness.deliver_all()
    assert harness.exit == ev.Exit(0, "it got the order to drain")


def test_order_of_a_former_session_is_not_obeyed() -> None:
    harness = started_harness(1, slots=1)
    harness.feed(ev.HeartbeatAnswered(harness.heartbeat().session + 1, DRAIN))
    harness.end(0)
    harness.deliver_all()
    assert harness.exit is None


def test_signal_to_a_draining_agent_grants_the_grace() -> None:
    """Only the second signal stops at once what runs; draining was not the first."""
    harness = started_harness(1, slots=1, grace_s=20)
    order(harness, DRAIN)
    harness.feed(ev.TermSignal())
    harness.tick(19)
    assert harness.stopped_slots == []
    harness.tick(1)
    assert harness.stopped_slots == [0]


def test_claims_wait_until_they_are_wanted() -> None:
    """An agent that has to claim later reports meanwhile, and then claims."""
    harness = started_harness(5, slots=1, ahead_s=0)
    order(harness, Orders(claim_after_s=30))
    harness.end(0)
    assert harness.request().want == 0
    harness.deliver()
    harness.tick(29)
    assert harness.in_flight is None
    harness.tick(1)
    assert harness.request().want == 1


def test_absurd_delay_is_cut_short() -> None:
    harness = started_harness(5, slots=1, ahead_s=0)
    order(harness, Orders(claim_after_s=1e12))
    harness.end(0)
    harness.deliver()
    harness.tick(3_600)
    assert harness.request().want == 1


def test_queue_says_when_to_come_back() -> None:
    """Not before, and not all at once; the delays of one's own do not grow by it."""
    harness = started_harness(1, slots=1, uniform=1.0)
    harness.end(0)
    for _ in range(3):
        harness.fail(TransportFailed("busy", 7.0))
        assert harness.core.due() - harness.now == pytest.approx(7.5)
        harness.tick(7.5)
    harness.fail(TransportFailed("down"))
    assert harness.core.due() - harness.now == pytest.approx(1.0)


# Long polls


def test_idle_agent_lets_its_claim_wait() -> None:
    """For a time that differs between agents, so that they do not all come back together."""
    waits = {idle_world(uniform=uniform).request().wait_s for uniform in (0.0, 0.5, 1.0)}
    assert waits == {25.0, 37.5, 50.0}


def test_claim_of_a_busy_agent_does_not_wait() -> None:
    """One call at a time is in the air: reports would wait with it."""
    harness = started_harness(1, slots=2, longest_wait_s=50.0)
    harness.tick(5)
    assert harness.running
    assert (harness.request().want, harness.request().wait_s) == (1, 0.0)


def test_claim_with_a_report_does_not_wait() -> None:
    """If it finds nothing, one that waits follows at once; where none can wait, after a pause."""
    harness = started_harness(1, **WAIT)
    harness.end(0)
    assert harness.request().reports
    assert harness.request().wait_s == 0.0
    harness.deliver()
    assert harness.request().wait_s > 0
    harness.deliver()
    assert harness.in_flight is None
    polling = started_harness(1)
    polling.end(0)
    polling.deliver()
    assert polling.in_flight is None


def test_agent_whose_last_task_has_ended_waits_in_the_queue_at_once() -> None:
    """Also if a claim has found nothing while the task ran; each call that follows needs that."""
    harness = started_harness(1, **{**WAIT, "slots": 2})
    assert harness.request().want
    harness.deliver()
    assert harness.in_flight is None  # it pauses while the task runs
    harness.end(0)
    assert harness.request().reports
    harness.deliver()
    assert harness.request().wait_s > 0


def test_agent_asks_again_at_once_after_a_full_wait() -> None:
    """The gap in which a new task finds nobody waiting stays short."""
    harness = idle_world()
    for _ in range(20):
        harness.now += harness.request().wait_s
        harness.deliver()
        assert harness.core.due() - harness.now <= 0.2
        harness.tick(harness.core.due() - harness.now)


def test_agent_does_not_spin_where_claims_are_not_kept() -> None:
    """An answer that comes at once, empty, is followed by growing pauses as ever."""
    harness = idle_world()
    pauses = []
    for _ in range(8):
        harness.deliver()
        pauses.append(harness.core.due() - harness.now)
        harness.tick(pauses[-1])
    assert pauses[-1] > 2


def test_wait_ends_with_the_life_of_the_agent() -> None:
    harness = started_harness(0, max_seconds=30, stop_s=5, farewell_s=5, **WAIT)
    assert harness.core.due() <= harness.now + 20
    harness.tick(10)
    assert harness.request().wait_s <= 10


def test_signal_breaks_the_wait_off() -> None:
    """An idle agent leaves at once; what its claim may still get is given back by the queue."""
    harness = idle_world()
    harness.feed(ev.TermSignal())
    assert harness.cancelled == [harness.request()]
    harness.fail(TransportFailed("broken off"))
    assert isinstance(harness.in_flight, ev.CloseSession)
    harness.deliver()
    assert harness.exit == ev.Exit(0, "it got a signal to stop")


def test_tasks_that_come_although_it_was_broken_off_go_back() -> None:
    harness = idle_world()
    harness.queue.add({})
    harness.feed(ev.TermSignal())
    harness.deliver_all()
    assert harness.queue.outcomes(1) == [RELEASED]
    assert harness.exit == ev.Exit(0, "it got a signal to stop")


def test_wait_that_is_to_be_repeated_is_given_up() -> None:
    """An agent that leaves does not begin to wait anew."""
    harness = idle_world()
    harness.fail(TransportFailed("down"))
    harness.feed(ev.TermSignal())
    assert isinstance(harness.in_flight, ev.CloseSession)
    assert harness.cancelled == []


def test_lost_session_breaks_the_wait_off() -> None:
    """Nothing comes of a claim in a session that is gone; the next one claims at once."""
    harness = idle_world()
    session = harness.request().session
    harness.queue.expire(session)
    harness.feed(ev.HeartbeatFailed(session, SessionLost("expired")))
    assert len(harness.cancelled) == 1
    harness.fail(TransportFailed("broken off"))
    harness.tick(2)
    assert isinstance(harness.in_flight, Hello)
    harness.deliver()
    assert harness.request().want == 1


def test_agent_that_leaves_when_nothing_is_left_says_so() -> None:
    """The queue then answers at once when nothing is, instead of waiting for more."""
    for until_empty in (True, False):
        harness = CoreHarness(queue_of(0), until_empty=until_empty, **WAIT)
        harness.deliver()
        assert harness.request().wait_s > 0
        assert harness.request().until_empty is until_empty


def test_waiting_claim_stands_for_a_heartbeat() -> None:
    """An idle agent needs no second connection."""
    harness = idle_world()
    assert harness.request().wait_s > 0
    assert harness.core.heartbeat() is None
    assert harness.core.heartbeat(news=True) is not None, "a warning does not wait"
    harness.fail(TransportFailed("cut"))
    assert harness.core.heartbeat() is not None


# A queue that is not heard of


def unheard_world(**settings: Any) -> CoreHarness:
    """Return an agent that works on what is not to run unheard, its report of another lost."""
    harness = CoreHarness(queue_of(5), **settings)
    harness.queue.campaign = replace(harness.queue.campaign, on_disconnect=STOP)
    harness.deliver()
    harness.deliver()
    return harness


def test_task_stops_when_the_session_must_have_expired() -> None:
    """And goes back: an attempt that was cut off is no failure."""
    harness = unheard_world(slots=2)
    harness.tick(119)
    assert harness.stopped_slots == []
    harness.tick(1)
    assert sorted(harness.stopped_slots) == [0, 1]
    harness.end(0, Ended(FAILED, error_class="Signal", error="terminated"))
    harness.end(1)
    assert [report.outcome for report in harness.reported] == [RELEASED, DONE]


def test_task_goes_on_unheard_by_default() -> None:
    harness = started_harness(5, slots=2)
    harness.tick(100_000)
    assert harness.stopped_slots == []


def test_answered_heartbeats_keep_tasks_running() -> None:
    harness = unheard_world(slots=1)
    for _ in range(10):
        harness.tick(100)
        order(harness, Orders())
    assert harness.stopped_slots == []


def test_answered_exchanges_do_not_keep_tasks_running() -> None:
    """They do not renew the lease: without beats the queue gives the tasks to others."""
    harness = unheard_world(slots=1, ahead_s=0)
    harness.tick(100)
    harness.end(0)
    harness.deliver_all()
    harness.tick(19)
    assert harness.stopped_slots == []
    harness.tick(1)
    assert harness.stopped_slots == [0]


def test_answered_long_poll_renews_the_lease_from_when_it_was_sent() -> None:
    """Somewhere in the wait the queue took it for a beat; when, the agent cannot tell."""
    harness = idle_world(until_empty=False)
    harness.queue.campaign = replace(harness.queue.campaign, on_disconnect=STOP)
    harness.tick(200)
    harness.deliver()
    harness.tick(5)
    harness.tick(20)
    harness.queue.add({})
    harness.deliver()
    harness.tick(99)
    assert harness.stopped_slots == []
    harness.tick(1)
    assert harness.stopped_slots == [0]


def test_unanswered_calls_do_not_keep_tasks_running() -> None:
    harness = unheard_world(slots=2)
    harness.end(0)
    for _ in range(13):
        if harness.in_flight is not None:
            harness.fail(TransportFailed("down"))
        harness.tick(10)
    assert set(harness.stopped_slots) == {1}


def test_tasks_that_have_not_begun_go_back_when_the_session_is_lost() -> None:
    harness = unheard_world(slots=1)
    harness.run_quickly(0.01, 2)
    waiting = len(harness.heartbeat().held) - 1
    assert waiting >= 1, "it has claimed ahead"
    harness.feed(ev.HeartbeatFailed(harness.heartbeat().session, SessionLost("expired")))
    unbegun = [report for report in harness.reported if not report.started]
    assert len(unbegun) == waiting


def test_lost_session_stops_what_is_not_to_run_without() -> None:
    """The queue itself says that somebody else may have the task."""
    harness = unheard_world(slots=1)
    harness.feed(ev.HeartbeatFailed(harness.heartbeat().session, SessionLost("expired")))
    assert harness.stopped_slots == [0]
