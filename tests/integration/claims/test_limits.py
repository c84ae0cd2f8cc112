"""Limits of a campaign on running tasks, and the tags that its tasks require."""

from __future__ import annotations

import json

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.rows import dict_row

from taskq import Campaign, CampaignSpec, Client
from taskq.model.errors import UsageError
from taskq.model.requirements import check_offers, check_requires
from tests.fixtures.queues import Hire
from tests.helpers.claims_at_once import most_at_work, turn
from tests.helpers.postgres import Postgres, assert_counts_are_true, value

WORKING = "select count(*) from taskq.state where status = 'working'"


@pytest.fixture
def limited(queue: Client) -> Campaign:
    """Give a campaign of 300 tasks, 5 of which may run at a time."""
    campaign = queue.create_campaign(CampaignSpec("/limited", max_running=5))
    campaign.seed({"n": n} for n in range(300))
    return campaign


def test_no_more_run_than_the_campaign_allows(limited: Campaign, hire: Hire) -> None:
    """A claim gets what the limit leaves, though more is waiting."""
    first, second = hire(limited.path), hire(limited.path)
    held = first.claim(3)
    assert [len(held), len(second.claim(3)), len(first.claim(3))] == [3, 2, 0]
    first.done(held[0])
    assert len(second.claim(10)) == 1


def test_task_that_ends_makes_room_in_the_same_exchange(limited: Campaign, hire: Hire) -> None:
    """An agent that reports one task and claims another is not held up by its own."""
    agent = hire(limited.path)
    held = agent.claim(5)
    for _ in range(3):
        held = turn(agent, held, 5)
        assert len(held) == 5


@pytest.mark.thorough
def test_limit_holds_while_many_claim_at_once(
    limited: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Eight connections claim and report as fast as they can; at no moment do more than five run.

    A claim that counted before the one ahead of it committed would overrun the limit.
    """
    agents = [hire(limited.path) for _ in range(8)]
    done, most = most_at_work(agents, postgres, WORKING)
    assert done == 300
    assert most <= 5
    assert_counts_are_true(postgres)


def test_limit_refuses_claims_that_cannot_see_the_others(
    limited: Campaign, hire: Hire, dsn: str
) -> None:
    """Under an old snapshot nobody knows how many run, so a claim there is an error."""
    agent = hire(limited.path)
    with psycopg.connect(dsn, row_factory=dict_row) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        claim = "select from taskq.claim('/limited', %s, gen_random_uuid())"
        with pytest.raises(psycopg.Error, match="needs read committed") as raised:
            other.execute(claim, [agent.session])
    assert raised.value.sqlstate == "TQ400"


def test_agent_without_what_is_required_gets_nothing(queue: Client, hire: Hire) -> None:
    """Tags are checked where tasks are handed out, anyone who chooses the campaign."""
    campaign = queue.create_campaign(CampaignSpec("/gpu", requires=("gpu", "mem>=16")))
    campaign.seed({"n": n} for n in range(4))
    small = hire("/gpu", offers=("gpu", "mem=8"))
    large = hire("/gpu", offers=("gpu", "mem=64", "site=kr"))
    assert (small.claim(4), len(large.claim(3))) == ([], 3)
    assert [len(small.claim(1)), len(large.claim(3))] == [0, 1]


def test_repeated_claim_under_requirements_gets_the_same_tasks(queue: Client, hire: Hire) -> None:
    """A claim whose answer was lost is answered again, next to new claims of others."""
    campaign = queue.create_campaign(CampaignSpec("/gpu", requires=("gpu",)))
    campaign.seed({"n": n} for n in range(4))
    agent = hire("/gpu", offers=("gpu",))
    first = agent.claim(2)
    assert agent.claim(2, lease=first[0].lease) == first


OFFERED = "select taskq.offered(%s::text[], %s::text[])"


@pytest.mark.parametrize(
    ("requires", "offers"),
    [
        ([], []),
        ([], ["gpu"]),
        (["gpu"], ["gpu"]),
        (["gpu"], ["cpu", "gpu=a100"]),
        (["gpu=a100"], ["gpu=a100"]),
        (["gpu=a100"], ["gpu=h100", "gpu=a100"]),
        (["mem=16"], ["mem=16.0"]),
        (["mem=+16"], ["mem=016"]),
        (["mem>=16"], ["mem=16"]),
        (["mem>=16"], ["mem=100"]),
        (["mem>=-1.5"], ["mem=-1"]),
        (["gpu", "mem>=16"], ["mem=64", "gpu"]),
        (["path=/a:b@c"], ["path=/a:b@c"]),
        (["v=2-rc1"], ["v=2-rc1"]),
    ],
)
def test_requirements_are_met(requires: list[str], offers: list[str], postgres: Postgres) -> None:
    """All of them, each by one of the offers; numbers compare as numbers."""
    assert value(postgres, OFFERED, requires, offers) is True


@pytest.mark.parametrize(
    ("requires", "offers"),
    [
        (["gpu"], []),
        (["gpu"], ["gpus"]),
        (["gpu"], ["GPU"]),
        (["gpu=a100"], ["gpu"]),
        (["gpu=a100"], ["gpu=A100"]),
        (["mem>=16"], ["mem"]),
        (["mem>=16"], ["mem=9"]),
        (["mem>=16"], ["mem=much"]),
        (["mem>=16"], ["mem=15.999"]),
        (["mem=16"], ["mem=16GB"]),
        (["gpu", "mem>=16"], ["mem=64"]),
        (["mem.max>=1"], ["memXmax=5"]),
    ],
)
def test_requirements_are_not_met(
    requires: list[str], offers: list[str], postgres: Postgres
) -> None:
    """What is not said is not there."""
    assert value(postgres, OFFERED, requires, offers) is False


@given(
    tag=st.text(max_size=8)
    | st.text("aZ9_.-=>+ \n", max_size=10)
    | st.from_regex(r"[a-z]{1,3}(>?=[-+0-9.a]{0,5})?"),
    requires=st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_database_takes_the_tags_that_the_library_takes(
    tag: str, requires: bool, postgres: Postgres
) -> None:
    """A client that speaks SQL gets no further, and no less far."""
    check, what = (check_requires, "requires") if requires else (check_offers, "offers")
    ask = "select taskq.checked_tags(%s, %s::text[])"
    try:
        check([tag])
    except UsageError:
        if "\x00" not in tag:  # that one does not even get there
            with pytest.raises(psycopg.Error) as refused:
                value(postgres, ask, what, [tag])
            assert refused.value.sqlstate == "TQ400"
    else:
        assert value(postgres, ask, what, [tag]) == [tag]


@pytest.mark.parametrize(
    "spec",
    [
        '{"requires": ["1gpu"]}',
        '{"requires": [null]}',
        '{"requires": "gpu"}',
        '{"requires": null}',
        json.dumps({"requires": [f"t{n}" for n in range(33)]}),
        '{"weight": 0}',
        '{"weight": 1001}',
        '{"weight": "NaN"}',
        '{"max_running": 0}',
        '{"max_running": 1000001}',
    ],
)
def test_campaign_that_cannot_be_is_refused_by_the_database(queue: Client, spec: str) -> None:
    """A client that speaks SQL gets no further than one that uses the library."""
    with pytest.raises(UsageError):
        queue.database.value("create_campaign", path="/a", spec=spec)
