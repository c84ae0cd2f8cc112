"""Verdicts over sums of ended attempts: where, in which class, since when, at what cost."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from taskq import Campaign, CampaignSpec, Client
from taskq.diagnosis import sample
from taskq.diagnosis.reasons import Reason
from taskq_agent.protocol import DONE
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import TRUE, servable
from tests.helpers.postgres import Postgres
from tests.helpers.scripted_agent import ScriptedAgent
from tests.helpers.usage import sum_up

HOSTS = ("bad", "n1", "n2", "n3", "n4", "n5")


def farm(queue: Client, hire: Hire, *paths: str) -> dict[str, dict[str, ScriptedAgent]]:
    """Give campaigns with tasks, and an agent on each host for each of them."""
    found = {}
    for path in paths:
        campaign = servable(queue, path, tasks=1_000)
        agents = {host: hire("/", host=host, offers=["cores=4"], slots=50) for host in HOSTS}
        for agent in agents.values():
            agent.campaign = campaign.campaign_id
        found[path] = agents
    return found


def do(
    agent: ScriptedAgent, done: int, failed: int = 0, error_class: str = "", s: float = 0
) -> None:
    """Let an agent do tasks, and fail at some."""
    for task in agent.claim(done):
        agent.report(task, DONE, phases={"run_s": s})
    for task in agent.claim(failed):
        agent.report(task, "failed", error_class=error_class, phases={"run_s": s}, retry=False)


def backdate(postgres: Postgres, ago: timedelta) -> None:
    """Sum what has ended, as if it had been so long ago."""
    sum_up(postgres)
    postgres.execute(
        "update taskq.end_sum set since = since - %s, first_at = first_at - %s,"
        "       last_at = last_at - %s",
        [ago, ago, ago],
    )


def reasons(campaign: Campaign, code: str) -> list[Reason]:
    """Return the reasons of a kind."""
    return [it for it in campaign.explain().reasons if it.code == code]


def first_failure(postgres: Postgres) -> datetime:
    """Return when the first of all attempts failed."""
    row = postgres.execute(
        "select min(ended_at) as at from taskq.attempt where outcome = 'failed'"
    ).fetchone()
    assert row is not None
    at: datetime = row["at"]
    return at


@pytest.mark.thorough
def test_host_is_named_with_the_campaign_and_class_in_which_it_does_worse(
    queue: Client, hire: Hire
) -> None:
    """Not with what fails there most often, which fails everywhere."""
    agents = farm(queue, hire, "/x", "/y")
    for host in HOSTS:
        do(agents["/x"][host], 10 * (host != "bad"), 10 * (host == "bad"), "exit-127")
        do(agents["/y"][host], 10, 30, "Boom")
    (host,) = [it for it in queue.fleet.hosts() if it.is_failing]
    assert (host.name, host.worst) == ("bad", ("/x", "exit-127"))
    (reason,) = reasons(queue.campaign("/"), "failing-host")
    assert "most often in /x: exit-127" in reason.text


@pytest.mark.thorough
def test_verdict_says_since_when_a_class_is_there_and_what_it_costs(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """The instant of the first failure; and the core-hours that go for nothing in an hour."""
    agents = farm(queue, hire, "/x")["/x"]
    for hours in (3, 2, 1):
        for agent in agents.values():
            do(agent, 5)
        backdate(postgres, timedelta(hours=hours) / 2)
    for agent in agents.values():
        do(agent, 0, 40, "Boom")
    at = first_failure(postgres)
    sum_up(postgres)
    (verdict,) = queue.fleet.failures("/x")
    assert (verdict.side, verdict.campaign, verdict.error_class) == ("campaign", "/x", "Boom")
    assert (verdict.since, verdict.is_new) == (at, True)
    assert verdict.first_task is not None
    assert verdict.cost is not None
    (reason,) = reasons(queue.campaign("/x"), "failed")
    assert reason.since == at
    assert "Boom since 20" in reason.text


@pytest.mark.thorough
def test_host_that_breaks_is_named_with_the_instant(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """Others had failures of this class before."""
    agents = farm(queue, hire, "/x")["/x"]
    for agent in agents.values():
        do(agent, 30, 1, "Boom")
    backdate(postgres, timedelta(hours=1))
    do(agents["bad"], 0, 30, "Boom")
    for agent in agents.values():
        do(agent, 20)
    sum_up(postgres)
    row = postgres.execute(
        "select min(a.ended_at) as at from taskq.attempt a join taskq.session s using (session_id)"
        " where a.outcome = 'failed' and s.host = 'bad'"
        "   and a.ended_at > (select max(last_at) from taskq.end_sum"
        "                      where since < now() - interval '30 min') + interval '59 min'"
        "   and a.task_id > (select max(last_task) from taskq.end_sum"
        "                     where since < now() - interval '30 min')"
    ).fetchone()
    assert row is not None
    (host,) = [it for it in queue.fleet.hosts("/x") if it.is_failing]
    assert (host.name, host.since) == ("bad", row["at"])


def test_each_class_with_a_verdict_has_a_reason(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """Not only the two with most failed tasks; what began in two campaigns at once is one."""
    agents = farm(queue, hire, "/x", "/y")
    for host in HOSTS:
        for name in ("exit-65", "FailForGood"):
            do(agents["/x"][host], 1, 3, name)
    for path in ("/x", "/y"):
        for host in HOSTS:
            do(agents[path][host], 0, 1 if path == "/x" else 2, "FailForGood")
    sum_up(postgres)
    explained = queue.campaign("/").explain()
    found = [it for it in explained.reasons if it.code in {"failed", "failing-class"}]
    text = " ".join(it.text for it in found)
    assert "FailForGood in /x" in text
    assert "exit-65 in /x" in text
    assert "FailForGood in /y" in text


@pytest.mark.thorough
def test_sums_count_where_the_sample_has_only_the_last_attempts(
    queue: Client, hire: Hire, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand are ten seconds of a large queue; a host that did little is not among them."""
    agents = farm(queue, hire, "/x")["/x"]
    do(agents["bad"], 0, 20, "exit-127")
    for host in HOSTS[1:]:
        do(agents[host], 40)
    sum_up(postgres)
    postgres.execute("update taskq.refused set since = since - interval '1 hour'")
    monkeypatch.setattr(sample, "MOST", 50)
    (host,) = [it for it in queue.fleet.hosts("/x") if it.is_failing]
    assert (host.name, host.attempts, host.bad) == ("bad", 20, 20)
    assert str(host.sample).startswith("220 attempts of the hour before 20")
    (verdict,) = queue.fleet.failures("/x")
    assert (verdict.side, verdict.places, verdict.attempts) == ("node", ["bad"], 20)
    assert verdict.since is not None


@pytest.mark.thorough
def test_failures_from_before_a_change_of_the_campaign_accuse_nobody(
    queue: Client, hire: Hire, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in sums, which know times of ten minutes."""
    agents = farm(queue, hire, "/x")["/x"]
    do(agents["bad"], 0, 20, "exit-127")
    for host in HOSTS[1:]:
        do(agents[host], 40)
    sum_up(postgres)
    queue.campaign("/x").change(CampaignSpec("/x", handler=TRUE, description="mended"))
    for host in HOSTS:
        do(agents[host], 10)
    sum_up(postgres)
    monkeypatch.setattr(sample, "MOST", 20)
    assert not [it for it in queue.fleet.hosts("/x") if it.is_failing]
