"""The life of a task: each way from one status to the next, and what stays behind."""

from __future__ import annotations

import pytest

from taskq import Campaign, CampaignSpec, Client, RetryPolicy, Seed
from tests.fixtures.queues import Hire
from tests.helpers.postgres import (
    Postgres,
    expire,
    promote,
    silence,
    statuses,
    task_row,
    value,
)
from tests.helpers.scripted_agent import Claimed, ScriptedAgent

pytestmark = pytest.mark.usefixtures("true_counts")


def claim_one(agent: ScriptedAgent) -> Claimed:
    (task,) = agent.claim(1)
    return task


def fail_all_attempts(agent: ScriptedAgent, postgres: Postgres, count: int) -> None:
    """Let each of the campaign's tasks fail that many times."""
    for _ in range(count):
        for task in agent.claim(100):
            assert agent.fail(task) == "accepted"
        promote(postgres)


def test_done_task_keeps_its_result(agent: ScriptedAgent, campaign: Campaign) -> None:
    """What was reported with success is what `results` and `attempts` tell."""
    task = claim_one(agent)
    verdict = agent.report(
        task, "done", result={"score": -7.25}, phases={"run_s": 1.5}, exit_code=0, tail="bye\n"
    )
    assert verdict == "accepted"
    (result,) = campaign.results()
    assert (result.key, result.result, result.payload) == ("a", {"score": -7.25}, {"n": 1})
    assert (result.attempt, result.host, result.phases) == (1, "node1", {"run_s": 1.5})
    (attempt,) = campaign.attempts("a")
    assert (attempt.outcome, attempt.exit_code, attempt.tail) == ("done", 0, "bye\n")
    assert attempt.claimed_at <= attempt.ended_at
    assert campaign.task("a").status == "done"


def test_failed_attempt_leaves_the_task_delayed(agent: ScriptedAgent, campaign: Campaign) -> None:
    """A task that may be tried again waits for its backoff, out of agents' reach."""
    task = claim_one(agent)
    assert agent.fail(task, "OutOfMemory") == "accepted"
    assert campaign.task("a").status == "delayed"
    assert [other.key for other in agent.claim(2)] == ["b"]
    (attempt,) = campaign.attempts("a")
    assert (attempt.outcome, attempt.error_class, attempt.error) == (
        "failed",
        "OutOfMemory",
        "it broke",
    )


def test_backoff_doubles_within_its_jitter_up_to_the_longest(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """The n-th delay is backoff * 2^(n-1), at most the longest, give or take a quarter."""
    policy = RetryPolicy(max_attempts=9, backoff_s=10, backoff_max_s=70)
    campaign = queue.create_campaign(CampaignSpec("/c", retry=policy))
    campaign.seed([Seed({}, "a")])
    agent = hire()
    delays = []
    for _ in range(6):
        task = claim_one(agent)
        agent.fail(task)
        row = task_row(postgres, task.task)
        delays.append((row["due_at"] - campaign.attempts("a")[-1].ended_at).total_seconds())
        promote(postgres)
    for delay, middle in zip(delays, [10, 20, 40, 70, 70, 70], strict=True):
        assert 0.75 * middle <= delay <= 1.25 * middle
    ratios = {
        delay / middle for delay, middle in zip(delays, [10, 20, 40, 70, 70, 70], strict=True)
    }
    assert len(ratios) > 1, "delays that are not spread bring all tasks back at once"


def test_many_failures_do_not_overflow_the_backoff(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """At the greatest number of attempts the delay is still the longest one."""
    year_s = 365 * 24 * 3600
    policy = RetryPolicy(max_attempts=1_000, backoff_s=year_s, backoff_max_s=year_s)
    queue.create_campaign(CampaignSpec("/c", retry=policy)).seed([Seed({}, "a")])
    postgres.execute("update taskq.task set failures = 998")
    agent = hire()
    task = claim_one(agent)
    assert agent.fail(task) == "accepted"
    row = task_row(postgres, task.task)
    assert (row["status"], row["failures"]) == ("delayed", 999)


def test_delayed_task_becomes_waiting_only_when_it_is_due(
    agent: ScriptedAgent, postgres: Postgres
) -> None:
    """Promotion takes what is due by the database's clock, and nothing else."""
    first, second = agent.claim(2)
    agent.fail(first)
    agent.fail(second)
    postgres.execute(
        "update taskq.task set due_at = clock_timestamp() where task_id = %s", [second.task]
    )
    assert value(postgres, "select taskq.promote_delayed()") == 1
    assert statuses(postgres) == {"a": "delayed", "b": "waiting"}
    (again,) = agent.claim(2)
    assert (again.key, again.attempt) == ("b", 2)


def test_promotion_is_bounded(queue: Client, hire: Hire, postgres: Postgres) -> None:
    """One call promotes no more than its limit, those that are due longest first."""
    campaign = queue.create_campaign("/c")
    campaign.seed({"n": n} for n in range(5))
    agent = hire()
    for task in agent.claim(5):
        agent.fail(task)
    postgres.execute(
        "update taskq.task set due_at = clock_timestamp() - make_interval(mins => task_id::integer)"
    )
    oldest = value(postgres, "select max(task_id) from taskq.state")
    assert value(postgres, "select taskq.promote_delayed(2)") == 2
    waiting = [view.task_id for view in campaign.tasks("waiting")]
    assert waiting == [oldest - 1, oldest]


def test_task_is_failed_after_max_attempts(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """The default is three failed attempts."""
    fail_all_attempts(agent, postgres, 2)
    assert statuses(postgres) == {"a": "waiting", "b": "waiting"}
    fail_all_attempts(agent, postgres, 1)
    assert statuses(postgres) == {"a": "failed", "b": "failed"}
    assert [attempt.attempt for attempt in campaign.attempts("a")] == [1, 2, 3]
    assert [(failure.key, failure.attempt) for failure in campaign.failures()] == [
        ("a", 3),
        ("b", 3),
    ]
    assert agent.claim(1) == []


def test_failure_for_good_needs_no_further_attempt(
    agent: ScriptedAgent, campaign: Campaign
) -> None:
    """A report that rules further attempts out fails the task at once."""
    assert agent.fail(claim_one(agent), "BadLigand", retry=False) == "accepted"
    view = campaign.task("a")
    assert (view.status, view.failures, view.attempt) == ("failed", 1, 1)


def test_losses_do_not_count_as_failures(
    agent: ScriptedAgent, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Four lost agents leave a task all its three attempts."""
    for _ in range(4):
        doomed = hire()
        doomed.claim(1)
        silence(postgres, doomed.session)
        assert expire(postgres) == 1
    fail_all_attempts(agent, postgres, 2)
    view = campaign.task("a")
    assert (view.status, view.failures, view.losses, view.attempt) == ("waiting", 2, 4, 6)


def test_task_is_failed_after_max_losses(
    agent: ScriptedAgent, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """A task that takes five agents with it is given up, and says why."""
    for _ in range(5):
        assert statuses(postgres) == {"a": "waiting", "b": "waiting"}
        doomed = hire()
        assert [task.key for task in doomed.claim(1)] == ["a"]
        silence(postgres, doomed.session)
        expire(postgres)
    assert [task.key for task in agent.claim(1)] == ["b"]
    assert [(failure.key, failure.error_class) for failure in campaign.failures()] == [
        ("a", "agent-lost")
    ]


@pytest.mark.parametrize("started", [False, True])
def test_attempt_that_is_handed_back_is_recorded_if_it_had_started(
    started: bool, agent: ScriptedAgent, campaign: Campaign, hire: Hire
) -> None:
    """It counts neither as failure nor as loss; one that had not started leaves its number free."""
    assert agent.release(claim_one(agent), started=started) == "accepted"
    view = campaign.task("a")
    assert (view.status, view.failures, view.losses) == ("waiting", 0, 0)
    assert view.attempt == started
    assert [attempt.outcome for attempt in campaign.attempts("a")] == ["released"] * started
    assert [(task.key, task.attempt) for task in hire().claim(2)] == [("a", 1 + started), ("b", 1)]


def test_cancelled_task_is_never_claimed(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """Cancelling by key takes waiting and delayed tasks, and counts what it took."""
    agent.fail(claim_one(agent))
    assert campaign.cancel(["a", "b"]) == 2
    assert statuses(postgres) == {"a": "cancelled", "b": "cancelled"}
    assert promote(postgres) == 0
    assert agent.claim(2) == []
    assert campaign.cancel(["a", "b"]) == 0


def test_final_tasks_cannot_be_cancelled(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """What is done or failed stays so."""
    first, second = agent.claim(2)
    agent.done(first)
    agent.fail(second, retry=False)
    assert campaign.cancel(["a", "b"]) == 0
    assert campaign.cancel() == 0
    assert statuses(postgres) == {"a": "done", "b": "failed"}


def test_cancelling_a_running_task_voids_its_lease(
    agent: ScriptedAgent, campaign: Campaign
) -> None:
    """The agent learns it at its next beat, and its late report changes nothing."""
    task = claim_one(agent)
    assert campaign.cancel(["a"]) == 1
    assert [attempt.outcome for attempt in campaign.attempts("a")] == ["cancelled"]
    assert agent.heartbeat([task]) == {task.task}
    assert agent.done(task) == "superseded"
    assert campaign.task("a").status == "cancelled"
    assert list(campaign.results()) == []


@pytest.mark.parametrize("way", ["failed", "released", "lost", "left", "forgotten"])
def test_task_that_comes_back_to_a_cancelled_campaign_is_cancelled(
    way: str, agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """However an attempt ends while a campaign is being cancelled, no further one follows."""
    task = claim_one(agent)
    # The campaign's status comes first; its tasks are moved after that, chunk by chunk.
    postgres.execute("select taskq.set_status('/c', 'cancelled')")
    if way == "failed":
        agent.fail(task)
    elif way == "released":
        agent.release(task, started=False)
    elif way == "lost":
        silence(postgres, agent.session)
        expire(postgres)
    elif way == "left":
        agent.leave()
    else:
        agent.heartbeat()
    assert campaign.task("a").status == "cancelled"


def test_retried_task_starts_anew(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """It has all its attempts again; they go on being numbered, so that none is overwritten."""
    fail_all_attempts(agent, postgres, 3)
    assert campaign.retry() == 2
    view = campaign.task("a")
    assert (view.status, view.failures, view.losses) == ("waiting", 0, 0)
    assert [task.attempt for task in agent.claim(2)] == [4, 4]
    assert campaign.retry() == 0


def test_retry_can_be_limited_to_an_error_class(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """The class of the last attempt counts, not that of an earlier one."""
    first, second = agent.claim(2)
    agent.fail(first, "Disk", retry=True)
    agent.fail(second, "Disk", retry=False)
    promote(postgres)
    agent.fail(claim_one(agent), "Memory", retry=False)
    assert statuses(postgres) == {"a": "failed", "b": "failed"}
    assert campaign.retry(error_class="Disk") == 1
    assert statuses(postgres) == {"a": "failed", "b": "waiting"}


def test_retry_of_cancelled_tasks_is_asked_for(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """A plain retry leaves them alone."""
    agent.fail(claim_one(agent), retry=False)
    campaign.cancel(["b"])
    assert campaign.retry(status="cancelled") == 1
    assert statuses(postgres) == {"a": "failed", "b": "waiting"}


def test_steering_many_tasks_goes_on_until_all_are_moved(
    campaign: Campaign, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancel, retry and remove work in chunks, so that no transaction grows with the campaign.

    Half of the tasks have a row each, the others are in spans.
    """
    monkeypatch.setattr("taskq.db.access.MOVE_CHUNK", 7)
    campaign.seed(Seed({"n": n}, str(n)) for n in range(50))
    assert campaign.cancel(str(n) for n in range(0, 50, 2)) == 25
    assert campaign.retry(status="cancelled") == 25
    assert campaign.cancel() == 50
    campaign.resume()
    assert campaign.retry(status="cancelled") == 50
    assert value(postgres, "select count(*) from taskq.delta") > 2 * 50 / 7
    assert campaign.status().waiting == 50
    assert campaign.remove() == 50
