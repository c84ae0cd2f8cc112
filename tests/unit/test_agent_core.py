from __future__ import annotations

from dataclasses import replace

import pytest

from taskq_agent.core import events as ev
from taskq_agent.core.reports import fence
from taskq_agent.errors import SessionLost, TransportFailed
from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import (
    DONE,
    FAILED,
    RELEASED,
    Ack,
    Answer,
    Held,
    Report,
    Request,
    Task,
    Welcome,
)
from tests.helpers.core_harness import World, queue_of, world_of
from tests.helpers.memory_queue import ANSWER_LOST


def test_one_exchange_reports_and_claims() -> None:
    """A task costs one round trip: its report travels with the claim of the next task."""
    world = world_of(5, slots=2, ahead_s=0)
    assert len(world.running) == 2
    world.tick(60)
    assert world.air is None, "with all slots busy there is nothing to say"
    world.end(0)
    request = world.request()
    assert [report.task for report in request.reports] == [1]
    assert request.want == 1


def test_reports_that_come_while_a_call_is_in_the_air_go_together() -> None:
    """Batches form by themselves when the queue is slower than the tasks."""
    world = world_of(9, slots=3, ahead_s=0)
    for slot in (0, 1, 2):
        world.end(slot)
    assert [report.task for report in world.request().reports] == [1]
    world.deliver()
    assert [report.task for report in world.request().reports] == [2, 3]


def test_failed_exchange_is_repeated_as_it_is() -> None:
    """A claim whose answer was lost is asked again under its lease; new reports wait."""
    world = world_of(5, slots=2, ahead_s=0)
    world.end(0)
    first = world.request()
    world.deliver(ANSWER_LOST)
    world.end(1)
    assert world.air is None, "it waits before it asks again"
    world.tick(30)
    assert world.request() == first
    world.deliver()
    assert [task.lease for task, _ in world.running.values()] == [first.lease]
    assert [report.task for report in world.request().reports] == [2]
    assert world.queue.outcomes(1) == [DONE]


def test_repeats_come_after_growing_times() -> None:
    """An unreachable queue is asked again after 0.5 to 30 seconds."""
    world = world_of(1, slots=1, uniform=1.0)
    world.end(0)
    waits = []
    for _ in range(9):
        world.fail(TransportFailed("down"))
        waits.append(world.core.due() - world.now)
        world.tick(waits[-1])
    assert waits == pytest.approx([1, 2, 4, 8, 16, 30, 30, 30, 30])


def test_outage_is_said_once_and_its_end_too() -> None:
    """The log shows when the connection was lost and when it came back, and no more."""
    world = world_of(1, slots=1)
    world.end(0)
    world.said.clear()
    world.fail(TransportFailed("no route to host"))
    world.tick(30)
    world.deliver()
    assert world.said[:1] == ["no answer from the queue, trying on: no route to host"]
    assert "the queue answers again after 30.0 s" in world.said


def test_empty_claims_come_after_growing_times_and_a_report_at_once() -> None:
    """An idle agent asks every 5 seconds at the most, and yet reports without delay."""
    world = world_of(1, slots=2, uniform=1.0)
    waits = []
    for _ in range(8):
        world.deliver()
        waits.append(world.core.due() - world.now)
        world.tick(waits[-1])
    assert waits == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5])
    world.deliver()
    world.end(0)
    assert [report.task for report in world.request().reports] == [1]


@pytest.mark.parametrize("verdict", ["accepted", "duplicate", "superseded", "unknown"])
def test_every_verdict_settles_a_report(verdict: str) -> None:
    """Whatever the queue thinks of a report, it has heard it."""
    world = world_of(1, slots=1, until_empty=True)
    world.end(0)
    report = world.request().reports[0]
    world.air = None
    world.feed(ev.AnswerArrived(Answer((Ack(1, report.task, report.lease, verdict),))))
    assert not world.spool
    assert world.core.totals().superseded == (verdict in ("superseded", "unknown"))


def test_one_exchange_carries_a_bounded_load() -> None:
    """A thousand large results do not make a request of hundreds of megabytes."""
    large = {"pose": "x" * 200_000}
    world = world_of(100, slots=50, ahead_s=0)
    for slot in range(50):
        world.end(slot, Ended(DONE, result=large))
    world.deliver()
    assert 10 < len(world.request().reports) < 25


def test_inherited_reports_go_first_and_are_not_held() -> None:
    """Reports of an earlier process are sent before all others; this session never held them."""
    old = Report(1, 1, "00000000-0000-7000-8000-000000000000", DONE)
    world = World(queue_of(3), slots=1, inherited=[old])
    world.deliver()
    assert world.request().reports == (old,)
    assert world.heartbeat().held == ()
    world.deliver()
    assert not world.spool


def test_task_that_was_leased_ahead_is_taken_under_its_own_lease() -> None:
    """What comes out of the front has another lease than the claim; beats name that."""
    world = world_of(0, slots=1)
    world.tick(10)
    assert world.request().ahead
    ahead = Task(1, 1, 7, "t7", 1, "another lease", {})
    world.air = None
    world.feed(ev.AnswerArrived(Answer((), (ahead,), (world.queue.campaign,))))
    assert world.heartbeat().held == (Held(1, 7, "another lease"),)


def test_attempt_that_is_in_hand_already_is_not_begun_again() -> None:
    """A front that was set back in time hands the same attempt out twice, even to one agent."""
    world = world_of(0, slots=2)
    world.tick(10)
    ahead = Task(1, 1, 7, "t7", 1, "another lease", {})
    for _ in range(2):
        world.air = None
        world.feed(ev.AnswerArrived(Answer((), (ahead,), (world.queue.campaign,))))
        world.tick(1)
    assert len(world.running) == 1
    assert world.heartbeat().held == (Held(1, 7, "another lease"),)


def _given(world: World, task: int) -> None:
    """Answer with a task and no verdict, as a gateway does while its database is away."""
    ahead = Task(1, 1, task, f"t{task}", 1, f"lease {task}", {})
    world.air = None
    world.feed(ev.AnswerArrived(Answer((), (ahead,), (world.queue.campaign,))))


def test_report_without_a_verdict_goes_along_with_the_next_claim() -> None:
    """While the database is away, tasks go on coming; no result is lost, none is sent in a loop."""
    world = world_of(1, slots=1, ahead_s=0)
    world.end(0)
    assert [report.task for report in world.request().reports] == [1]
    _given(world, 7)
    assert world.air is None, "not at once again"
    world.end(0)
    request = world.request()
    assert ([report.task for report in request.reports], request.want) == ([1, 7], 1)


def test_report_without_a_verdict_is_sent_by_itself_after_a_while() -> None:
    """A long task does not keep the result of the one before it from the queue."""
    world = world_of(1, slots=1, ahead_s=0)
    world.end(0)
    _given(world, 7)
    world.tick(30)
    request = world.request()
    assert ([report.task for report in request.reports], request.want) == ([1], 0)


def test_failed_report_does_not_keep_a_claim_back() -> None:
    """A call that only reports is made anew when it has failed: a claim may be answered sooner."""
    world = world_of(1, slots=1, ahead_s=0)
    world.end(0)
    _given(world, 7)
    world.tick(30)
    world.fail(TransportFailed("the database does not answer now"))
    world.end(0)
    world.tick(30)
    request = world.request()
    assert ([report.task for report in request.reports], request.want) == ([1, 7], 1)


def test_beat_names_the_claim_in_the_air_and_then_its_tasks() -> None:
    """There is no moment at which a claimed task is named by neither lease nor fence."""
    world = World(queue_of(5), slots=2, ahead_s=0)
    world.deliver()
    lease = world.request().lease
    assert (world.heartbeat().pending, world.heartbeat().held, world.heartbeat().drawn) == (
        (lease,),
        (),
        lease,
    )
    world.deliver(ANSWER_LOST)
    assert world.heartbeat().pending == (lease,), "it may have been granted"
    world.tick(30)
    world.deliver()
    assert (world.heartbeat().pending, set(world.heartbeat().held)) == ((), world.held())


def test_ended_attempt_is_held_until_its_report_has_a_verdict() -> None:
    """A finished task is not given to somebody else while its result is under way."""
    world = world_of(1, slots=1)
    held = world.held()
    world.end(0)
    assert set(world.heartbeat().held) == held
    world.deliver()
    assert world.heartbeat().held == ()


def test_beat_that_a_claim_overtook_gives_nothing_away() -> None:
    """A beat written down before a claim and arriving after it says nothing about its tasks."""
    world = world_of(10, slots=2, ahead_s=0)
    late = world.heartbeat()
    world.end(0)
    world.deliver()
    stop = world.queue.heartbeat(late).stop
    assert world.queue.given_away == []
    assert [held.task for held in stop] == [1]
    for held in stop:
        world.feed(ev.StopOrdered(held))
    assert world.told_to_stop == [], "what has ended and is settled is not in hand any more"


def test_beat_gives_back_what_the_agent_does_not_know_of() -> None:
    """Tasks granted under an older lease of the session, which nobody works on, are freed."""
    world = world_of(10, slots=2, ahead_s=0)
    older = "00000000-0000-7000-8000-000000000000"
    forgotten = world.queue.exchange(Request(1, (), 3, older)).tasks
    world.queue.heartbeat(world.heartbeat())
    assert world.queue.given_away == [fence(task) for task in forgotten]


def test_order_to_stop_is_bound_to_the_lease() -> None:
    """An order that is late does not hit the next attempt on the same task."""
    world = world_of(1, slots=1)
    held = next(iter(world.held()))
    world.feed(ev.StopOrdered(replace(held, lease="an older one")))
    assert world.told_to_stop == []
    world.feed(ev.StopOrdered(held))
    assert world.told_to_stop == [0]
    world.end(0, Ended(RELEASED))
    assert world.reported == [], "nobody wants to hear of it"


def test_order_to_stop_drops_a_task_that_waits() -> None:
    """A cancelled task that was claimed ahead does not begin."""
    world = world_of(10_000, slots=1)
    world.run_briskly(0.01, 20)
    waiting = [held for held in world.heartbeat().held if held not in world.held()]
    for held in waiting:
        world.feed(ev.StopOrdered(held))
    assert set(world.heartbeat().held) == world.held()


def test_order_to_stop_leaves_a_report_under_way_alone() -> None:
    """The verdict on the report settles it; until then nothing is lost."""
    world = world_of(1, slots=1)
    held = next(iter(world.held()))
    world.end(0)
    world.feed(ev.StopOrdered(held))
    assert list(world.spool) == [held]
    world.deliver()
    assert world.queue.outcomes(1) == [DONE]


@pytest.mark.parametrize("found_by", ["exchange", "beat"])
def test_lost_session_is_replaced_and_work_goes_on(found_by: str) -> None:
    """Nobody can tell from here whose outage it was: tasks go on, and reports are still sent."""
    world = world_of(5, slots=2, ahead_s=0)
    running = world.held()
    world.queue.expire(1)
    if found_by == "beat":
        world.feed(ev.HeartbeatFailed(1, SessionLost("expired")))
    else:
        world.end(0)
        world.deliver()
    assert world.core.heartbeat() is None
    world.tick(30)
    world.deliver()
    assert [hello.key for hello in world.queue.hellos] == ["key 1", "key 2"]
    assert set(world.heartbeat().held) == running, "they are named in the new session, too"
    if found_by == "beat":
        world.end(0)
    assert world.request().session == 2
    assert len(world.request().reports) == 1
    assert world.told_to_stop == []


def test_claim_of_a_lost_session_is_not_repeated() -> None:
    """What a beat has found out does not need to be found out again."""
    world = world_of(5, slots=1, ahead_s=0)
    world.end(0)
    world.feed(ev.HeartbeatFailed(1, SessionLost("expired")))
    assert world.air is not None, "it may still be answered"
    world.fail(TransportFailed("timeout"))
    world.tick(60)
    assert isinstance(world.air, ev.OpenSession)


def test_word_of_an_older_session_is_not_taken_for_this_one() -> None:
    """A late beat of a session that was replaced does not cost the new one."""
    world = world_of(5, slots=1)
    world.feed(ev.HeartbeatFailed(0, SessionLost("expired")))
    assert world.core.heartbeat() is not None


def test_opening_is_repeated_with_the_same_key() -> None:
    """A session whose welcome was lost is found again; no second one is left behind."""
    world = World(queue_of(1), slots=1)
    world.deliver(ANSWER_LOST)
    world.tick(30)
    world.deliver()
    assert {hello.key for hello in world.queue.hellos} == {"key 1"}
    assert world.heartbeat().session == 1


def test_beats_start_with_the_session() -> None:
    """The rhythm is the queue's."""
    world = World(queue_of(1), slots=1)
    actions = world.core.handle(ev.Opened(Welcome(5, 7.0, 28.0)), world.now)
    assert ev.StartHeartbeats(Welcome(5, 7.0, 28.0)) in actions


def test_log_is_quiet_about_short_tasks_and_names_long_ones() -> None:
    """A person sees long runs, failures and sums, each now and then, and never a payload."""
    world = world_of(100, slots=1, ahead_s=0)
    world.said.clear()
    world.run_briskly(0.1, 5, Ended(DONE, result={"secret": 1}))
    world.run_briskly(61.0, 1, Ended(DONE, result={"secret": 1}))
    world.run_briskly(0.1, 5, Ended(FAILED, error_class="Boom", error="first\nsecond"))
    assert world.said == [
        "task t6: done after 61.0 s",
        "6 done, 0 failed, 0 handed back; 0 running, 1 to report",
        "task t7: failed after 0.1 s (Boom: first second)",
    ]


def test_report_carries_the_time_spent_waiting_for_a_slot() -> None:
    """Where time goes can be told from the attempts."""
    world = world_of(1, slots=1)
    world.end(0, Ended(DONE, result={"score": -7.5}, phases={"run_s": 2.0}))
    report = world.reported[-1]
    assert report.phases == {"wait_s": 0.0, "run_s": 2.0}
    assert report.result == {"score": -7.5}
    assert fence(report) == Held(1, 1, report.lease)
