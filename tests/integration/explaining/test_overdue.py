"""`taskq explain` on attempts that take far longer than others."""

from __future__ import annotations

import pytest

from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres
from tests.integration.explaining.support import Make, explained

pytestmark = pytest.mark.both_transports


def begun_earlier(postgres: Postgres, seconds: float) -> None:
    """Let all that is at work have been claimed so much earlier."""
    by = "set claimed_at = claimed_at - make_interval(secs => %s)"
    postgres.execute("update taskq.task " + by, [seconds])
    postgres.execute("update taskq.bundle " + by, [seconds])


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "alone"])
def test_attempts_that_take_far_longer_than_others_are_named(
    packed: bool, make: Make, hire: Hire, postgres: Postgres
) -> None:
    """With task and host, and what ends them; not within a minute, nor with few successes."""
    campaign = make("/c", tasks=30)
    agent, stuck = hire("/c", host="n1"), hire("/c", host="n2")
    tasks = agent.claim(19)
    (slow,) = stuck.claim()
    if not packed:
        stuck.release(slow, started=False)
        (slow,) = stuck.claim()
    for task in tasks:
        agent.done(task)
    begun_earlier(postgres, 50)

    def codes() -> set[str]:
        return {one.code for one in explained(campaign).reasons}

    begun_earlier(postgres, 3_600)
    assert "overdue" not in codes()
    begun_earlier(postgres, -3_600)
    agent.done(agent.claim()[0])
    assert "overdue" not in codes()
    begun_earlier(postgres, 3_600)
    (reason,) = (one for one in explained(campaign).reasons if one.code == "overdue")
    assert (reason.tasks, reason.blocks) == (1, False)
    assert f"1 attempt takes far longer than others: {slow.key} on n2 since 20" in reason.text
    assert list(reason.commands) == [
        f"taskq logs /c {slow.key}",
        f"taskq cancel /c --key={slow.key}",
        "taskq campaign change /c --time-limit 60s",
    ]


def test_attempts_of_campaigns_that_nobody_asked_about_are_not_named(
    make: Make, hire: Hire, postgres: Postgres
) -> None:
    """Nor those of campaigns without enough successes; agents serve them all."""
    campaign = make("/c", tasks=30)
    make("/others", tasks=1)
    agent, stuck = hire("/c", host="n1"), hire("/others", host="n2")
    for task in agent.claim(25):
        agent.done(task)
    agent.claim()
    stuck.claim()
    begun_earlier(postgres, 50)
    postgres.execute(
        "update taskq.bundle set claimed_at = claimed_at - interval '1 hour' where campaign_id ="
        " (select campaign_id from taskq.campaign where path = '/others')"
    )
    postgres.execute(
        "update taskq.task set claimed_at = claimed_at - interval '1 hour' where campaign_id ="
        " (select campaign_id from taskq.campaign where path = '/others')"
    )
    assert "overdue" not in {one.code for one in explained(campaign).reasons}
