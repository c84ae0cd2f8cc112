"""A campaign in which nearly everything fails pauses itself, and says why."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from itertools import islice
from typing import Any

import psycopg
import pytest

from taskq import Campaign, CampaignSpec, Client
from taskq.model.retry_policy import RetryPolicy
from taskq.upkeep.keeper import Keeper
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.meanwhile import meanwhile
from tests.helpers.plans import watched
from tests.helpers.postgres import KEEP, Postgres, assert_counts_are_true, keep, promote, value
from tests.helpers.scripted_agent import ScriptedAgent, report_of
from tests.helpers.waiting import wait_until


@pytest.fixture
def agent(campaign: Campaign, hire: Hire) -> ScriptedAgent:
    """Give an agent of a campaign of 1,000 tasks that are tried once."""
    campaign.change(replace(campaign.spec(), retry=RetryPolicy(max_attempts=1)))
    campaign.seed({"n": n} for n in range(1_000))
    return hire()


def work(
    agent: ScriptedAgent, *, done: int = 0, failed: int = 0, error_class: str = "Boom"
) -> None:
    """Claim so many tasks and report on them in one exchange."""
    tasks = iter(agent.claim(done + failed))
    reports = [report_of(task, "done", result={}) for task in islice(tasks, done)]
    reports += [report_of(task, "failed", error_class=error_class) for task in tasks]
    assert set(agent.exchange(reports)["acks"]) == {"accepted"}


def test_campaign_whose_failures_explode_pauses_itself_and_says_why(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """With the numbers, how long it took, and the class that is most frequent."""
    work(agent, done=3, failed=2, error_class="timeout")
    work(agent, failed=95, error_class="bad-receptor")
    assert keep(postgres) == ["/c"]
    status = campaign.status()
    assert status.state == "paused"
    assert status.paused_why is not None
    assert re.fullmatch(
        r"97 of 100 attempts failed within \d+ s, mostly bad-receptor \(95\)", status.paused_why
    )
    assert agent.claim(1) == []
    assert keep(postgres) == [], "it tells once"
    assert_counts_are_true(postgres)


def test_people_who_look_from_above_see_what_paused_itself(
    agent: ScriptedAgent, postgres: Postgres, dsn: str
) -> None:
    """Though what they look at is open."""
    work(agent, failed=100)
    keep(postgres)
    taskq = CommandLine(dsn)
    for path, where in (("/", " in /c"), ("/c", "")):
        (reason,) = (
            reason for reason in taskq.json("status", path)["reasons"] if reason["code"] == "paused"
        )
        words = f"tasks wait{where}: /c paused itself: 100 of 100 attempts failed"
        assert words in reason["text"]
        assert words in " ".join(taskq.out("status", path).split())


def test_fewer_than_a_hundred_attempts_pause_nothing(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """The first tasks of a trial may all fail."""
    work(agent, failed=99)
    assert keep(postgres) == []
    assert campaign.status().state == "open"
    work(agent, failed=1)
    assert keep(postgres) == ["/c"]


@pytest.mark.parametrize("status", ["failed", "delayed"])
def test_retry_after_a_repair_begins_a_window(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres, status: str
) -> None:
    """Though none has failed for good yet; if first attempts go on to fail, it pauses."""
    work(agent, failed=100)
    campaign.retry(status=status)
    assert keep(postgres) == []
    assert campaign.status().state == "open"
    campaign.cancel(where="attempts > 0")
    work(agent, failed=100)
    assert keep(postgres) == ["/c"]


def test_retry_of_single_tasks_begins_no_window(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """Who retries some, by key or by filter, has not repaired the campaign."""
    work(agent, failed=100)
    campaign.retry(keys=[next(iter(campaign.tasks("failed"))).key])
    campaign.retry(where="payload.n < 5")
    assert keep(postgres) == ["/c"]


@pytest.mark.parametrize(
    ("said", "done", "failed", "pauses"),
    [
        ({}, 10, 90, False),
        ({}, 9, 91, True),
        ({"max_failure_share": None}, 0, 100, False),
        ({"max_failure_share": 0.2}, 70, 30, True),
    ],
)
def test_share_must_be_larger_than_the_campaign_allows(
    said: dict[str, Any],
    done: int,
    failed: int,
    pauses: bool,
    agent: ScriptedAgent,
    campaign: Campaign,
    postgres: Postgres,
) -> None:
    """Nine of ten, unless the campaign says otherwise: any, or only a small one."""
    campaign.change(replace(campaign.spec(), **said))
    work(agent, done=done, failed=failed)
    assert keep(postgres) == (["/c"] if pauses else [])


def test_resumed_campaign_is_judged_by_what_happens_from_then_on(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """The reason is gone with the pause; the failures before it count no more."""
    work(agent, failed=150)
    assert keep(postgres) == ["/c"]
    assert campaign.resume()
    assert campaign.status().paused_why is None
    work(agent, failed=99)
    assert keep(postgres) == []
    work(agent, failed=1)
    assert keep(postgres) == ["/c"]


def test_failed_retries_before_a_pause_hide_no_failures_behind_it(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """First attempts are counted from the resume on, not made up for later ones; folded or not."""
    campaign.change(replace(campaign.spec(), retry=RetryPolicy(max_attempts=50, backoff_s=3_000)))
    work(agent, failed=40)
    for folded in (True, False):
        promote(postgres)
        agent.forget_position()
        again = agent.claim(40)
        assert min(task.attempt for task in again) > 1
        agent.exchange([report_of(task, "failed", error_class="Boom") for task in again])
        if folded:
            postgres.execute("update taskq.delta set since = since - interval '1 min'")
            postgres.execute("select taskq.fold()")
    campaign.pause()
    assert campaign.resume()
    work(agent, failed=99)
    assert keep(postgres) == []
    work(agent, failed=1)
    assert keep(postgres) == ["/c"]


def test_somebody_who_pauses_gives_no_reason(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """Nor is a campaign judged while it is paused, and cancelling clears the reason."""
    campaign.pause()
    assert campaign.status().paused_why is None
    campaign.resume()
    work(agent, failed=50)
    tasks = agent.claim(60)
    campaign.pause()
    agent.exchange([report_of(task, "failed", error_class="Boom") for task in tasks])
    assert keep(postgres) == []
    assert campaign.status().paused_why is None
    campaign.resume()
    work(agent, failed=100)
    assert keep(postgres) == ["/c"]
    campaign.cancel()
    assert (campaign.status().state, campaign.status().paused_why) == ("cancelled", None)


def test_failures_of_five_minutes_count_not_older_ones(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """A campaign that was well is paused for what goes wrong now; old failures are forgotten."""
    work(agent, done=400, failed=60)
    assert keep(postgres) == []
    postgres.execute("update taskq.pulse set since = since - interval '6 min'")
    postgres.execute("update taskq.delta set since = since - interval '1 min'")
    postgres.execute("select taskq.fold()")
    assert keep(postgres) == []
    work(agent, failed=40)
    assert keep(postgres) == [], "a window begins"
    work(agent, failed=59)
    assert keep(postgres) == []
    work(agent, failed=1)
    assert keep(postgres) == ["/c"]
    assert (campaign.status().paused_why or "").startswith("100 of 100 ")


def test_tasks_that_fail_whenever_they_are_tried_do_not_stop_those_that_nobody_has_tried(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """First attempts are judged: of those, most are good. Where they fail, the campaign pauses."""
    retry = RetryPolicy(max_attempts=50, backoff_s=3_000)
    campaign.change(replace(campaign.spec(), retry=retry))
    work(agent, done=380, failed=20)
    assert keep(postgres) == []
    postgres.execute("update taskq.pulse set since = since - interval '6 min'")
    postgres.execute("update taskq.delta set since = since - interval '1 min'")
    postgres.execute("select taskq.fold()")
    work(agent, done=9, failed=1)
    for _ in range(6):
        assert promote(postgres) == 21
        agent.forget_position()
        tasks = agent.claim(21)
        assert min(task.attempt for task in tasks) > 1
        agent.exchange([report_of(task, "failed", error_class="Boom") for task in tasks])
        assert keep(postgres) == []
    assert (campaign.status().state, campaign.status().waiting) == ("open", 590)
    work(agent, failed=200)
    assert keep(postgres) == ["/c"]
    assert_counts_are_true(postgres)


def test_each_campaign_is_judged_for_itself(queue: Client, hire: Hire, postgres: Postgres) -> None:
    """Neither those above nor those below, but a pause holds for what is below, as always."""
    for path in ("/p", "/p/bad", "/p/bad/below", "/p/good"):
        spec = CampaignSpec(path, retry=RetryPolicy(max_attempts=1))
        queue.create_campaign(spec).seed({"n": n} for n in range(200))
    work(hire("/p"), done=90, failed=60)
    work(hire("/p/bad"), failed=100)
    work(hire("/p/bad/below"), done=20, failed=99)
    work(hire("/p/good"), done=100)
    assert keep(postgres) == ["/p/bad"]
    seen = {
        status.path: (status.state, bool(status.paused_why))
        for status in queue.campaign("/p").tree()
    }
    assert seen == {
        "/p": ("open", False),
        "/p/bad": ("paused", True),
        "/p/bad/below": ("paused", False),
        "/p/good": ("open", False),
    }
    assert [bool(child.paused_why) for child in queue.campaign("/p").child_statuses()] == [
        True,
        False,
    ]


def test_campaign_that_somebody_holds_is_paused_by_a_later_round(
    agent: ScriptedAgent, postgres: Postgres, dsn: str
) -> None:
    """Upkeep waits for nobody."""
    work(agent, failed=100)
    with psycopg.connect(dsn) as other:
        other.execute("select from taskq.campaign where path = '/c' for update")
        assert keep(postgres) == []
    assert keep(postgres) == ["/c"]


def test_upkeep_goes_on_when_no_campaign_can_be_judged(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """Whatever is wrong there, delayed tasks are promoted, and moves folded."""
    work(agent, failed=100)
    postgres.execute("alter table taskq.pulse rename to hidden")
    campaign.change(replace(campaign.spec(), retry=RetryPolicy(max_attempts=3)))
    work(agent, failed=1)
    postgres.execute("update taskq.task set due_at = now() where status = 'delayed'")
    row = postgres.execute(KEEP).fetchone()
    assert row is not None
    assert (row["acting"], row["promoted"], row["paused"]) == (True, 1, None)
    assert row["folded"] > 0
    postgres.execute("alter table taskq.hidden rename to pulse")
    assert keep(postgres) == ["/c"]


@pytest.mark.thorough
def test_campaigns_without_failures_leave_no_trace(
    agent: ScriptedAgent, postgres: Postgres
) -> None:
    """Nothing is written for them, and for others once in a window."""
    work(agent, done=200)
    assert keep(postgres) == []
    assert value(postgres, "select count(*) from taskq.pulse") == 0
    work(agent, failed=1)
    assert keep(postgres) == []
    version = "select xmin::text || xmax::text from taskq.pulse"
    before = value(postgres, version)
    work(agent, failed=1)
    assert keep(postgres) == []
    assert value(postgres, version) == before


def test_removed_campaign_leaves_nothing(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """Its window goes with it."""
    work(agent, failed=100)
    assert keep(postgres) == ["/c"]
    campaign.remove()
    assert value(postgres, "select count(*) from taskq.pulse") == 0


def test_reason_is_found_among_many_classes(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """Without a class there is none to name; lost attempts are no failures."""
    for error_class in ("a", "z", "é"):
        work(agent, failed=10, error_class=error_class)
    work(agent, failed=40, error_class="m" * 90)
    reports = [report_of(task, "failed") for task in agent.claim(60)]
    agent.exchange(reports)
    agent.claim(100)
    agent.leave()
    assert keep(postgres) == ["/c"]
    why = campaign.status().paused_why or ""
    assert why.endswith(f", mostly {'m' * 90} (40)")


def test_keeper_names_what_paused_itself(
    agent: ScriptedAgent, queue: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """And the keeper says so."""
    work(agent, failed=100)
    with caplog.at_level(logging.WARNING, "taskq.keeper"), meanwhile(Keeper(queue.database).run):
        wait_until(lambda: "the campaign /c has paused itself" in caplog.text)


def test_campaigns_are_judged_by_key(
    agent: ScriptedAgent, queue: Client, postgres: Postgres
) -> None:
    """No task is read, and no attempt, but those of a campaign that may have to pause."""
    queue.create_campaign("/other").seed({"n": n} for n in range(500))
    work(agent, done=300, failed=20)
    judge = "select taskq.pause_failing(now())"
    postgres.execute("update taskq.campaign set max_failure_share = 0.5")
    postgres.execute(judge)
    with watched(postgres) as seen:
        assert value(postgres, judge) is None
    assert seen.to("task", "spec", "attempt").accesses == []
    postgres.execute("update taskq.campaign set max_failure_share = 0.01")
    with watched(postgres) as seen:
        assert value(postgres, judge) == ["/c"]
    hot = seen.to("task", "spec", "attempt")
    assert hot.access_paths == {
        "attempt by attempt_unsuccessful",
        "attempt by attempt_pkey",
        "task by task_working",
    }
    assert hot.widest is not None
    assert hot.widest.rows <= 320
