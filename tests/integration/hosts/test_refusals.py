"""When hosts cannot run a campaign: who is believed, what pauses it, what makes all well again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from taskq import Campaign, CampaignSpec, Client
from taskq.db.catalogue import statement
from tests.fixtures.queues import Hire
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres, keep, value
from tests.helpers.scripted_agent import Claimed, ScriptedAgent, report_of


@pytest.fixture(autouse=True)
def _seeded(campaign: Campaign, true_counts: None) -> Iterator[None]:
    """Let there be tasks; and whatever happens, the counts stay true."""
    del true_counts
    campaign.seed({"n": n} for n in range(20))
    yield
    status = campaign.status()
    assert (status.failures, status.failed, status.losses) == (0, 0, 0), "a refusal is no failure"


def refusal(task: Claimed) -> dict[str, object]:
    """Return the report that a task cannot be run."""
    return report_of(
        task, "released", refused=True, error_class="prepare-failed", error="no receptor"
    )


def refuse(agent: ScriptedAgent, tasks: int = 1) -> None:
    """Refuse so many tasks, which were claimed together."""
    reports = [refusal(task) for task in agent.claim(tasks)]
    assert set(agent.exchange(reports)["acks"]) == {"accepted"}


def test_three_hosts_that_agree_pause_the_campaign(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """With the hosts, the class and the text; not before it is seen that nobody succeeds."""
    for host in ("n1", "n2", "n3"):
        refuse(hire(host=host))
    hire(host="idle")
    assert keep(postgres) == []
    assert keep(postgres) == ["/c"]
    status = campaign.status()
    assert (status.state, status.waiting) == ("paused", 20)
    assert status.paused_why == (
        "it cannot be run on 3 hosts (n1, n2, n3): prepare-failed: no receptor"
    )


def test_agents_of_one_host_are_one_witness(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """And tasks that ran side by side are one refusal, while another host may be able to."""
    for _ in range(4):
        refuse(hire(host="n1"), tasks=4)
    other = hire(host="n2")
    assert keep(postgres, 2) == []
    tasks = (agent := hire(host="n1")).claim(4)
    for task in tasks:
        assert agent.exchange([refusal(task)])["acks"] == ["accepted"]
    other.leave()
    assert keep(postgres, 2) == []
    assert campaign.status().state == "open"


def test_host_with_a_task_in_hand_may_be_able_to_run_it(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Its task may take hours; when it has refused too, all agree."""
    able = hire(host="n4")
    (task,) = able.claim()
    for host in ("n1", "n2", "n3"):
        refuse(hire(host=host))
    assert keep(postgres, 2) == []
    assert able.exchange([refusal(task)])["acks"] == ["accepted"]
    assert keep(postgres, 2) == ["/c"]
    assert "4 hosts" in str(campaign.status().paused_why)


def test_success_makes_what_was_refused_before_count_for_nothing(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """The campaign can be run: it is the hosts, which leave it to others."""
    able = hire(host="n4")
    refuse(hire(host="n1"))
    refuse(hire(host="n2"))
    assert keep(postgres, 2) == []
    able.done(able.claim()[0])
    assert keep(postgres, 2) == []
    refuse(hire(host="n3"))
    assert keep(postgres, 2) == []
    assert campaign.status().state == "open"


def test_all_hosts_there_are_need_be_only_one(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """After three refusals one after the other; agents that cannot serve it do not count."""
    refuse(agent := hire(host="laptop"))
    hire(host="draining")
    value(postgres, "select taskq.drain_sessions('/', null, '{double}')")
    assert keep(postgres, 2) == []
    refuse(agent)
    assert keep(postgres, 2) == []
    other = hire(host="other")
    refuse(agent)
    assert keep(postgres, 2) == [], "another one serves it"
    other.leave()
    assert keep(postgres, 2) == ["/c"]
    assert "cannot be run on laptop: " in str(campaign.status().paused_why)


def test_host_that_lacks_what_is_required_is_no_witness(hire: Hire, postgres: Postgres) -> None:
    """Its agents are never given a task of the campaign."""
    agent = hire(host="gpu", offers=["gpu"])
    hire(host="plain")
    body = '{"requires": ["gpu"]}'
    value(postgres, "select taskq.change_campaign('/c', %s)", body)
    for _ in range(3):
        refuse(agent)
    assert keep(postgres, 2) == ["/c"]


@pytest.mark.parametrize("repair", ["change", "resume"])
def test_repaired_campaign_is_judged_anew_and_tried_at_once(
    repair: str, queue: Client, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """What was refused before says nothing about it; its revision tells agents to try again."""
    agents = [hire(host=host) for host in ("n1", "n2", "n3")]
    for agent in agents:
        refuse(agent)
    assert keep(postgres, 2) == ["/c"]
    before = value(postgres, "select revision from taskq.campaign where path = '/c'")
    if repair == "change":
        campaign.change(CampaignSpec("/c"))
    campaign.resume()
    assert value(postgres, "select revision from taskq.campaign where path = '/c'") == before + 1
    refuse(agents[0])
    assert keep(postgres, 2) == []
    assert [refusals.hosts for refusals in queue.refusals("/c")] == [1]


@pytest.mark.parametrize("known", [False, True])
def test_refusal_of_a_task_claimed_before_a_repair_does_not_count(
    known: bool, queue: Client, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """However late it comes; refusals of later claims count."""
    agents = [hire(host=host) for host in ("n1", "n2", "n3")]
    if known:
        refuse(agents[0])
    held = [(agent, task) for agent in agents for task in agent.claim(2)]
    campaign.change(CampaignSpec("/c"))
    assert queue.refusals("/c") == []
    for agent, task in held:
        assert agent.exchange([refusal(task)])["acks"] == ["accepted"]
    assert keep(postgres, rounds=3) == []
    assert queue.refusals("/c") == []
    for agent in agents:
        refuse(agent)
    assert keep(postgres, 2) == ["/c"]


def test_resumed_campaign_that_was_not_refused_keeps_its_revision(
    campaign: Campaign, postgres: Postgres
) -> None:
    """Children that have prepared for long go on."""
    before = value(postgres, "select revision from taskq.campaign where path = '/c'")
    campaign.pause()
    campaign.resume()
    assert value(postgres, "select revision from taskq.campaign where path = '/c'") == before


def test_stopped_or_unbegun_attempts_refuse_nothing(
    queue: Client, campaign: Campaign, hire: Hire
) -> None:
    """A report of an earlier release, which has the class alone, does not either."""
    agent = hire()
    first, second, third = agent.claim(3)
    agent.exchange([report_of(first, "released", error_class="exit-69", error="unfit")])
    agent.exchange([report_of(second, "released", refused=False, error_class="stopped")])
    agent.exchange([report_of(third, "released", started=False, refused=True)])
    assert queue.refusals() == []
    assert list(campaign.failure_classes()) == []


def test_refused_attempts_are_listed_with_the_failures_and_found_by_key(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Successes and tasks that were handed back for other reasons are not read for it."""
    agent = hire(host="n1")
    for task in agent.claim(8):
        assert agent.done(task) == "accepted"
    refuse(agent, 3)
    agent.release(agent.claim(1)[0], started=True)
    record = {"campaign": campaign.campaign_id, "limit": 9}
    with watched(postgres) as seen:
        classes = postgres.execute(statement("failure_classes"), record).fetchall()
        causes = postgres.execute(statement("failure_causes"), record).fetchall()
    assert [(row["error_class"], row["attempts"]) for row in classes] == [("prepare-failed", 3)]
    assert [(row["cause"], row["tasks"], row["hosts"]) for row in causes] == [("no receptor", 3, 1)]
    hot = seen.to("attempt")
    assert hot.access_paths == {"attempt by attempt_unsuccessful", "attempt by attempt_pkey"}
    assert hot.widest is not None
    assert hot.widest.rows <= 4
