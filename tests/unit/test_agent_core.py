from __future__ import annotations

from dataclasses import replace

import pytest

from taskq_agent.core import events as ev
from taskq_agent.core.reports import fence
from taskq_agent.errors import AnswerUnreadable, SessionLost, TransportFailed
from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import (
    DONE,
    FAILED,
    RELEASED,
    Ack,
    Answer,
    Held,
    Hello,
    Report,
    Request,
    Task,
    Welcome,
)
from tests.helpers.core_harness import CoreHarness, queue_of, started_harness
from tests.helpers.memory_queue import ANSWER_LOST


def test_one_exchange_reports_and_claims() -> None:
    """A task costs one round trip: its report travels with the claim of the next task."""
    harness = started_harness(5, slots=2, ahead_s=0)
    assert len(harness.running) == 2
    harness.tick(60)
    assert harness.in_flight is None, "with all slots busy there is nothing to say"
    harness.end(0)
    request = harness.request()
    assert [report.task for report in request.reports] == [1]
    assert request.want == 1


def test_reports_that_come_while_a_call_is_in_the_air_go_together() -> None:
    """Batches form by themselves when the queue is slower than the tasks."""
    harness = started_harness(9, slots=3, ahead_s=0)
    for slot in (0, 1, 2):
        harness.end(slot)
    assert [report.task for report in harness.request().reports] == [1]
    harness.deliver()
    assert [report.task for report in harness.request().reports] == [2, 3]


def test_failed_exchange_is_repeated_as_it_is() -> None:
    """A claim whose answer was lost is asked again under its lease; new reports wait."""
    harness = started_harness(5, slots=2, ahead_s=0)
    harness.end(0)
    first = harness.request()
    harness.deliver(ANSWER_LOST)
    harness.end(1)
    assert harness.in_flight is None, "it waits before it asks again"
    harness.tick(30)
    assert harness.request() == first
    harness.deliver()
    assert [task.lease for task, _ in harness.running.values()] == [first.lease]
    assert [report.task for report in harness.request().reports] == [2]
    assert harness.queue.outcomes(1) == [DONE]


def test_claim_whose_answer_cannot_be_read_twice_is_given_up() -> None:
    """Its tasks go back by a heartbeat; the next is claimed by itself, as one was the reason."""
    harness = started_harness(9, slots=2, ahead_s=0)
    harness.end(0)
    harness.end(1)
    harness.deliver()
    given_up = harness.request()
    harness.fail(AnswerUnreadable("too deep"))
    harness.tick(30)
    assert harness.request() == given_up, "the answer may have been damaged on the way"
    harness.fail(AnswerUnreadable("too deep"))
    assert harness.heartbeat().pending == ()
    assert harness.heartbeat().drawn == given_up.lease
    harness.tick(30)
    request = harness.request()
    assert request.lease > given_up.lease
    assert (request.want, request.reports) == (1, given_up.reports)
    harness.deliver()
    assert len(harness.running) == 2, "the other was claimed before"
    assert "its tasks wait again: too deep" in " ".join(harness.logged)


def test_repeats_come_after_growing_times() -> None:
    """An unreachable queue is asked again after 0.5 to 5 seconds: it may be back."""
    harness = started_harness(1, slots=1, uniform=1.0)
    harness.end(0)
    waits = []
    for _ in range(9):
        harness.fail(TransportFailed("down"))
        waits.append(harness.core.due() - harness.now)
        harness.tick(waits[-1])
    assert waits == pytest.approx([1, 2, 4, 5, 5, 5, 5, 5, 5])


def test_outage_and_its_end_are_logged_once_each() -> None:
    """The log shows when the connection was lost and when it came back, and no more."""
    harness = started_harness(1, slots=1)
    harness.end(0)
    harness.logged.clear()
    harness.fail(TransportFailed("no route to host"))
    harness.tick(30)
    harness.deliver()
    assert harness.logged[:1] == ["no answer from the queue, trying again: no route to host"]
    assert "the queue answers again after 30.0 s" in harness.logged


def test_empty_claims_come_after_growing_times_and_a_report_at_once() -> None:
    """An idle agent asks every 5 seconds at the most, and yet reports without delay."""
    harness = started_harness(1, slots=2, uniform=1.0)
    waits = []
    for _ in range(8):
        harness.deliver()
        waits.append(harness.core.due() - harness.now)
        harness.tick(waits[-1])
    assert waits == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5])
    harness.deliver()
    harness.end(0)
    assert [report.task for report in harness.request().reports] == [1]


@pytest.mark.parametrize("verdict", ["accepted", "duplicate", "superseded", "unknown"])
def test_every_verdict_settles_a_report(verdict: str) -> None:
    """Whatever the queue thinks of a report, it has heard it."""
    harness = started_harness(1, slots=1, until_empty=True)
    harness.end(0)
    report = harness.request().reports[0]
    harness.in_flight = None
    harness.feed(Answer((Ack(1, report.task, report.lease, verdict),)))
    assert not harness.spool
    assert harness.core.totals().superseded == (verdict in ("superseded", "unknown"))


def test_one_exchange_carries_a_bounded_load() -> None:
    """A thousand large results do not make a request of hundreds of megabytes."""
    large = {"pose": "x" * 200_000}
    harness = started_harness(100, slots=50, ahead_s=0)
    for slot in range(50):
        harness.end(slot, Ended(DONE, result=large))
    harness.deliver()
    assert 10 < len(harness.request().reports) < 25


def test_inherited_reports_go_first_and_are_not_held() -> None:
    """Reports of an earlier process are sent before all others; this session never held them."""
    old = Report(1, 1, "00000000-0000-7000-8000-000000000000", DONE)
    harness = CoreHarness(queue_of(3), slots=1, inherited=[old])
    harness.deliver()
    assert harness.request().reports == (old,)
    assert harness.heartbeat().held == ()
    harness.deliver()
    assert not harness.spool


def test_task_that_was_leased_ahead_is_taken_under_its_own_lease() -> None:
    """What comes out of the front has another lease than the claim; beats name that."""
    harness = started_harness(0, slots=1)
    harness.tick(10)
    assert harness.request().ahead
    ahead = Task(1, 1, 7, "t7", 1, "another lease", {})
    harness.in_flight = None
    harness.feed(Answer((), (ahead,), (harness.queue.campaign,)))
    assert harness.heartbeat().held == (Held(1, 7, "another lease"),)


def test_attempt_that_is_in_hand_already_is_not_begun_again() -> None:
    """A front that was set back in time hands the same attempt out twice, even to one agent."""
    harness = started_harness(0, slots=2)
    harness.tick(10)
    ahead = Task(1, 1, 7, "t7", 1, "another lease", {})
    for _ in range(2):
        harness.in_flight = None
        harness.feed(Answer((), (ahead,), (harness.queue.campaign,)))
        harness.tick(1)
    assert len(harness.running) == 1
    assert harness.heartbeat().held == (Held(1, 7, "another lease"),)


def _given(harness: CoreHarness, task: int) -> None:
    """Answer with a task and no verdict, as a gateway does while its database is away."""
    ahead = Task(1, 1, task, f"t{task}", 1, f"{task:08x}-0000-7000-8000-000000000000", {})
    harness.in_flight = None
    harness.feed(Answer((), (ahead,), (harness.queue.campaign,)))


def test_report_without_a_verdict_goes_along_with_the_next_claim() -> None:
    """While the database is away, tasks go on coming; no result is lost, none is sent in a loop."""
    harness = started_harness(1, slots=1, ahead_s=0)
    harness.end(0)
    assert [report.task for report in harness.request().reports] == [1]
    _given(harness, 7)
    assert harness.in_flight is None, "not at once again"
    harness.end(0)
    request = harness.request()
    assert ([report.task for report in request.reports], request.want) == ([1, 7], 1)


def test_report_without_a_verdict_is_sent_by_itself_after_a_while() -> None:
    """A long task does not keep the result of the one before it from the queue."""
    harness = started_harness(1, slots=1, ahead_s=0)
    harness.end(0)
    _given(harness, 7)
    harness.tick(30)
    request = harness.request()
    assert ([report.task for report in request.reports], request.want) == ([1], 0)


def test_failed_report_does_not_keep_a_claim_back() -> None:
    """A call that only reports is made anew when it has failed: a claim may be answered sooner."""
    harness = started_harness(1, slots=1, ahead_s=0)
    harness.end(0)
    _given(harness, 7)
    harness.tick(30)
    harness.fail(TransportFailed("the database does not answer now"))
    harness.end(0)
    harness.tick(30)
    request = harness.request()
    assert ([report.task for report in request.reports], request.want) == ([1, 7], 1)


def test_heartbeat_names_the_claim_in_the_air_and_then_its_tasks() -> None:
    """There is no moment at which a claimed task is named by neither lease nor fence."""
    harness = CoreHarness(queue_of(5), slots=2, ahead_s=0)
    harness.deliver()
    lease = harness.request().lease
    assert (harness.heartbeat().pending, harness.heartbeat().held, harness.heartbeat().drawn) == (
        (lease,),
        (),
        lease,
    )
    harness.deliver(ANSWER_LOST)
    assert harness.heartbeat().pending == (lease,), "it may have been granted"
    harness.tick(30)
    harness.deliver()
    assert (harness.heartbeat().pending, set(harness.heartbeat().held)) == ((), harness.held())


def test_ended_attempt_is_held_until_its_report_has_a_verdict() -> None:
    """A finished task is not given to somebody else while its result is under way."""
    harness = started_harness(1, slots=1)
    held = harness.held()
    harness.end(0)
    assert set(harness.heartbeat().held) == held
    harness.deliver()
    assert harness.heartbeat().held == ()


def test_heartbeat_that_a_claim_overtook_gives_nothing_away() -> None:
    """A beat written down before a claim and arriving after it says nothing about its tasks."""
    harness = started_harness(10, slots=2, ahead_s=0)
    late = harness.heartbeat()
    harness.end(0)
    harness.deliver()
    stop = harness.queue.heartbeat(late).stop
    assert harness.queue.given_away == []
    assert [held.task for held in stop] == [1]
    for held in stop:
        harness.feed(ev.StopOrdered(held))
    assert harness.stopped_slots == [], "what has ended and is settled is not in hand any more"


def test_heartbeat_gives_back_tasks_that_the_agent_does_not_know() -> None:
    """Tasks granted under an older lease of the session, which nobody works on, are freed."""
    harness = started_harness(10, slots=2, ahead_s=0)
    older = "00000000-0000-7000-8000-000000000000"
    forgotten = harness.queue.exchange(Request(1, (), 3, older)).tasks
    harness.queue.heartbeat(harness.heartbeat())
    assert harness.queue.given_away == [fence(task) for task in forgotten]


def test_order_to_stop_is_bound_to_the_lease() -> None:
    """An order that is late does not hit the next attempt on the same task."""
    harness = started_harness(1, slots=1)
    held = next(iter(harness.held()))
    harness.feed(ev.StopOrdered(replace(held, lease="an older one")))
    assert harness.stopped_slots == []
    harness.feed(ev.StopOrdered(held))
    assert harness.stopped_slots == [0]
    harness.end(0, Ended(RELEASED))
    assert harness.reported == [], "nobody wants to hear of it"


def test_order_to_stop_drops_a_task_that_waits() -> None:
    """A cancelled task that was claimed ahead does not begin."""
    harness = started_harness(10_000, slots=1)
    harness.run_quickly(0.01, 20)
    waiting = [held for held in harness.heartbeat().held if held not in harness.held()]
    for held in waiting:
        harness.feed(ev.StopOrdered(held))
    assert set(harness.heartbeat().held) == harness.held()


def test_order_to_stop_leaves_a_report_under_way_alone() -> None:
    """The verdict on the report settles it; until then nothing is lost."""
    harness = started_harness(1, slots=1)
    held = next(iter(harness.held()))
    harness.end(0)
    harness.feed(ev.StopOrdered(held))
    assert list(harness.spool) == [held]
    harness.deliver()
    assert harness.queue.outcomes(1) == [DONE]


@pytest.mark.parametrize("found_by", ["exchange", "beat"])
def test_lost_session_is_replaced_and_work_goes_on(found_by: str) -> None:
    """Nobody can tell from here whose outage it was: tasks go on, and reports are still sent."""
    harness = started_harness(5, slots=2, ahead_s=0)
    running = harness.held()
    harness.queue.expire(1)
    if found_by == "beat":
        harness.feed(ev.HeartbeatFailed(1, SessionLost("expired")))
    else:
        harness.end(0)
        harness.deliver()
    assert harness.core.heartbeat() is None
    harness.tick(30)
    harness.deliver()
    assert [hello.key for hello in harness.queue.hellos] == ["key 1", "key 2"]
    assert set(harness.heartbeat().held) == running, "they are named in the new session, too"
    if found_by == "beat":
        harness.end(0)
    assert harness.request().session == 2
    assert len(harness.request().reports) == 1
    assert harness.stopped_slots == []


def test_claim_of_a_lost_session_is_not_repeated() -> None:
    """What a beat has found out does not need to be found out again."""
    harness = started_harness(5, slots=1, ahead_s=0)
    harness.end(0)
    harness.feed(ev.HeartbeatFailed(1, SessionLost("expired")))
    assert harness.in_flight is not None, "it may still be answered"
    harness.fail(TransportFailed("timeout"))
    harness.tick(60)
    assert isinstance(harness.in_flight, Hello)


def test_word_of_an_older_session_is_not_taken_for_this_one() -> None:
    """A late beat of a session that was replaced does not cost the new one."""
    harness = started_harness(5, slots=1)
    harness.feed(ev.HeartbeatFailed(0, SessionLost("expired")))
    assert harness.core.heartbeat() is not None


def test_opening_is_repeated_with_the_same_key() -> None:
    """A session whose welcome was lost is found again; no second one is left behind."""
    harness = CoreHarness(queue_of(1), slots=1)
    harness.deliver(ANSWER_LOST)
    harness.tick(30)
    harness.deliver()
    assert {hello.key for hello in harness.queue.hellos} == {"key 1"}
    assert harness.heartbeat().session == 1


def test_heartbeats_start_with_the_session() -> None:
    """The rhythm is the queue's."""
    harness = CoreHarness(queue_of(1), slots=1)
    actions = harness.core.handle(Welcome(5, 7.0, 28.0), harness.now)
    assert ev.StartHeartbeats(Welcome(5, 7.0, 28.0)) in actions


def test_log_is_quiet_about_short_tasks_and_names_long_ones() -> None:
    """A person sees long runs, failures and sums, each now and then, and never a payload."""
    harness = started_harness(100, slots=1, ahead_s=0)
    harness.logged.clear()
    harness.run_quickly(0.1, 5, Ended(DONE, result={"secret": 1}))
    harness.run_quickly(61.0, 1, Ended(DONE, result={"secret": 1}))
    harness.run_quickly(0.1, 5, Ended(FAILED, error_class="Boom", error="first\nsecond"))
    assert harness.logged == [
        "task t6: done after 61.0 s",
        "6 done, 0 failed, 0 handed back; 0 running, 1 to report",
        "task t7: failed after 0.1 s (Boom: first second)",
    ]


def test_report_carries_the_time_spent_waiting_for_a_slot() -> None:
    """The attempts show where time goes."""
    harness = started_harness(1, slots=1)
    harness.end(0, Ended(DONE, result={"score": -7.5}, phases={"run_s": 2.0}))
    report = harness.reported[-1]
    assert report.phases == {"wait_s": 0.0, "run_s": 2.0}
    assert report.result == {"score": -7.5}
    assert fence(report) == Held(1, 1, report.lease)
