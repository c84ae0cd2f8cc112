"""What heartbeats name of many tasks that begin together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from taskq_agent.batches import MAX_BATCH
from taskq_agent.core.events import BatchMoved, OthersStopOrdered
from taskq_agent.core.gathering import MOST_HELD, Gathering
from taskq_agent.core.held_tasks import HeldTasks
from taskq_agent.handlers.base import Ended
from taskq_agent.held_claims import MAX_BEGUN, MAX_HELD_CLAIMS, HeldClaim, LeftOfClaim
from taskq_agent.protocol import DONE, Answer, Heartbeat, Held, Request, Task
from taskq_agent.wire import check, dumps
from tests.helpers.core_harness import CoreHarness, queue_of
from tests.unit.test_agent_gathering import end_some, harness_of, in_slot


def fences(tasks: Iterable[Task]) -> tuple[Held, ...]:
    return tuple(Held(task.campaign, task.task, task.lease) for task in tasks)


def begin(harness: CoreHarness, slot: int, tasks: Iterable[Task] | None) -> None:
    """Let the program of a slot say that tasks have begun; None: it starts anew."""
    campaign = harness.running[slot][1]
    begun = None if tasks is None else fences(tasks)
    harness.feed(BatchMoved(slot, campaign, (), begun=begun))


def begun(harness: CoreHarness) -> set[int] | None:
    """Return the tasks that have begun; None: the programs do not say."""
    found = [claim.begun for claim in harness.heartbeat().claims]
    return None if None in found else {task for some in found for task in some or ()}


CLAIM = Request(1, want=1_000)


def test_heartbeat_with_eight_slots_of_ten_thousand_is_small() -> None:
    harness = harness_of(3 * MOST_HELD, MAX_BATCH, slots=8)
    harness.tick(5.0)
    harness.deliver_all()
    for slot in harness.running:
        begin(harness, slot, in_slot(harness, slot))
    beat = harness.heartbeat()
    assert beat.held == ()
    assert sum(claim.tasks for claim in beat.claims) == MOST_HELD
    check(beat)
    assert len(dumps(beat)) < 65_536


def test_heartbeat_with_as_many_claims_and_begun_tasks_as_may_be_is_small() -> None:
    """Some with ten digits; the agent claims no more before some claims have ended."""
    each = MAX_BEGUN // MAX_HELD_CLAIMS
    claims = tuple(
        HeldClaim(10**6, f"019a0000-0000-7000-8000-{n:012}", 1_000, (10**9,) * each)
        for n in range(MAX_HELD_CLAIMS)
    )
    beat = Heartbeat(1, claims=claims)
    check(beat)
    assert len(dumps(beat)) < 65_536
    held_tasks, gathering = HeldTasks(8, ()), Gathering()
    campaign = replace(queue_of(0).campaign, handler={"batch": 500})
    gathering.claimed(Answer(tasks=(Task(1, 1, 1, "k", 1, "", {}),), campaigns=(campaign,)), CLAIM)
    held_tasks.claims.update((1, claim.lease) for claim in claims[1:])
    assert gathering.room(held_tasks) == 4_000
    held_tasks.claims.add((1, claims[0].lease))
    assert gathering.room(held_tasks) == 0


def test_heartbeat_names_tasks_that_have_begun_and_have_no_outcome() -> None:
    harness = harness_of(10, 10, slots=1)
    tasks = in_slot(harness, 0)
    assert begun(harness) is None
    begin(harness, 0, tasks[:3])
    assert begun(harness) == {task.task for task in tasks[:3]}
    end_some(harness, 0, tasks[:2])
    assert begun(harness) == {tasks[2].task}
    begin(harness, 0, None)
    assert begun(harness) == set()


def test_tasks_that_wait_for_a_slot_have_not_begun() -> None:
    harness = harness_of(25, 10, slots=1)
    harness.tick(5.0)
    harness.deliver_all()
    claims = {claim.lease: claim for claim in harness.heartbeat().claims}
    for lease, claim in claims.items():
        runs = any(task.lease == lease for task in in_slot(harness, 0))
        assert claim.begun == (None if runs else ())


@pytest.mark.parametrize("more", [0, 1])
def test_begun_tasks_are_named_unless_they_are_too_many(more: int) -> None:
    harness = harness_of(MAX_BEGUN + more, MAX_BEGUN + more, slots=1)
    harness.tick(5.0)
    harness.deliver_all()
    tasks = in_slot(harness, 0)
    begin(harness, 0, tasks)
    assert len(tasks) == MAX_BEGUN + more
    assert (begun(harness) is None) is bool(more)
    assert sum(len(claim.begun or ()) for claim in harness.heartbeat().claims) <= MAX_BEGUN


def test_attempts_that_a_claim_has_no_longer_are_stopped() -> None:
    harness = harness_of(10, 10, slots=1)
    last = in_slot(harness, 0)[-1]
    claim = next(claim for claim in harness.heartbeat().claims if claim.lease == last.lease)
    harness.feed(OthersStopOrdered(LeftOfClaim(last.campaign, last.lease, (last.task,))))
    harness.tick()
    assert harness.stopped_slots == []
    assert (
        next(claim.tasks for claim in harness.heartbeat().claims if claim.lease == last.lease) == 1
    )
    assert claim.tasks > 1
    for lease in {task.lease for task in in_slot(harness, 0)}:
        harness.feed(OthersStopOrdered(LeftOfClaim(last.campaign, lease)))
    harness.tick()
    assert harness.stopped_slots == [0]
    assert harness.heartbeat().claims == ()


def test_order_about_another_claim_has_no_effect() -> None:
    harness = harness_of(10, 10, slots=1)
    before = harness.heartbeat()
    task = in_slot(harness, 0)[0]
    harness.feed(OthersStopOrdered(LeftOfClaim(task.campaign, "f" * 8 + task.lease[8:])))
    harness.feed(OthersStopOrdered(LeftOfClaim(task.campaign + 1, task.lease)))
    assert harness.heartbeat() == before


def test_outcome_that_is_not_delivered_yet_keeps_its_claim() -> None:
    harness = harness_of(3, 10, slots=1)
    end_some(harness, 0, in_slot(harness, 0))
    assert [claim.tasks for claim in harness.heartbeat().claims if claim.tasks] == []
    harness.queue.heartbeat(harness.heartbeat())
    assert harness.queue.given_away == []
    harness.deliver_all()
    assert harness.heartbeat().claims == ()
    assert harness.queue.counts()[DONE] == 3


def test_tasks_of_a_lost_session_are_named_one_by_one_in_turns() -> None:
    """Their claims are not those of the new session, which would have nothing left of them."""
    harness = harness_of(1_200, 2_000, slots=1)
    harness.tick(5.0)
    harness.deliver_all()
    tasks = in_slot(harness, 0)
    harness.queue.expire(1)
    end_some(harness, 0, tasks[:1], Ended(DONE, result={}))
    harness.deliver_all()
    harness.tick(60.0)
    harness.deliver_all()
    seen: set[Held] = set()
    for _ in range(4):
        beat = harness.heartbeat()
        assert beat.session == 2
        assert len(beat.held) <= 501
        seen.update(beat.held)
        assert {claim.lease for claim in beat.claims}.isdisjoint(task.lease for task in tasks)
    assert seen >= {*fences(tasks[1:])}
