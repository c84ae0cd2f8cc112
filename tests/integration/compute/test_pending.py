"""The list of pending tasks is a sorted set, and ended ones are found wherever they are in it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from taskq import Client
from taskq.compute.tracker import Pending, Tracker

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
        assert pending.after(after, 3) == sorted(one for one in model if one > after)[:3]
        assert (after in pending) == (after in model)


def test_a_long_list_is_compacted_and_stays_the_same() -> None:
    """Beyond a thousand, when half of it is gone."""
    pending = Pending()
    pending.add(range(1, 5_001))
    for task in range(1, 4_000):
        assert pending.discard(task)
    assert pending.after(0, 2) == [4_000, 4_001]
    pending.add([7])
    assert pending.after(0, 2) == [7, 4_000]
    assert len(pending) == 1_002


def test_what_ends_is_found_wherever_it_is(queue: Client) -> None:
    """The last of many, cancelled by somebody else, while the others wait."""
    campaign = queue.create_campaign("/many")
    campaign.seed({"n": n} for n in range(3_000))
    ids = {task.key: task.task_id for task in campaign.tasks()}
    tracker = Tracker(queue.database, campaign.campaign_id, "/many")
    tracker.add(sorted(ids.values()))
    assert tracker.look() == []
    last = max(ids, key=ids.__getitem__)
    campaign.cancel([last])
    found = [one for _ in range(10) for one in tracker.look()]
    assert [(one.task, one.status) for one in found] == [(ids[last], "cancelled")]
    assert len(tracker.pending) == 2_999
