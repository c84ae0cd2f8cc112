"""How many tasks begin together in a slot, what an agent waits for, and who is found at fault."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq_agent.batches import MAX_BATCH
from taskq_agent.core.events import BatchMoved, StopOrdered
from taskq_agent.core.gathering import MOST_HELD, Gathering
from taskq_agent.handlers.base import Ended
from taskq_agent.handlers.division import Division
from taskq_agent.protocol import (
    DONE,
    MAX_SMALLER_BATCHES,
    CampaignTerms,
    Heartbeat,
    Held,
    SmallerBatch,
    Task,
)
from taskq_agent.wire import check
from tests.helpers.core_harness import CoreHarness, queue_of


def harness_of(tasks: int, batch: int, **settings: int) -> CoreHarness:
    """Return an agent whose campaign has batches of so many tasks."""
    queue = queue_of(tasks)
    queue.campaign = replace(
        queue.campaign, handler={"kind": "command", "argv": ["x"], "batch": batch}
    )
    harness = CoreHarness(queue, **settings)
    harness.deliver_all()
    return harness


def in_slot(harness: CoreHarness, slot: int) -> list[Task]:
    """Return the tasks that began together in a slot."""
    return [harness.running[slot][0], *harness.behind.get(slot, [])]


def end_some(
    harness: CoreHarness,
    slot: int,
    tasks: Sequence[Task],
    ended: Ended | None = None,
    *,
    too_large_as: str | None = None,
) -> None:
    """End tasks of a slot; over: all of them."""
    over = len(tasks) == len(in_slot(harness, slot))
    campaign = harness.running[slot][1]
    if over:
        del harness.running[slot]
        harness.behind.pop(slot, None)
    end = ended or Ended(DONE, result={}, phases={"run_s": 0.5})
    ends = tuple((Held(task.campaign, task.task, task.lease), end) for task in tasks)
    harness.feed(BatchMoved(slot, campaign, ends, over, too_large_as if over else None))


def held(harness: CoreHarness) -> int:
    """Return how many tasks a heartbeat says have not ended."""
    return sum(claim.tasks for claim in harness.heartbeat().claims)


def test_slots_begin_with_full_batches_as_soon_as_they_are_there() -> None:
    harness = harness_of(5_000, 700, slots=2)
    assert [len(in_slot(harness, slot)) for slot in (0, 1)] == [700, 700]


def test_last_tasks_are_shared_among_idle_slots() -> None:
    harness = harness_of(90, 700, slots=3)
    assert [len(in_slot(harness, slot)) for slot in (0, 1, 2)] == [30, 30, 30]


def test_agent_holds_a_bounded_number_of_tasks() -> None:
    harness = harness_of(3 * MOST_HELD, MAX_BATCH, slots=8)
    harness.tick(5.0)
    harness.deliver_all()
    assert held(harness) == MOST_HELD


def test_outcomes_are_reported_as_they_come_in_any_order() -> None:
    harness = harness_of(10, 10, slots=1)
    tasks = in_slot(harness, 0)
    end_some(harness, 0, [tasks[7], tasks[0]])
    harness.deliver_all()
    assert harness.queue.counts()[DONE] == 2
    assert held(harness) == 8
    assert not harness.stopped_slots


def test_start_goes_on_until_none_of_its_tasks_is_wanted() -> None:
    harness = harness_of(3, 10, slots=1)
    tasks = in_slot(harness, 0)
    for number, task in enumerate(tasks, 1):
        assert harness.stopped_slots == []
        harness.feed(StopOrdered(Held(task.campaign, task.task, task.lease)))
        harness.tick()
        assert bool(harness.stopped_slots) is (number == len(tasks))


def test_batches_are_halved_where_tasks_fail_only_together_and_grow_again() -> None:
    harness = harness_of(2_000, 64, slots=1)
    end_some(harness, 0, in_slot(harness, 0), too_large_as="out-of-memory")
    harness.deliver_all()
    for _ in range(10):
        assert len(in_slot(harness, 0)) == 32
        campaign = in_slot(harness, 0)[0].campaign
        assert harness.heartbeat().batches == (SmallerBatch(campaign, 32, "out-of-memory"),)
        end_some(harness, 0, in_slot(harness, 0), too_large_as="")
        harness.deliver_all()
    assert len(in_slot(harness, 0)) == 64
    assert harness.heartbeat().batches == ()


def test_size_that_was_learnt_holds_for_one_revision_of_the_campaign() -> None:
    gathering = Gathering()
    terms = CampaignTerms(1, 1, "/c", {"batch": 64}, {}, None)
    gathering.learn(terms, too_large_as="exit-1")
    changed = replace(terms, revision=2)
    assert (gathering.size(terms), gathering.size(changed)) == (32, 64)
    gathering.learn(changed, too_large_as="")
    assert gathering.smaller() == ()


def test_heartbeat_names_the_campaigns_whose_batches_shrank_last() -> None:
    gathering = Gathering()
    for number in range(MAX_SMALLER_BATCHES + 5):
        terms = CampaignTerms(number, 1, "/c", {"batch": 64}, {}, None)
        gathering.learn(terms, too_large_as="x" * 1_000)
    check(Heartbeat(1, batches=gathering.smaller()))
    assert [step.campaign for step in gathering.smaller()] == [*range(5, MAX_SMALLER_BATCHES + 5)]


def test_tasks_that_went_back_begin_again_with_others() -> None:
    harness = harness_of(8, 8, slots=1)
    tasks = in_slot(harness, 0)
    end_some(harness, 0, tasks, Ended("released", started=False))
    harness.deliver_all()
    assert len(in_slot(harness, 0)) == 8
    assert harness.exit is None


def found(tasks: int, guilty: Collection[int], *, ordered: bool) -> tuple[set[int], int]:
    """Return who is found at fault, and by how many starts."""
    division = Division(range(1, tasks + 1), ordered=ordered)
    division.most_starts = 10 * tasks
    done, alone = set[int](), set[int]()
    while (started := division.next()) is not None:
        left = [task for task in started if task in guilty]
        if not left:
            done.update(started)
            division.passed()
            continue
        if ordered:
            first = started.index(left[0])
            done.update(started[:first])
            left = started[first:]
        else:
            left = started
        value = division.failed(left)
        alone.update([] if value is None else [value])
    assert done == set(range(1, tasks + 1)) - alone
    return alone, division.starts


@given(st.data(), st.integers(1, 60), st.booleans())
def test_all_that_fail_alone_are_found_and_all_others_are_done(
    data: st.DataObject, tasks: int, ordered: bool
) -> None:
    guilty = data.draw(st.sets(st.integers(1, tasks)))
    assert found(tasks, guilty, ordered=ordered)[0] == guilty


@pytest.mark.parametrize("place", [1, 2, 1_000, 1_999, 2_000])
def test_one_of_two_thousand_is_found_by_fourteen_starts(place: int) -> None:
    guilty, starts = found(2_000, {place}, ordered=False)
    assert guilty == {place}
    assert starts <= 14
    assert found(2_000, {place}, ordered=True)[1] <= 3


def test_search_for_many_ends_after_a_bounded_number_of_starts() -> None:
    division = Division(range(1, 2_001))
    while (started := division.next()) is not None:
        division.failed(started)
    assert division.starts == division.most_starts + 1 == 34
    assert len(division.left()) + division.failed_alone == 2_000
