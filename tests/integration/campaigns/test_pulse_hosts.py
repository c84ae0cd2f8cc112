"""One bad host does not pause a campaign; three do, or all there are."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from taskq import Campaign, Client, Handler, RetryPolicy
from tests.fixtures.queues import Hire
from tests.helpers.agent_processes import agent_process
from tests.helpers.postgres import Postgres, keep, value
from tests.helpers.scripted_agent import ScriptedAgent, report_of
from tests.helpers.waiting import wait_until

#: Also where an agent is the keeper.
JUDGE = "select taskq.pause_failing(now() - interval '1 min')"
ONCE = RetryPolicy(max_attempts=1)


@pytest.fixture(autouse=True)
def tasks(campaign: Campaign) -> None:
    """Let there be 1,000 tasks that are tried once."""
    campaign.change(replace(campaign.spec(), retry=ONCE))
    campaign.seed({"n": n} for n in range(1_000))


def fail(agent: ScriptedAgent, number: int, *, ran_s: float = 1.0, done: int = 0) -> None:
    """Report so many failures that took so long, and successes."""
    found = agent.claim(number + done)
    reports = [
        report_of(task, "failed", error_class="Boom", phases={"run_s": ran_s})
        for task in found[:number]
    ]
    reports += [report_of(task, "done", result={}) for task in found[number:]]
    agent.exchange(reports)


def age(postgres: Postgres, seconds: float) -> None:
    """Let all that is at work have begun so much earlier."""
    since = "set claimed_at = claimed_at - make_interval(secs => %s)"
    postgres.execute(f"update taskq.bundle {since}", [seconds])
    postgres.execute(f"update taskq.task {since} where status = 'working'", [seconds])


def test_bad_host_next_to_hosts_whose_tasks_take_minutes_pauses_nothing(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """None of theirs has ended: all that has ended has failed, and all that on one host."""
    for host in ("good1", "good2", "good3"):
        hire(host=host, slots=4).claim(4)
    fail(hire(host="bad"), 100)
    assert keep(postgres) == []
    age(postgres, 60)
    fail(hire(host="bad"), 100)
    assert keep(postgres) == []
    assert campaign.status().state == "open"


@pytest.mark.parametrize(("hosts", "pauses"), [(2, False), (3, True)])
def test_campaign_pauses_when_three_hosts_fail(
    hosts: int, pauses: bool, hire: Hire, postgres: Postgres
) -> None:
    """Others have just begun, so nothing speaks for the campaign."""
    for number in range(5):
        hire(host=f"other{number}").claim(1)
    for number in range(hosts):
        fail(hire(host=f"bad{number}"), 50)
    assert keep(postgres) == (["/c"] if pauses else [])


@pytest.mark.parametrize("hosts", [1, 2])
def test_campaign_pauses_when_all_few_hosts_fail(
    hosts: int, hire: Hire, postgres: Postgres
) -> None:
    for number in range(hosts):
        fail(hire(host=f"bad{number}"), 100)
    assert keep(postgres) == ["/c"]


def test_hosts_that_are_repaired_pause_no_campaign(
    queue: Client, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Even if there are no others. What fails elsewhere does, also in a window of the campaign."""
    queue.maintenance.start(path="/c", until=timedelta(hours=1), why="new scratch")
    queue.maintenance.start(hosts=["bad0"], sites=["away"], until=timedelta(hours=1), why="disks")
    for number in range(2):
        fail(hire(host=f"bad{number}", site="away" if number else "here"), 100)
    assert keep(postgres) == []
    for number in range(3):
        fail(hire(host=f"worse{number}"), 40)
    assert keep(postgres) == ["/c"]
    assert campaign.status().state == "paused"


@pytest.mark.parametrize(("share", "pauses"), [(0.9, False), (0.8, True)])
def test_attempts_that_outlast_the_failures_speak_for_a_campaign(
    share: float, pauses: bool, hire: Hire, postgres: Postgres
) -> None:
    """As many as run, here 20 of 122: what waits in an agent for a slot has not begun."""
    postgres.execute("update taskq.campaign set max_failure_share = %s where path = '/c'", [share])
    for number in range(3):
        fail(hire(host=f"bad{number}"), 34)
    for number in range(20):
        hire(host=f"good{number}", slots=1).claim(10)
    age(postgres, 60)
    assert keep(postgres) == (["/c"] if pauses else [])


def test_attempts_that_have_just_begun_say_nothing(hire: Hire, postgres: Postgres) -> None:
    for number in range(3):
        fail(hire(host=f"bad{number}"), 34, ran_s=3_000)
    for number in range(20):
        hire(host=f"good{number}").claim(1)
    age(postgres, 60)
    assert keep(postgres) == ["/c"]


@pytest.mark.parametrize(
    "names",
    [
        ["agents-7d9f8b6c54-x2x9z", "agents-7d9f8b6c54-4kmpq", "agents-7d9f8b6c54-tt5wd"],
        ["taskq-dock-x2x9z", "taskq-dock-4kmpq", "taskq-dock-tt5wd"],
    ],
)
def test_pods_are_no_hosts_of_their_own(names: list[str], hire: Hire, postgres: Postgres) -> None:
    """A node that kills pods has many; where there are only pods, they are all there is."""
    for name in names:
        fail(hire(host=name), 40)
    hire(host="good").claim(1)
    assert keep(postgres) == []
    postgres.execute("update taskq.session set ended_at = now() where host = 'good'")
    assert keep(postgres) == ["/c"]


def test_numbered_hosts_are_hosts_of_their_own(hire: Hire, postgres: Postgres) -> None:
    for number in (22456, 22457, 22458):
        fail(hire(host=f"node-{number}"), 40)
    hire(host="good").claim(1)
    assert keep(postgres) == ["/c"]


def test_host_that_fails_now_and_then_does_not_count(hire: Hire, postgres: Postgres) -> None:
    fail(hire(host="bad"), 120)
    for number in range(3):
        fail(hire(host=f"good{number}"), 1, done=2)
    assert keep(postgres) == []


def test_priorities_that_hide_the_failures_leave_the_share_alone_to_judge(
    hire: Hire, postgres: Postgres
) -> None:
    """The attempts that are looked at say nothing about those that failed."""
    fail(hire(host="bad"), 100)
    hire(host="good").claim(1)
    postgres.execute("update taskq.attempt set ended_at = ended_at - interval '1 h'")
    assert keep(postgres) == ["/c"]


@pytest.mark.thorough
def test_real_agents_whose_tasks_go_on_speak_for_their_campaign(
    campaign: Campaign, hire: Hire, dsn: str, postgres: Postgres, tmp_path: Path
) -> None:
    """Three machines fail, so only the attempts elsewhere keep it open."""
    handler = Handler("command", argv=("sleep", "600"))
    campaign.change(replace(campaign.spec(), handler=handler, max_failure_share=0.98))
    options = ["--slots", 4, "--quiet"]
    with agent_process(dsn, "good", tmp_path / "log", *options):
        wait_until(lambda: campaign.status().working >= 4)
        for number in range(3):
            fail(hire(host=f"bad{number}"), 50, ran_s=0.001)
        assert value(postgres, JUDGE) is None
        assert campaign.status().state == "open", "the agent's own upkeep has judged it, too"
    postgres.execute("update taskq.session set ended_at = now() where agent = 'good'")
    value(postgres, JUDGE)
    assert campaign.status().state == "paused"
