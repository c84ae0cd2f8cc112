"""Border values of how many tasks begin together, and batches of an agent that drains."""

from __future__ import annotations

import pytest

from taskq_agent.core.events import BatchMoved, HeartbeatAnswered
from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import DONE, Orders
from tests.helpers.core_harness import CoreHarness
from tests.unit.test_agent_gathering import harness_of, in_slot
from tests.unit.test_agent_naming import fences


def end_some(harness: CoreHarness, count: int, run_s: float = 1.0) -> None:
    """End so many tasks of the slot with success; over: all of them."""
    tasks, campaign = in_slot(harness, 0), harness.running[0][1]
    over = count == len(tasks)
    left = tasks[count:]
    if over:
        del harness.running[0]
        harness.behind.pop(0, None)
    else:
        harness.running[0], harness.behind[0] = (left[0], campaign), left[1:]
    end = Ended(DONE, result={}, phases={"run_s": run_s})
    ends = tuple((held, end) for held in fences(tasks[:count]))
    harness.feed(BatchMoved(0, campaign, ends, over))


@pytest.mark.parametrize(("run_s", "expected"), [(1.0, 100), (2.0, 100), (4.0, 60), (60.0, 3)])
def test_start_has_no_more_tasks_than_end_in_the_time_that_is_left(
    run_s: float, expected: int
) -> None:
    """By the longest run time of a task of the campaign that the agent has seen."""
    harness = harness_of(1_000, 100, slots=1, max_seconds=260)
    harness.tick(3.0)
    harness.deliver_all()
    left_s = harness.settings.max_seconds or 0
    end_some(harness, len(in_slot(harness, 0)), run_s)
    harness.deliver_all()
    harness.tick(3.0)
    harness.deliver_all()
    begun = len(in_slot(harness, 0))
    assert begun * run_s <= left_s
    assert expected * 0.8 <= begun <= expected


def test_draining_agent_ends_the_starts_that_run_and_begins_no_other() -> None:
    harness = harness_of(500, 100, slots=1)
    harness.tick(3.0)
    harness.deliver_all()
    tasks = len(in_slot(harness, 0))
    end_some(harness, 10)
    harness.feed(HeartbeatAnswered(1, Orders(drain=True)))
    harness.deliver_all()
    assert len(in_slot(harness, 0)) == tasks - 10
    assert not harness.stopped_slots
    end_some(harness, tasks - 10)
    harness.deliver_all()
    assert not harness.running
    assert harness.queue.counts()[DONE] == tasks
    assert harness.exit is not None
    assert harness.exit.code == 0


def test_outcomes_are_in_the_spool_until_the_queue_has_them() -> None:
    """While their start goes on."""
    harness = harness_of(50, 50, slots=1)
    harness.tick(3.0)
    harness.deliver_all()
    end_some(harness, 7)
    assert len(harness.spool) == 7
    harness.deliver_all()
    assert harness.spool == {}
    assert harness.running
