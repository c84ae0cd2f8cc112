"""Which slow attempts are hedged, where only some may be."""

from __future__ import annotations

import pytest

from taskq import CampaignSpec, Client
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import TRUE
from tests.helpers.postgres import Postgres, task_row, value

pytestmark = pytest.mark.usefixtures("true_counts")

UNHEDGEABLE = {
    "last failure": "update taskq.task set failures = 2 where task_id = any (%(tasks)s)",
    "hedged before": """
        with hedged as (
            insert into taskq.attempt (
                   campaign_id, task_id, attempt, lease_id, session_id, claimed_at, ended_at,
                   outcome)
            select campaign_id, task_id, 1, gen_random_uuid(), session_id, claimed_at, claimed_at,
                   'hedged'
              from taskq.task
             where task_id = any (%(tasks)s)
        )
        update taskq.task set attempt = 2 where task_id = any (%(tasks)s)
    """,
}


@pytest.mark.parametrize("why", UNHEDGEABLE)
def test_tasks_that_cannot_be_hedged_use_up_no_second_attempts(
    why: str, queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """Two may have a second attempt; the two that have been at work the longest may not."""
    spec = CampaignSpec("/c", handler=TRUE, late_results="salvage", hedge=0.05)
    queue.create_campaign(spec).seed({"n": n} for n in range(26))
    agent = hire(host="slow")
    hire(host="fast", slots=100)
    for task in agent.claim(22):
        agent.done(task)
    tasks = [task.task for task in agent.claim_singly(4)]
    postgres.execute(UNHEDGEABLE[why].encode(), {"tasks": tasks[:2]})
    postgres.execute("update taskq.task set claimed_at = claimed_at - interval '1 h'")
    assert value(postgres, "select taskq.hedge()") == 2
    found = [task_row(postgres, task)["status"] for task in tasks]
    assert found == ["working", "working", "waiting", "waiting"]
