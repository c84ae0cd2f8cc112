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
