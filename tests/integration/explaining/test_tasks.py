"""`taskq explain` of single tasks and of what has ended, and what the command writes."""

from __future__ import annotations

import pytest

from taskq import Client, RetryPolicy
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, expire, keep, silence
from tests.integration.explaining.support import Make, explained, only

pytestmark = pytest.mark.both_transports(
    near=[
        "test_names_from_outside_are_no_options",
    ]
)


def test_nothing_left_says_how_it_ended(make: Make, hire: Hire) -> None:
    """Without tasks, and with all of them ended."""
    campaign = make(tasks=0)
    assert (explained(campaign).headline, only(campaign).code) == (
        "nothing has been seeded",
        "nothing-seeded",
    )
    campaign.seed([{"n": 0}, {"n": 1}])
    agent = hire("/c")
    task, two = agent.claim(2)
    agent.done(task)
    agent.fail(two, retry=False)
    found = explained(campaign)
    assert found.headline == "finished"
    assert (found.reasons[0].code, found.reasons[0].text) == (
        "finished",
        f"2 tasks have ended: 1 done, 1 failed (Boom: 1), 0 cancelled. Look at {two.key}.",
    )
    assert "taskq retry /c" in found.reasons[0].commands
    assert only(campaign, two.key).text == (
        "The task was given up after 1 failure; the last: Boom: it broke."
    )
    assert explained(campaign, task.key).headline.startswith("done at 20")


def test_explanation_names_missing_upkeep_when_a_task_waits_for_it(
    make: Make, hire: Hire, postgres: Postgres
) -> None:
    """Where something waits for it."""
    campaign = make(tasks=1)
    agent = hire("/c")
    task = agent.claim()[0]
    # The second: noted by a clock that has been set back since.
    for until in ("-infinity", "2999-01-01"):
        postgres.execute("update taskq.keeper set until = %s::timestamptz", [until])
        assert [reason.code for reason in explained(campaign).reasons] == ["no-keeper"]
    keep(postgres)
    assert explained(campaign).reasons == []
    assert explained(campaign).headline == "1 runs, nothing is in the way"
    assert only(campaign, task.key).code == "running"


def test_failed_task_waits_for_another_host(make: Make, hire: Hire, postgres: Postgres) -> None:
    """It is not due to its campaign that it does not run."""
    campaign = make(tasks=1, retry=RetryPolicy(backoff_s=0))
    agent = hire("/c", host="n1")
    agent.fail(agent.claim()[0])
    keep(postgres)
    found = explained(campaign, next(campaign.tasks()).key)
    assert found.headline == "waiting after 1 attempt"
    assert found.reasons[0].code == "elsewhere"
    assert found.reasons[0].figures["hosts"] == ["n1"]


def test_task_that_was_lost_again_names_the_hosts(
    make: Make, hire: Hire, postgres: Postgres
) -> None:
    """And that it may wait for another one, which nobody sees otherwise."""
    campaign = make(tasks=1)
    for host in ("n1", "n2"):
        agent = hire("/c", host=host)
        agent.claim()
        silence(postgres, agent.session)
        expire(postgres)
    found = explained(campaign, next(campaign.tasks()).key)
    assert found.reasons[0].code == "lost-again"
    assert found.reasons[0].figures["hosts"] == ["n2", "n1"]


def test_hedged_task_says_why_it_has_two_attempts(
    make: Make, hire: Hire, postgres: Postgres
) -> None:
    """Before the second one has begun, and while it runs."""
    campaign = make(tasks=1, late_results="salvage", hedge=1)
    (task,) = hire("/c", host="n1").claim()
    query = "select taskq.hedge_task(%s, %s, %s, 'at work for 60 s')"
    postgres.execute(query, [task.campaign, task.task, task.lease])
    for code in ("hedged", "running"):
        keep(postgres)
        found = explained(campaign, task.key)
        assert found.reasons[0].code == code
        (hedged,) = (reason for reason in found.reasons if reason.code == "hedged")
        assert "Attempt 1 is slow on n1: at work for 60 s. It" in hedged.text
        hire("/c", host="n2").claim()


def test_names_from_outside_are_no_options(make: Make, hire: Hire, queue: Client) -> None:
    """Neither a key nor a host that begins with a dash."""
    campaign = make(tasks=0)
    campaign.submit({"n": 1}, "--key=x; true")
    agent = hire("/c", host="--why")
    (task,) = agent.claim()
    queue.fleet.ban("host", "--why", why="x")
    assert explained(campaign, task.key).reasons[0].code == "running"
    agent.fail(task, retry=False)
    logs, retry = explained(campaign, task.key).reasons[0].commands
    assert logs == "taskq logs /c -- '--key=x; true'"
    assert retry == "taskq retry /c '--key=--key=x; true'"
    campaign.submit({"n": 2})
    assert explained(campaign).reasons[0].commands[0] == "taskq host unban -- --why"


def test_task_that_fails_everywhere_is_to_be_repaired_before_it_is_retried(
    make: Make, hire: Hire, postgres: Postgres
) -> None:
    """By the same verdict as that of `failures`."""
    at_once = RetryPolicy(max_attempts=2, backoff_s=0, backoff_max_s=0)
    campaign = make(tasks=40, retry=at_once)
    first, second = hire("/c", host="n1"), hire("/c", host="n2")
    for task in first.claim(12):
        first.fail(task, "signal-SIGSEGV")
    for task in first.claim(28):
        first.done(task)
    keep(postgres)
    failed = second.claim(12)
    for task in failed:
        second.fail(task, "signal-SIGSEGV")
    (reason,) = explained(campaign, failed[0].key).reasons
    assert "signal-SIGSEGV: the tasks' fault: 12 of 12 tasks tried on a second host" in reason.text
    assert reason.text.endswith("it fails again until that is repaired.")
    assert list(reason.commands) == [
        f"taskq logs /c {failed[0].key}",
        """taskq tasks --where 'class = "signal-SIGSEGV"' /c""",
        "taskq retry --error-class signal-SIGSEGV /c",
    ]
    end = only(campaign)
    ended = "40 tasks have ended: 28 done, 12 failed (signal-SIGSEGV: 12), 0 cancelled. signal-"
    assert end.text.startswith(ended)
    assert "taskq retry /c" not in end.commands


@pytest.mark.thorough
def test_command_writes_text_of_80_columns_and_json(make: Make, hire: Hire, dsn: str) -> None:
    """For people each reason with its commands, whole; for programs the same with numbers."""
    campaign = make(requires=("gpu",))
    taskq = CommandLine(dsn)
    hire("/c")
    with taskq.terminal("explain", "/c", columns=80) as terminal:
        assert terminal.end() == 0
    lines = terminal.seen.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "/c  nothing runs, 20 tasks wait"
    assert "   $ taskq agent run --campaign /c --offer gpu" in lines
    explained = taskq.json("explain", "/c")
    assert explained["reasons"][0]["code"] == "tags"
    assert explained["reasons"][0]["figures"] == {"missing": ["gpu"], "agents": 1}
    key = next(campaign.tasks()).key
    assert taskq.json("explain", "/c", key)["key"] == key
    assert taskq.refused("explain", "/c", "nope")[0] == 66
