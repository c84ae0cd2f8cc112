"""Calls that spoil their process, as users run them: none of the others fails."""

from __future__ import annotations

from collections import Counter

import pytest

import taskq
from taskq import Client, UsageError
from taskq.model.errors import InvalidCampaign
from tests.payloads import called

WAIT_S = 120.0
#: More than a process may have open files.
MANY = 1_500


def values_of(run: taskq.Run[int]) -> list[int]:
    return list(run.results(WAIT_S, progress=False))


@pytest.mark.parametrize("chunksize", [1, 750])
def test_one_call_that_spoils_its_process_fails_no_other(
    served_queue: Client, name: str, chunksize: int
) -> None:
    """Neither by what it closes nor by what all leave open."""
    run = served_queue.map(called.spoil, range(MANY), name=name, chunksize=chunksize)
    assert values_of(run) == list(range(MANY))
    campaign = served_queue.campaign(name)
    assert campaign.status().failures == 0


@pytest.mark.thorough
def test_process_ends_after_as_many_calls_as_its_caller_says(
    served_queue: Client, name: str
) -> None:
    """Of a run, which may say it again otherwise; and of an executor."""
    run = served_queue.map(called.process_id, range(30), name=name, tasks_per_child=5)
    assert max(Counter(values_of(run)).values()) == 5
    run = served_queue.map(called.process_id, range(60), name=name, tasks_per_child=2)
    assert max(Counter(values_of(run)[30:]).values()) == 2
    with taskq.Executor(served_queue, max_tasks_per_child=3) as executor:
        pids = list(executor.map(called.process_id, range(20), timeout=WAIT_S))
    assert max(Counter(pids).values()) == 3
    for wrong in (0, "many"):
        with pytest.raises((UsageError, InvalidCampaign), match="tasks_per_child"):
            served_queue.map(called.process_id, [1], name=f"{name}/x", tasks_per_child=wrong)  # type: ignore[arg-type]
