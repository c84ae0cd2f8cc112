"""What `taskq watch` tells of the end of a campaign."""

from __future__ import annotations

import re

from taskq import CampaignSpec, Client, RetryPolicy
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres


def test_no_end_is_told_before_delayed_tasks_are_due(
    taskq: CommandLine, queue: Client, postgres: Postgres, hire: Hire
) -> None:
    """Nor while the campaign is paused: nothing of what waits would run."""
    campaign = queue.create_campaign(CampaignSpec("/d", retry=RetryPolicy(max_attempts=2)))
    campaign.seed({"n": n} for n in range(6))
    agent = hire("/d")
    first, *others = agent.claim(4)
    for task in others[:2]:
        agent.done(task)
    agent.fail(first)
    postgres.execute("update taskq.attempt set claimed_at = ended_at - interval '1 s'")
    postgres.execute(
        "update taskq.task set due_at = now() + interval '3 h' where status = 'delayed'"
    )

    def look() -> str:
        words = ["watch", "/d", "--interval", "0.1", "--timeout", "0"]
        return taskq(*words).stdout

    due = "the last delayed task is due in (3 h|2 h 59 min)"
    assert re.search(f"ETA ~(3 h|2 h 59 min); {due}", look())
    campaign.pause()
    assert re.search(f"ETA unknown; {due}", look())
