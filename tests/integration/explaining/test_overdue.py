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
    begun_earlier(postgres, 10)

    def codes() -> set[str]:
        return {reason.code for reason in explained(campaign).reasons}

    begun_earlier(postgres, 3_600)
    assert "overdue" not in codes()
    begun_earlier(postgres, -3_600)
    agent.done(agent.claim()[0])
    assert "overdue" not in codes()
    begun_earlier(postgres, 3_600)
    (reason,) = (reason for reason in explained(campaign).reasons if reason.code == "overdue")
    assert (reason.tasks, reason.blocks) == (1, False)
    assert f"1 attempt takes far longer than others: {slow.key} on n2 since 20" in reason.text
    assert list(reason.commands) == [
        f"taskq logs /c {slow.key}",
        f"taskq cancel /c --key={slow.key}",
        "taskq campaign change /c --time-limit 60s",
    ]


@pytest.mark.parametrize("everywhere", [False, True])
def test_host_on_which_all_attempts_hang_is_at_fault_and_no_task_is_to_be_cancelled(
    everywhere: bool, make: Make, hire: Hire, postgres: Postgres
) -> None:
    """Chance hardly puts all of them on one of ten hosts; else the tasks may be at fault."""
    campaign = make("/c", tasks=60)
    others = [hire("/c", host=f"n{number}", slots=4) for number in range(9)]
    for task in others[0].claim(25):
        others[0].done(task)
    bad = hire("/c", host="bad", slots=4)
    bad.claim(4)
    if everywhere:
        others[3].claim()
    begun_earlier(postgres, 3_600)
    (reason,) = (it for it in explained(campaign).reasons if it.code == "overdue")
    limit = "taskq campaign change /c --time-limit 60s"
    if everywhere:
        assert len([line for line in reason.commands if "cancel" in line]) == 3
        assert "at fault" not in reason.text
    else:
        assert "All are on host bad, and none elsewhere: the host is at fault" in reason.text
        ban = "taskq host ban --why '4 attempts hang there' --until 1d bad"
        assert list(reason.commands)[1:] == [ban, limit]
    assert reason.commands[-1] == limit


@pytest.mark.parametrize("warning", ["exchange", "transfer", "withheld"])
def test_work_that_waits_in_agents_does_not_count_as_overdue(
    warning: str, make: Make, hire: Hire, postgres: Postgres
) -> None:
    """On any number of hosts. The way to them is named, and no cancel proposed."""
    campaign = make("/c", tasks=40)
    agent = hire("/c", host="n1")
    for task in agent.claim(25):
        agent.done(task)
    cut = [hire("/c", host=f"cut{number}") for number in range(7)]
    held = [it.claim() for it in cut]
    begun_earlier(postgres, 3_600)
    assert "overdue" in {it.code for it in explained(campaign).reasons}
    for it, tasks in zip(cut, held, strict=True):
        it.heartbeat(tasks, warnings=[warning])
    reasons = {it.code: it for it in explained(campaign).reasons}
    assert "overdue" not in reasons
    assert f"warning-{warning}" in reasons
    assert not [line for it in reasons.values() for line in it.commands if "cancel" in line]
    cut[0].heartbeat(held[0])
    (reason,) = (it for it in explained(campaign).reasons if it.code == "overdue")
    assert "on cut0 since" in reason.text


def test_attempts_of_silent_agents_do_not_count_as_overdue(
    make: Make, hire: Hire, postgres: Postgres
) -> None:
    """Where the way to them is cut nobody knows whether they run: their results may wait there."""
    campaign = make("/c", tasks=30)
    agent, cut = hire("/c", host="n1"), hire("/c", host="n2")
    for task in agent.claim(25):
        agent.done(task)
    cut.claim()
    begun_earlier(postgres, 3_600)
    assert "overdue" in {it.code for it in explained(campaign).reasons}
    postgres.execute(
        "update taskq.session set heartbeat_at = heartbeat_at"
        " - make_interval(secs => lease_s * 0.6) where host = 'n2'"
    )
    reasons = explained(campaign).reasons
    assert "overdue" not in {it.code for it in reasons}
    assert not [line for it in reasons for line in it.commands if "cancel" in line]


def test_new_time_limit_drops_no_result_that_waits_in_its_agent(
    make: Make, hire: Hire, postgres: Postgres
) -> None:
    """Other attempts that are too old wait again."""
    campaign = make("/c", tasks=2)
    cut, hung = hire("/c", host="cut"), hire("/c", host="hung")
    (held,), _ = cut.claim(), hung.claim()
    cut.heartbeat([held], warnings=["exchange"])
    begun_earlier(postgres, 3_600)
    campaign.change(replace(campaign.spec(), time_limit_s=60))
    assert value(postgres, "select taskq.enforce_time_limits()") == 1
    assert cut.done(held) == "accepted"
    status = campaign.status()
    assert (status.done, status.waiting, status.working) == (1, 1, 0)


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
    begun_earlier(postgres, 10)
    postgres.execute(
        "update taskq.bundle set claimed_at = claimed_at - interval '1 hour' where campaign_id ="
        " (select campaign_id from taskq.campaign where path = '/others')"
    )
    postgres.execute(
        "update taskq.task set claimed_at = claimed_at - interval '1 hour' where campaign_id ="
        " (select campaign_id from taskq.campaign where path = '/others')"
    )
    assert "overdue" not in {reason.code for reason in explained(campaign).reasons}


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
    (reason,) = (reason for reason in explained(campaign).reasons if reason.code == "delayed")
    assert "a long backoff where a run usually takes" in reason.text
    assert reason.commands[-1] == "taskq campaign change /c --backoff 10s"
    due = [task.due_at for task in campaign.tasks(status="delayed")]

    def back_off(seconds: float) -> list[datetime | None]:
        campaign.change(replace(campaign.spec(), retry=replace(retry, backoff_s=seconds)))
        return [task.due_at for task in campaign.tasks(status="delayed")]

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
