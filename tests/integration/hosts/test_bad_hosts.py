"""Hosts on which more fails than on others, in the same campaigns, are slowed, and let go again."""

from __future__ import annotations

import json
import math
import os
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import psycopg
import pytest

from taskq import Campaign, CampaignSpec, Client, Handler, RetryPolicy
from taskq.dispatch.heartbeats import encoded
from taskq_agent.campaign_news import CampaignOutcomes
from taskq_agent.protocol import Heartbeat
from taskq_agent.wire import check
from tests.fixtures.queues import Hire
from tests.helpers.agent_processes import agent_process
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, value
from tests.helpers.scripted_agent import ScriptedAgent
from tests.helpers.variants import rest_thorough
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.usefixtures("campaign")

Tally = tuple[int, int]


def tell(postgres: Postgres, agent: ScriptedAgent, *tallies: CampaignOutcomes) -> str | None:
    """Beat with a tally; return the verdict on the agent's host."""
    beat = f"[{encoded(Heartbeat(agent.session, tally=tallies))}]"
    row = postgres.execute("select suspect from taskq.beat(%s)", [beat]).fetchone()
    return None if row is None else row["suspect"]


def judge(postgres: Postgres) -> list[str]:
    """Compare the hosts; return those that have become suspicious."""
    return value(postgres, "select taskq.judge_hosts()") or []


def judged(postgres: Postgres, hire: Hire, *hosts: Tally) -> list[int]:
    """Tell of hosts how many attempts were done and failed; return which are suspicious then."""
    for number, (done, failed) in enumerate(hosts):
        agent = hire(host=f"host{number}")
        tell(postgres, agent, CampaignOutcomes(agent.campaign, done, failed))
    return [int(host.removeprefix("host")) for host in judge(postgres)]


@pytest.mark.parametrize(
    ("hosts", "suspicious"),
    [
        ([(8, 0), (0, 8)], [1]),
        ([(40, 0), (0, 3), (30, 0)], [1]),
        ([(300, 9), (2, 20)], [1]),
        ([(0, 30), (0, 32), (8, 0), (30, 1)], [0, 1]),
        # What fails everywhere, or fails now and then, is no host's fault; nor is a single one bad.
        ([(0, 20), (0, 20)], []),
        ([(10, 20), (12, 18), (9, 23)], []),
        ([(30, 2), (28, 4), (32, 0)], []),
        ([(40, 0), (0, 2)], []),
        ([(3, 0), (0, 3)], []),
        ([(0, 32)], []),
        ([(0, 32), (0, 0)], []),
    ],
)
def test_host_is_judged_by_its_share_of_failures_compared_with_other_hosts(
    hosts: list[Tally], suspicious: list[int], hire: Hire, postgres: Postgres
) -> None:
    """However few hosts there are, as long as the difference is no chance."""
    found = judged(postgres, hire, *hosts)
    # Without the worst the others may look better.
    while more := [int(host.removeprefix("host")) for host in judge(postgres)]:
        found += more
    assert sorted(found) == suspicious


def test_campaigns_are_not_mixed_up(queue: Client, hire: Hire, postgres: Postgres) -> None:
    """A host that works for a bad campaign is as good as one that works for a good one."""
    queue.create_campaign("/bad")
    agents = [hire("/", host=name) for name in "abcd"]
    good, bad = hire("/c").campaign, hire("/bad").campaign
    for agent, number in zip(agents, (good, good, bad, bad), strict=True):
        tell(
            postgres,
            agent,
            CampaignOutcomes(number, 20 if number == good else 0, 20 if number == bad else 0),
        )
    assert judge(postgres) == []
    tell(postgres, agents[3], CampaignOutcomes(bad, 0, 16), CampaignOutcomes(good, 0, 16))
    assert judge(postgres) == ["d"]


def test_agents_get_the_warning_until_their_host_is_like_others_again(
    hire: Hire, postgres: Postgres, queue: Client, dsn: str
) -> None:
    """All agents of the host, also silent ones; a heartbeat without a tally changes nothing."""
    good, bad, same = hire(host="good"), hire(host="bad"), hire(host="bad")
    campaign = good.campaign
    tell(postgres, good, CampaignOutcomes(campaign, 30, 1))
    tell(postgres, bad, CampaignOutcomes(campaign, 1, 12))
    assert judge(postgres) == ["bad"]
    assert judge(postgres) == []
    why = "12 of 13 first attempts failed here, 1 of 31 on other hosts"
    assert [tell(postgres, agent) for agent in (good, bad, same)] == [None, why, why]
    assert sum(agent.suspect == why for agent in queue.agents()) == 2
    assert f"slowed: {why}" in CommandLine(dsn).out("agents", "list")
    tell(postgres, bad, CampaignOutcomes(campaign, 20, 12))
    assert judge(postgres) == []
    assert tell(postgres, bad) is not None
    tell(postgres, bad, CampaignOutcomes(campaign, 30, 2))
    judge(postgres)
    assert [tell(postgres, agent) for agent in (bad, same)] == [None, None]


def test_suspicious_host_is_no_other_to_wait_for(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """What has failed on a good one is tried there again, for want of a better."""
    retry = RetryPolicy(max_attempts=3, max_losses=5, backoff_s=0, backoff_max_s=0)
    campaign.change(replace(campaign.spec(), retry=retry))
    campaign.seed({"n": n} for n in range(3))
    good, bad = hire(host="good"), hire(host="bad")
    (task,) = good.claim(1)
    good.fail(task)
    value(postgres, "select taskq.promote_delayed()")
    good.forget_position()
    assert good.claim(1)[0].task != task.task
    tell(postgres, good, CampaignOutcomes(good.campaign, 30, 1))
    tell(postgres, bad, CampaignOutcomes(good.campaign, 0, 12))
    assert judge(postgres) == ["bad"]
    good.forget_position()
    assert good.claim(1)[0].task == task.task


@pytest.mark.parametrize(
    "tally",
    rest_thorough(
        [
            "a word",
            7,
            {},
            [[1, 2, 3]],
            [{"campaign": 1, "done": "x", "failed": 1}],
            [{"campaign": 1, "done": 2, "failed": -1}],
            [{"campaign": 1, "done": 2, "failed": 1 << 40}],
            [{"campaign": [1], "done": 2, "failed": 3}],
        ],
        3,
    ),
)
def test_tally_of_another_form_is_refused(tally: object, hire: Hire, postgres: Postgres) -> None:
    """Anyone who speaks with the database, in whatever language."""
    said = json.dumps([{"session": hire("/").session, "tally": tally}])
    with pytest.raises(psycopg.Error) as refused:
        postgres.execute("select * from taskq.beat(%s)", [said])
    assert refused.value.sqlstate == "TQ400"
    with pytest.raises(ValueError, match=r"tally\.failed is not from 0 to"):
        check(Heartbeat(1, tally=(CampaignOutcomes(1, 2, -1),)))


@pytest.mark.parametrize(
    ("failed", "tried", "others"),
    [(7, 7, (0, 7)), (3, 3, (0, 30)), (12, 32, (2, 28)), (20, 64, (5, 25)), (1, 1, (0, 1))],
)
def test_chance_is_that_of_a_beta_binomial_distribution(
    failed: int, tried: int, others: Tally, postgres: Postgres
) -> None:
    """As calculated with fractions."""
    half = Fraction(1, 2)
    a, b = others[0] + half, others[1] - others[0] + half

    def rising(x: Fraction, times: int) -> Fraction:
        return math.prod((x + i for i in range(times)), start=Fraction(1))

    exact = sum(
        math.comb(tried, k) * rising(a, k) * rising(b, tried - k) / rising(a + b, tried)
        for k in range(failed, tried + 1)
    )
    share = a / (a + b)
    variance = tried * share * (1 - share) * (a + b + tried) / (a + b + 1)
    found = value(
        postgres,
        "select taskq.chance_of_more(%s, %s, %s, %s)",
        failed,
        tried,
        float(tried * share),
        float(variance),
    )
    assert found == pytest.approx(float(exact), rel=1e-3) or min(found, exact) > 0.01


def test_chance_can_be_computed_for_many_attempts(postgres: Postgres) -> None:
    """Of hosts with hundreds of agents, without a numeric overflow."""
    ask = "select taskq.chance_of_more(%s, %s, %s, %s)"
    assert value(postgres, ask, 50_000, 50_000, 100.0, 120.0) < 1e-100
    assert value(postgres, ask, 101, 50_000, 100.0, 120.0) > 0.01


@pytest.mark.thorough
def test_good_tasks_survive_a_bad_host_and_it_is_found(
    queue: Client, dsn: str, postgres: Postgres, tmp_path: Path
) -> None:
    """Of 40 tasks that are tried three times, none is lost to one bad host of two."""
    retry = RetryPolicy(max_attempts=3, max_losses=5, backoff_s=0, backoff_max_s=0)
    handler = Handler("command", argv=("calculate",))
    campaign = queue.create_campaign(CampaignSpec("/d", handler=handler, retry=retry))
    campaign.seed({"n": n} for n in range(40))
    with ExitStack() as stack:
        for name, program in (("bad", "sleep 0.2; exit 3"), ("good", "sleep 0.1")):
            folder = tmp_path / name
            folder.mkdir()
            (folder / "calculate").write_text(f"#!/bin/sh\n{program}\n")
            (folder / "calculate").chmod(0o755)
            options = ["--lease", 4, "--host", name, "--quiet"]
            programs = f"{folder}:{os.environ['PATH']}"
            stack.enter_context(
                agent_process(dsn, name, folder / "log", *options, path="/d", PATH=programs)
            )
        wait_until(lambda: campaign.status().unfinished == 0, timeout_s=90)
        status = campaign.status()
        assert (status.done, status.failed) == (40, 0)
        assert status.failures > 0
        if status.failures >= 8:
            suspects = (
                "select count(*) from taskq.session where host = 'bad' and suspect is not null"
            )
            wait_until(lambda: value(postgres, suspects) == 1, timeout_s=60)
