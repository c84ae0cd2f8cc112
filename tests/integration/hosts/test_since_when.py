"""Verdicts on hosts, sites and results say since when, over attempts at drawn times."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import pytest

from taskq import Campaign, Client
from taskq.diagnosis.reasons import Reason
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, keep
from tests.helpers.usage import sum_up
from tests.helpers.variants import rest_thorough

HOSTS = ("bad", "n1", "n2", "n3", "n4", "n5")
SITES = {"bad": "s0", "n1": "s0", "n2": "s1", "n3": "s1", "n4": "s2", "n5": "s2"}
EACH = 40
CUT = 22


@pytest.fixture
def work(queue: Client, hire: Hire, postgres: Postgres) -> Any:
    """Give a function that lets hosts do tasks in the last hour, one after another."""
    keep(postgres)

    def worked(seed: int, slow: set[str], odd: dict[str, Any]) -> tuple[Campaign, datetime]:
        """slow: hosts that become slow at a time; odd: what other results are from then on."""
        chance = random.Random(seed)
        campaign = servable(queue, "/x", tasks=600, best="lowest result.energy")
        agents = {host: hire("/x", host=host, site=SITES[host]) for host in HOSTS}
        for number in range(EACH):
            for host in chance.sample(HOSTS, len(HOSTS)):
                (task,) = agents[host].claim()
                late = number >= CUT
                run_s = chance.lognormvariate(0.0, 0.3) * (4.0 if late and host in slow else 1.0)
                energy: Any = -chance.random()
                if late and host in odd:
                    energy = odd[host]
                phases = {"run_s": run_s}
                agents[host].report(task, "done", result={"energy": energy}, phases=phases)
        # As if one round had been made each minute.
        postgres.execute(
            "update taskq.attempt a set ended_at = v.at, claimed_at = v.at - interval '10 s'"
            "  from (select task_id, statement_timestamp() - interval '50 min'"
            "               + ((row_number() over (order by task_id) - 1) / 6) * interval '1 min'"
            "                 as at from taskq.attempt) v where v.task_id = a.task_id"
        )
        postgres.execute("update taskq.refused set since = since - interval '1 hour'")
        sum_up(postgres)
        row = postgres.execute(
            "select min(a.claimed_at) as at from (select claimed_at from taskq.attempt"
            " order by task_id offset %s) a",
            [CUT * len(HOSTS)],
        ).fetchone()
        assert row is not None
        return campaign, row["at"]

    return worked


def only(campaign: Campaign, code: str) -> Reason:
    """Return the reason of a kind."""
    (found,) = [it for it in campaign.explain().reasons if it.code == code]
    return found


@pytest.mark.parametrize("seed", rest_thorough(range(3)))
@pytest.mark.parametrize("slow", [{"bad"}, {"bad", "n1"}], ids=["host", "site"])
def test_slow_place_is_named_with_the_time_since_which_it_is_slow(
    work: Any, seed: int, slow: set[str]
) -> None:
    """To two attempts, however short the past is."""
    campaign, at = work(seed, slow, {})
    found = only(campaign, "slow-host" if len(slow) == 1 else "slow-site")
    assert found.since is not None
    assert abs(found.since - at) <= timedelta(minutes=2, seconds=15)
    assert "since 20" in found.text


@pytest.mark.parametrize("seed", rest_thorough(range(3)))
def test_constant_results_since_a_time_are_named_with_it(work: Any, seed: int) -> None:
    """Earlier ones of this host were right."""
    campaign, at = work(seed, set(), {"bad": 0.0})
    found = only(campaign, "constant-results")
    assert found.since == at
    assert "host bad are constant since tasks claimed at 20" in found.text
    assert f"the latest {EACH - CUT} results" in found.text


@pytest.mark.parametrize("seed", rest_thorough(range(3)))
def test_unranked_results_since_a_time_are_named_with_it(work: Any, seed: int) -> None:
    """Of whatever hosts."""
    campaign, at = work(seed, set(), dict.fromkeys(HOSTS))
    found = only(campaign, "unranked-results")
    assert found.since is not None
    assert abs(found.since - at) <= timedelta(seconds=15)


def test_calm_hosts_have_no_since(work: Any) -> None:
    """Nothing is slow or odd."""
    campaign, _ = work(7, set(), {})
    codes = {it.code for it in campaign.explain().reasons}
    assert not codes & {"slow-host", "slow-site", "constant-results", "odd-results"}
    assert "unranked-results" not in codes
