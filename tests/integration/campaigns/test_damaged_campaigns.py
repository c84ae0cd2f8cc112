"""What is damaged can be cancelled and removed, and keeps nobody else's tasks from going on."""

from __future__ import annotations

from typing import Final

import pytest

from taskq import Client
from tests.fixtures.histories import BREACHES, History, in_task
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import expire, promote, silence, value

pytestmark = pytest.mark.thorough

RECORDED: Final = """
    insert into taskq.attempt (campaign_id, task_id, attempt, lease_id, session_id, claimed_at,
                               ended_at, outcome)
    select campaign_id, task_id, attempt, lease_id, session_id, claimed_at,
           clock_timestamp(), 'released'
      from taskq.state where task_id = %(task)s
"""
UNCOUNTED: Final = """
    delete from taskq.counter c using taskq.task t
     where t.task_id = %(task)s and c.campaign_id = t.campaign_id
"""
#: The task, and what is done to it.
DAMAGES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    **{name: (key, changes) for name, (_, key, changes) in BREACHES.items()},
    "an attempt that is recorded while it is at work": ("working", (RECORDED,)),
    "no time of the claim": ("working", (in_task(claimed_at="null"),)),
    "a spec and attempts without a task": (
        "failed",
        ("delete from taskq.task where task_id = %(task)s",),
    ),
    "no counter": (
        "waiting",
        (UNCOUNTED,),
    ),
    "attempts of nothing": (
        "retried",
        (
            "delete from taskq.task where task_id = %(task)s",
            "delete from taskq.spec where task_id = %(task)s",
        ),
    ),
}


@pytest.mark.parametrize(("key", "changes"), DAMAGES.values(), ids=DAMAGES)
def test_damaged_campaign_can_be_removed(
    queue: Client, history: History, dsn: str, key: str, changes: tuple[str, ...]
) -> None:
    """Nothing of it stays, and the audit of the rest is clean."""
    queue.create_campaign("/d").seed([{"n": 1}])
    history.breach(key, *changes)
    CommandLine(dsn).out("campaign", "rm", "/c", "--yes")
    for table in ("campaign", "spec", "task", "attempt", "counter", "delta"):
        left = f"select count(*) from taskq.{table} where campaign_id = %s"  # noqa: S608  # a word of this file
        assert value(history.postgres, left, history.campaign.campaign_id) == 0, table
    assert list(queue.audit()) == []
    assert queue.campaign("/").status().total == 1


@pytest.mark.parametrize(
    ("changes", "ended"),
    [
        ((RECORDED,), ["released", "released"]),
        ((in_task(lease_id="null"),), ["released"]),
        ((in_task(session_id="null"),), ["released"]),
    ],
    ids=["recorded already", "no lease", "nobody's"],
)
def test_damaged_task_can_be_cancelled(
    queue: Client, history: History, dsn: str, changes: tuple[str, ...], ended: list[str]
) -> None:
    """What is recorded of it stays; work that nobody can have had is no attempt."""
    history.breach("working", *changes)
    CommandLine(dsn).out("cancel", "/c", "--key", "working")
    assert history.campaign.task("working").status == "cancelled"
    assert [one.outcome for one in history.campaign.attempts("working")] == ended
    assert list(queue.audit()) == []


def test_task_without_a_lease_does_not_stop_the_upkeep(
    queue: Client, history: History, hire: Hire
) -> None:
    """Neither its own session's other tasks nor those of others: all are handed out again."""
    history.campaign.seed([{"n": n} for n in range(2)])
    agent = hire()
    tasks = agent.claim(2)
    history.breach(tasks[0].key, in_task(lease_id="null"))
    silence(history.postgres, agent.session)
    expire(history.postgres)
    promote(history.postgres)
    for task in tasks:
        assert history.campaign.task(task.key).status == "waiting"
    assert list(queue.audit()) == []
