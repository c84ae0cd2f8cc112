"""`taskq explain` on attempts and delays that take far longer than usual."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from taskq import RetryPolicy
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, value
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


def test_task_whose_claim_was_never_answered_does_not_count_as_overdue(
    make: Make, hire: Hire, postgres: Postgres
) -> None:
    """A proxy cuts the answers to claims. The way to the host is named, and no cancel proposed."""
    campaign = make("/c", tasks=30)
    agent, cut = hire("/c", host="n1"), hire("/c", host="n2")
    for task in agent.claim(25):
        agent.done(task)
    lost = cut.claim()
    begun_earlier(postgres, 3_600)
    cut.heartbeat(lost, warnings=["exchange"])
    reasons = {one.code: one.text for one in explained(campaign).reasons}
    assert "overdue" not in reasons
    assert "host n2 warns: heartbeats come through and exch" in reasons["warning-exchange"]
    cut.heartbeat(lost, warnings=["transfer"])
    reasons = {one.code: one.text for one in explained(campaign).reasons}
    assert "overdue" in reasons
    assert "host n2 warns: inputs or large results are not tr" in reasons["warning-transfer"]


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


def test_long_backoff_is_named_and_can_be_shortened(
    make: Make, hire: Hire, postgres: Postgres
) -> None:
    """Next to what a run usually takes; the proposed command concerns what waits already."""
    retry = RetryPolicy(backoff_s=2_400, backoff_max_s=7_200)
    campaign = make(tasks=6, retry=retry)
    agent = hire("/c")
    first, second, third, *_ = agent.claim(5)
    agent.done(first)
    agent.fail(second)
    agent.fail(third)
    (reason,) = (one for one in explained(campaign).reasons if one.code == "delayed")
    assert "a long backoff where a run usually takes" in reason.text
    assert reason.commands[-1] == "taskq campaign change /c --backoff 10s"
    due = [one.due_at for one in campaign.tasks(status="delayed")]

    def back_off(seconds: float) -> list[datetime | None]:
        campaign.change(replace(campaign.spec(), retry=replace(retry, backoff_s=seconds)))
        return [one.due_at for one in campaign.tasks(status="delayed")]

    assert back_off(4_000) == due, "it is not shorter"
    soon = value(postgres, "select clock_timestamp() + interval '100 s'")
    assert all(at and at < soon for at in back_off(10))


def test_shorter_backoff_looks_for_no_tasks_where_none_is_delayed(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To find them, it goes through the rows of all tasks."""
    retry = RetryPolicy(backoff_s=60)
    campaign = make(tasks=1, retry=retry)
    monkeypatch.setattr("taskq.campaign.verbs.chunks", None)
    campaign.change(replace(campaign.spec(), retry=replace(retry, backoff_s=1)))
    assert campaign.spec().retry.backoff_s == 1
