from __future__ import annotations

from dataclasses import replace

import pytest

from taskq_agent.core import events as ev
from taskq_agent.core.claiming import Claiming
from taskq_agent.core.held_tasks import HeldTasks
from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import DONE, FAILED, OUT_OF_TIME, RELEASED, CampaignTerms, Report, Request
from taskq_agent.settings import AgentSettings
from taskq_agent.throttle import FAILURES
from tests.helpers.core_harness import CoreHarness, queue_of, started_harness


def test_short_tasks_are_claimed_ahead() -> None:
    """At 10 ms a task, two slots hold about a second's work: no slot waits for the network."""
    harness = started_harness(10_000, slots=2, ahead_s=1.0)
    harness.run_quickly(0.01, 50)
    ahead = len(harness.heartbeat().held) - 2
    assert 50 <= ahead <= 200


def test_long_tasks_are_not_hoarded() -> None:
    """What takes longer than half a second is claimed when a slot is free for it."""
    harness = started_harness(10_000, slots=2, ahead_s=1.0)
    harness.run_quickly(0.6, 20)
    assert len(harness.heartbeat().held) == 2


@pytest.mark.parametrize("seconds", [0.001, 0.1])
def test_reports_of_quick_tasks_wait_for_no_claim_that_would_find_nothing(seconds: float) -> None:
    """Where a claim has found fewer tasks than it wanted, the next one comes 10 ms later."""
    harness = started_harness(3, slots=2, ahead_s=1.0)
    harness.now += seconds
    harness.end(0)
    harness.end(1)
    harness.deliver()
    assert (len(harness.running), len(harness.request().reports)) == (1, 1)
    if seconds < 0.01:
        assert harness.request().want == 0
        harness.deliver_all()
        harness.tick(0.01)
    assert harness.request().want > 0


def test_quick_failures_do_not_lead_to_hoarding() -> None:
    """A node where everything fails at once does not pull the campaign towards it."""
    harness = started_harness(10_000, slots=2, ahead_s=1.0)
    harness.run_quickly(0.001, FAILURES - 1, Ended(FAILED, error_class="Boom", error=""))
    assert len(harness.heartbeat().held) == 2


def test_tasks_stuck_behind_long_ones_are_handed_back() -> None:
    """Tasks claimed ahead are given back when the pace turns out to be another."""
    harness = started_harness(10_000, slots=2, ahead_s=1.0)
    harness.run_quickly(0.01, 50)
    harness.tick(5)
    assert len(harness.heartbeat().held) > 2
    harness.tick(6)
    harness.deliver_all()
    assert len(harness.heartbeat().held) == 2
    assert {report.started for report in harness.reported[-10:]} == {False}


def test_max_tasks_is_never_exceeded() -> None:
    """An agent that may make three attempts claims three tasks, not one more."""
    harness = started_harness(100, slots=2, max_tasks=3)
    harness.run_quickly(0.001, 3)
    assert harness.exit == ev.Exit(0, "it has made 3 attempts")
    assert harness.queue.counts() == {DONE: 3, "open": 97}
    assert sum(entry.attempt for entry in harness.queue.tasks.values()) == 3


def test_until_empty_stays_while_others_work() -> None:
    """An empty claim is no reason to leave while a task may yet come back."""
    harness = started_harness(2, slots=1, until_empty=True, ahead_s=0)
    other = harness.queue.open(replace(harness.queue.hellos[0], key="another"))
    taken = harness.queue.exchange(Request(other.session, (), 1, "ffffffff")).tasks[0]
    harness.end(0)
    harness.deliver_all()
    harness.tick(5)
    harness.deliver_all()
    assert harness.exit is None
    harness.queue.exchange(Request(other.session, (Report(1, taken.task, taken.lease, DONE),)))
    harness.tick(5)
    harness.deliver_all()
    assert harness.exit == ev.Exit(0, "nothing is left to do")


def test_remaining_lifetime_goes_with_each_claim() -> None:
    """The queue can choose tasks that end before the batch job does, with time to report."""
    harness = CoreHarness(queue_of(1), slots=1, max_seconds=600, stop_s=10, farewell_s=20)
    harness.tick(100)
    harness.deliver()
    assert harness.request().lifetime_s == pytest.approx(470)


def test_task_that_cannot_end_in_time_is_handed_back() -> None:
    """The agent checks again when the answer was long under way."""
    harness = CoreHarness(queue_of(1, time_limit_s=300.0), slots=1, max_seconds=600)
    harness.deliver()
    harness.now += 400
    harness.deliver()
    assert not harness.running
    assert harness.request().want == 0, "it does not ask for the same task again at once"
    assert (harness.reported[-1].outcome, harness.reported[-1].started) == (RELEASED, False)


def test_agent_leaves_when_no_task_can_end_in_time() -> None:
    """It does not sit out the rest of its batch job."""
    harness = started_harness(5, slots=1, max_seconds=600, time_limit_s=300.0, ahead_s=0)
    harness.now += 290
    harness.end(0)
    harness.deliver_all()
    assert harness.running == {}
    assert harness.exit == ev.Exit(0, "no task can end in the time that is left")


def test_all_is_handed_back_before_the_time_is_up() -> None:
    """At the end of its batch job an agent has nothing in hand, and the queue knows it."""
    harness = started_harness(5, slots=2, max_seconds=600, stop_s=10, farewell_s=20)
    begun = harness.now
    harness.tick(569)
    assert harness.stopped_slots == []
    harness.tick(1)
    assert sorted(harness.stopped_slots) == [0, 1]
    for slot in (0, 1):
        harness.end(slot, Ended(FAILED, error_class="Signal", error="terminated"))
    harness.deliver_all()
    assert harness.exit == ev.Exit(0, "its time is up")
    assert harness.now - begun <= 600
    assert [
        (report.outcome, report.started, report.error_class, report.error)
        for report in harness.reported
    ] == [(RELEASED, True, OUT_OF_TIME, "its agent's time was up after 570 s of it")] * 2
    assert not harness.spool


def test_only_what_the_end_of_time_has_stopped_is_out_of_time() -> None:
    """Not what a signal stops, nor what ends by itself in the last moment."""
    harness = started_harness(5, slots=2, max_seconds=600, stop_s=10, farewell_s=20, grace_s=0)
    harness.feed(ev.TermSignal())
    assert sorted(harness.stopped_slots) == [0, 1]
    harness.tick(580)
    harness.end(0, Ended(RELEASED, error_class="stopped"))
    harness.end(1, Ended(DONE, result={}))
    assert [(report.outcome, report.error_class) for report in harness.reported] == [
        (RELEASED, "stopped"),
        (DONE, None),
    ]


def test_task_with_a_checkpoint_need_not_end_in_time() -> None:
    """A minute of its agent's time is worth a beginning; with less, its campaign is left out."""
    settings = AgentSettings(campaign="/c", max_seconds=220, stop_s=10, farewell_s=10)
    claiming = Claiming(settings, 0.0, lambda: 0.5)
    terms = CampaignTerms(1, 1, "/c", {}, {}, None, checkpoint_bytes=20_000)
    often = replace(terms, campaign=2, checkpoint_every_s=5.0)
    claiming.note_terms([terms, often])
    assert claiming.fits(terms, 140.0)
    assert not claiming.fits(terms, 141.0)
    assert claiming.fits(often, 195.0)
    assert claiming.without(HeldTasks(1, ()), 100.0) == ()
    assert claiming.without(HeldTasks(1, ()), 141.0) == ((1, 1),)
