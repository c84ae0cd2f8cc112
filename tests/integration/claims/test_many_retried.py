"""Thousands of tasks that wait to be tried again cost the claims of all hosts little."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from taskq import Client
from taskq.db.catalogue import statement
from tests.fixtures.queues import Hire
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres, value
from tests.helpers.scripted_agent import ScriptedAgent

RETRIED = 3_000
#: Before what host a may have.
LEFT_TO_OTHERS = 800

Claim = Callable[[ScriptedAgent], "tuple[list[int], float]"]


@pytest.fixture
def hosts(queue: Client, hire: Hire, postgres: Postgres) -> tuple[ScriptedAgent, ScriptedAgent]:
    """Give agents of hosts a and b, and 3,000 tasks before others that b must leave to a.

    Of these host a must leave the first 800 to b instead.
    """
    campaign = queue.create_campaign("/many")
    campaign.seed({"n": n} for n in range(RETRIED + 1_000))
    a, b = hire("/many", host="a"), hire("/many", host="b")
    for _ in range(3):
        reports = [
            {"task": task.task, "lease": task.lease, "outcome": "failed"} for task in a.claim(1_000)
        ]
        a.exchange(reports)
    postgres.execute(
        """
        update taskq.task t
           set status = 'waiting', due_at = now(),
               avoids = array[hashtext(case when t.task_id < f.first + %s then 'a' else 'b' end)]
          from (select min(s.task_id) as first from taskq.spec s) f
        """,
        (LEFT_TO_OTHERS,),
    )
    postgres.execute("vacuum analyze taskq.task")
    return a, b


@pytest.fixture
def claim(postgres: Postgres) -> Claim:
    """Claim a task; return it, and how many rows of the index over retried tasks were met."""

    def claiming(agent: ScriptedAgent) -> tuple[list[int], float]:
        words = {
            "campaign": agent.campaign,
            "reports": None,
            "sessions": [agent.session],
            "leases": [agent.draw_lease()],
            "wants": [1],
        }
        with watched(postgres) as seen:
            (row,) = postgres.execute(statement("exchange"), words).fetchall()
        met = sum(access.rows for access in seen.accesses if access.index == "task_waiting_again")
        first = value(postgres, "select min(task_id) from taskq.spec")
        return [task[1] - first for task in row["tasks"] or ()], met

    return claiming


def test_claim_of_a_host_that_may_have_them_reads_few(
    hosts: tuple[ScriptedAgent, ScriptedAgent], claim: Claim
) -> None:
    """Not each time a thousand, of which it takes the first."""
    _, b = hosts
    for n in range(5):
        tasks, met = claim(b)
        assert tasks == [n]
        assert met <= 100


def test_tasks_behind_many_that_a_host_must_leave_are_looked_for_at_intervals(
    hosts: tuple[ScriptedAgent, ScriptedAgent], claim: Claim, postgres: Postgres
) -> None:
    """A claim finds them when the position is dropped, and does not look again with the next."""
    a, b = hosts
    again = (
        f"select (current_setting('taskq.position_{a.campaign}')::bigint[])[taskq.hint('again')]"
    )
    tasks, met = claim(a)
    assert tasks == [LEFT_TO_OTHERS]
    assert LEFT_TO_OTHERS < met <= LEFT_TO_OTHERS + 200
    assert value(postgres, again) == 0
    postgres.execute(f"set taskq.position_{a.campaign} = ''")
    assert claim(b)[0] == [0]
    assert value(postgres, again) == 1


def test_claim_that_finds_nothing_walks_twice(
    hosts: tuple[ScriptedAgent, ScriptedAgent], claim: Claim, postgres: Postgres
) -> None:
    """Over a thousand at most: to find tasks, and to say whether the agent must leave some."""
    a, _ = hosts
    postgres.execute("update taskq.task set avoids = array[hashtext('a')]")
    assert len(a.claim(1_000)) == 1_000  # the fresh ones
    postgres.execute("vacuum analyze taskq.task")
    postgres.execute(f"set taskq.position_{a.campaign} = ''")
    tasks, met = claim(a)
    assert tasks == []
    assert met <= 2_100
