"""The list of pending tasks is a sorted set, and ended ones are found wherever they are in it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq import Client
from taskq.compute.tracker import (
    BUSY_PAUSE_S,
    FIRST_PAUSE_S,
    Pauses,
    Pending,
    Tracker,
)
from taskq.model.pauses import LAST_PAUSE_S
from tests.fixtures.queues import Hire

IDS = st.integers(1, 40)


@given(st.lists(st.tuples(st.booleans(), st.lists(IDS, max_size=8)), max_size=20), IDS)
def test_pending_tasks_are_a_sorted_set(steps: list[tuple[bool, list[int]]], after: int) -> None:
    """Whatever is added and removed, in whatever order."""
    pending, model = Pending(), set[int]()
    for adds, tasks in steps:
        if adds:
            pending.add(tasks)
            model |= set(tasks)
        else:
            for task in tasks:
                assert pending.discard(task) == (task in model)
                model.discard(task)
        assert len(pending) == len(model)
        assert pending.after(0, 100) == sorted(model)
        assert pending.after(after, 3) == sorted(number for number in model if number > after)[:3]
        assert (after in pending) == (after in model)


def test_long_list_is_compacted_and_stays_the_same() -> None:
    """Beyond a thousand, when half of it is gone."""
    pending = Pending()
    pending.add(range(1, 5_001))
    for task in range(1, 4_000):
        assert pending.discard(task)
    assert pending.after(0, 2) == [4_000, 4_001]
    pending.add([7])
    assert pending.after(0, 2) == [7, 4_000]
    assert len(pending) == 1_002


def test_ended_call_is_found_wherever_it_is_among_many(queue: Client) -> None:
    """The last of many, cancelled by somebody else, while the others wait."""
    campaign = queue.create_campaign("/many")
    campaign.seed({"n": n} for n in range(3_000))
    ids = {task.key: task.task_id for task in campaign.tasks()}
    tracker = Tracker(queue.database, campaign.campaign_id, "/many")
    tracker.add(sorted(ids.values()))
    assert tracker.look() == []
    last = max(ids, key=ids.__getitem__)
    campaign.cancel([last])
    found = [call for _ in range(10) for call in tracker.look()]
    assert [(call.task, call.status) for call in found] == [(ids[last], "cancelled")]
    assert len(tracker.pending) == 2_999


@pytest.fixture
def asked(queue: Client, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give the names of the statements that are run, as they come."""
    names, rows = list[str](), queue.queries.rows

    def noted(name: str, /, **values: object) -> list[dict[str, Any]]:
        names.append(name)
        return rows(name, **values)

    monkeypatch.setattr(queue.queries, "rows", noted)
    return names


def test_result_of_one_of_few_calls_is_found_by_one_statement(
    queue: Client, hire: Hire, asked: list[str]
) -> None:
    """Over a gateway each statement is a request, and the next call waits for all of them."""
    campaign = queue.create_campaign("/c")
    campaign.seed({"n": n} for n in range(2))
    tracker = Tracker(queue.queries, campaign.campaign_id, "/c")
    tracker.add(task.task_id for task in campaign.tasks())
    assert tracker.look() == []
    agent = hire("/c")
    for task in agent.claim(2):
        agent.done(task)
        asked.clear()
        assert [call.status for call in tracker.look()] == ["done"]
        assert asked == ["results_of"]


def test_looks_at_few_calls_that_run_ask_one_thing_each(
    queue: Client, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the counters are old; and a failure is found by the second look."""
    monkeypatch.setattr("taskq.compute.tracker.COUNTED_S", 0.0)
    campaign = queue.create_campaign("/c")
    campaign.seed([{"n": 1}])
    tracker = Tracker(queue.queries, campaign.campaign_id, "/c")
    tracker.add(task.task_id for task in campaign.tasks())
    assert tracker.look() == []
    asked.clear()
    assert [tracker.look() for _ in range(4)] == [[]] * 4
    assert asked == ["results_of", "counts"] * 2
    campaign.cancel()
    assert [call.status for _ in range(2) for call in tracker.look()] == ["cancelled"]


def looks_in(seconds: float, *, found_at: float | None = None) -> list[float]:
    """Return the times of the looks of a wait; found_at: when a call ends."""
    now, looks = 0.0, list[float]()
    pauses = Pauses(lambda: now)
    while now < seconds:
        looks.append(now)
        found = found_at is not None and now >= found_at
        found_at = None if found else found_at
        now += pauses.next_s(found=found)
    return looks


@pytest.mark.parametrize("took_s", [0.002, 0.01, 0.1, 1.0])
def test_end_of_a_call_is_noticed_a_quarter_later_at_most(took_s: float) -> None:
    """Or a millisecond, or half a second."""
    noticed = next(at for at in looks_in(10) if at >= took_s)
    assert noticed - took_s <= 0.25 * took_s + FIRST_PAUSE_S


def test_long_wait_costs_few_looks() -> None:
    """Some thirty until the pauses are the longest, from then on two a second."""
    assert len(looks_in(3)) <= 40
    assert len(looks_in(3_600)) <= 40 + 3_600 / LAST_PAUSE_S


def test_after_an_end_looks_are_frequent_again() -> None:
    """Calls that depend on each other follow each other."""
    looks = looks_in(20, found_at=10)
    after = next(place for place, at in enumerate(looks) if at >= 10)
    assert looks[after + 1] - looks[after] <= BUSY_PAUSE_S
