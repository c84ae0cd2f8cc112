"""Many tasks of one start when their agent must end: what had not begun costs them nothing."""

from __future__ import annotations

import pytest

from taskq_agent.core.events import BatchMoved, TermSignal
from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import DONE, FAILED, OUT_OF_TIME, RELEASED, Report, Task
from tests.helpers.core_harness import CoreHarness
from tests.unit.test_agent_gathering import harness_of, in_slot
from tests.unit.test_agent_naming import begin, fences

NO_OUTCOME = Ended(FAILED, error_class="no-outcome", error="it left this out")
KILLED = Ended(FAILED, error_class="signal-SIGTERM", error="it was killed")


def batch(tasks: int = 6, **settings: float) -> tuple[CoreHarness, list[Task]]:
    """Return an agent with so many tasks in its slot."""
    harness = harness_of(tasks, 10, slots=1, **settings)
    harness.tick(5.0)
    harness.deliver_all()
    return harness, in_slot(harness, 0)


def end_all(harness: CoreHarness, tasks: list[Task], ended: Ended, *, over: bool = True) -> None:
    """End tasks of the slot in the same way."""
    campaign = harness.running[0][1]
    if over:
        del harness.running[0]
    ends = tuple((held, ended) for held in fences(tasks))
    harness.feed(BatchMoved(0, campaign, ends, over))


def reports(harness: CoreHarness) -> dict[int, Report]:
    return {report.task: report for report in harness.reported}


@pytest.mark.parametrize("ended", [NO_OUTCOME, KILLED])
def test_job_that_ends_as_a_whole_charges_no_task_that_had_not_begun(ended: Ended) -> None:
    """Its signal may reach the programs first: these end, by it or well."""
    harness, tasks = batch()
    begin(harness, 0, tasks[:1])
    end_all(harness, tasks, ended)
    assert not harness.reported
    harness.feed(TermSignal())
    found = reports(harness)
    assert {report.outcome for report in found.values()} == {RELEASED}
    assert [found[task.task].started for task in tasks] == [True, *[False] * 5]
    assert not any(report.error_class == OUT_OF_TIME for report in found.values())


def test_program_that_leaves_tasks_out_fails_them_if_no_signal_comes() -> None:
    harness, tasks = batch()
    end_all(harness, tasks, NO_OUTCOME)
    harness.tick(1.1)
    assert {report.outcome for report in harness.reported} == {FAILED}


def test_later_ends_in_a_slot_are_not_reported_before_one_that_a_signal_may_explain() -> None:
    harness, tasks = batch()
    end_all(harness, tasks[:2], KILLED, over=False)
    end_all(harness, tasks[2:], Ended(DONE, result={}))
    assert not harness.reported
    harness.tick(1.1)
    assert [report.outcome for report in harness.reported] == [FAILED] * 2 + [DONE] * 4


@pytest.mark.parametrize("marked", [False, True])
def test_agent_whose_time_is_up_charges_no_task_that_had_not_begun(marked: bool) -> None:
    """A program may answer the order to stop by a good end."""
    harness, tasks = batch(max_seconds=100.0)
    if marked:
        begin(harness, 0, tasks[:1])
    harness.tick(99.0)
    assert harness.stopped_slots
    end_all(harness, tasks, NO_OUTCOME)
    harness.tick(1.1)
    found = reports(harness)
    charged = [found[task.task].error_class == OUT_OF_TIME for task in tasks]
    assert charged == [marked, *[False] * 5]
    assert {report.outcome for report in found.values()} == {RELEASED}


def test_outcome_that_comes_while_an_agent_stops_counts() -> None:
    harness, tasks = batch(max_seconds=100.0)
    harness.tick(99.0)
    end_all(harness, tasks, Ended(DONE, result={}))
    assert {report.outcome for report in harness.reported} == {DONE}
