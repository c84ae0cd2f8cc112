"""An agent leaves when it has had nothing to do for long, or when nothing can end in time."""

from __future__ import annotations

from taskq_agent.core import events as ev
from taskq_agent.errors import TransportFailed
from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import DONE, FAILED, RELEASED, Orders
from tests.helpers.core_harness import CoreHarness, queue_of, started_harness

BY_SIGTERM = Ended(FAILED, error_class="signal-SIGTERM", error="killed by SIGTERM")


def let_pass(harness: CoreHarness, seconds: float) -> None:
    """Let time pass in small steps, with an answer to each call."""
    end = harness.now + seconds
    while harness.now < end and harness.exit is None:
        harness.tick(0.5)
        harness.deliver_all()


def test_agent_without_a_task_leaves_after_the_timeout() -> None:
    """Not before, and with a reason that operators can read."""
    harness = CoreHarness(queue_of(0), idle_timeout_s=120)
    harness.deliver_all()
    let_pass(harness, 119)
    assert harness.exit is None
    let_pass(harness, 2)
    assert harness.exit == ev.Exit(0, "it has had no task for 120 s")


def test_timeout_counts_from_the_end_of_the_last_task() -> None:
    """A long task is no idleness."""
    harness = started_harness(1, slots=2, idle_timeout_s=60)
    let_pass(harness, 300)
    harness.end(0)
    harness.deliver_all()
    let_pass(harness, 59)
    assert harness.exit is None
    let_pass(harness, 2)
    assert harness.exit is not None


def test_long_poll_ends_when_the_agent_would_leave() -> None:
    """The queue does not hand a task to an agent that is about to leave."""
    harness = CoreHarness(queue_of(0), idle_timeout_s=10, longest_wait_s=30)
    harness.deliver()
    assert harness.request().wait_s <= 10


def test_idle_agent_leaves_during_an_outage_too() -> None:
    """A batch job does not wait out an outage with empty hands."""
    harness = CoreHarness(queue_of(0), idle_timeout_s=60)
    harness.deliver_all()
    for _ in range(200):
        harness.tick(1)
        if harness.in_flight is not None:
            harness.fail(TransportFailed("no route"))
        if harness.exit is not None:
            break
    assert harness.exit is not None
    assert "no task for 60 s" in harness.exit.reason


def test_answer_that_is_under_way_is_awaited() -> None:
    """It may bring a task, which would only be handed back."""
    harness = CoreHarness(queue_of(1), slots=1, idle_timeout_s=60)
    harness.deliver()
    harness.tick(61)
    assert harness.exit is None
    harness.deliver()
    assert len(harness.running) == 1


def test_tasks_that_last_longer_than_what_is_left_are_not_claimed() -> None:
    """Without a time limit of the campaign, the longest of the latest run times counts."""
    harness = started_harness(10, slots=1, max_seconds=1_000, ahead_s=0)
    for _ in range(3):
        harness.tick(290)
        harness.end(0)
        harness.deliver_all()
    assert harness.running == {}
    assert [harness.queue.outcomes(task) for task in (1, 2, 3)] == [[DONE]] * 3
    assert harness.exit == ev.Exit(0, "no task can end in the time that is left")


def test_few_run_times_are_no_reason_to_leave() -> None:
    """The next task may be shorter; what does not end is handed back."""
    harness = started_harness(10, slots=1, max_seconds=1_000, ahead_s=0)
    for _ in range(2):
        harness.tick(450)
        harness.end(0)
        harness.deliver_all()
    assert len(harness.running) == 1


def test_payload_that_the_batch_system_ended_with_the_agent_is_handed_back() -> None:
    """It signals all processes of a job at once; the task has not failed."""
    harness = started_harness(2, slots=2, ahead_s=0)
    harness.end(0, BY_SIGTERM)
    harness.tick(0.3)
    assert harness.reported == []
    harness.feed(ev.TermSignal())
    harness.end(1, BY_SIGTERM)
    assert [report.outcome for report in harness.reported] == [RELEASED, RELEASED]


def test_payload_that_somebody_else_ended_has_failed() -> None:
    """Where the agent is not signalled within a second."""
    harness = started_harness(1, slots=1, ahead_s=0)
    harness.end(0, BY_SIGTERM)
    harness.tick(1.1)
    assert [report.outcome for report in harness.reported] == [FAILED]


def idle_harness() -> CoreHarness:
    """Return a harness whose first claim has found nothing."""
    harness = CoreHarness(queue_of(0), poll_s=5)
    harness.deliver_all()
    assert harness.in_flight is None
    return harness


def test_woken_agent_claims_at_once() -> None:
    """It does not wait for the end of its pause; a wake is one claim."""
    harness = idle_harness()
    harness.feed(ev.Woken())
    harness.deliver()
    assert harness.in_flight is None


def test_agent_that_is_woken_while_it_claims_claims_again() -> None:
    """The claim may have missed the new tasks; ten wakes are one more claim."""
    harness = idle_harness()
    for _ in range(10):
        harness.feed(ev.Woken())
    harness.deliver()
    assert harness.request().want == 1
    harness.deliver()
    assert harness.in_flight is None


def test_wake_does_not_end_a_pause_that_the_queue_ordered() -> None:
    """Such as that of an agent whose host must avoid the waiting tasks."""
    harness = idle_harness()
    harness.feed(ev.HeartbeatAnswered(1, Orders(claim_after_s=30)))
    harness.feed(ev.Woken())
    harness.tick(29)
    assert harness.in_flight is None
    harness.tick(1)
    assert harness.in_flight is not None
