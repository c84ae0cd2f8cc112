"""Limits of a campaign on the tasks that run at each site."""

from __future__ import annotations

from collections import Counter

import psycopg
import pytest

from taskq import Campaign, CampaignSpec, Client
from taskq.db.connections import Database
from taskq.dispatch.batching import Batcher
from taskq.dispatch.fair_share import Scope
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.claims_at_once import most_at_work, turn
from tests.helpers.crowded_sites import crowd
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres, assert_counts_are_true, expire, silence, value
from tests.helpers.scripted_agent import report_of
from tests.integration.claims.test_claims_that_avoid import Claims

AT_SITES = """
    select coalesce(max(n.working), 0)
      from (select s.site, count(*) as working
              from taskq.state t
              join taskq.session s on s.session_id = t.session_id
             where t.status = 'working'
             group by s.site) n
"""
NOTED = "select coalesce(sum(tasks), 0)::integer from taskq.limit_claim"


@pytest.fixture
def limited(queue: Client) -> Campaign:
    """Give a campaign of 300 tasks, 3 of which may run at each site."""
    return servable(queue, "/limited", 300, max_running_per_site=3)


def test_no_more_run_at_a_site_than_the_campaign_allows(
    limited: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """A claim gets what its site has room for; other sites have room of their own."""
    first, second = hire(limited.path, site="a"), hire(limited.path, site="a")
    other, nameless = hire(limited.path, site="b"), hire(limited.path, site="")
    held = first.claim(2)
    assert [len(held), len(second.claim(2)), len(second.claim(1))] == [2, 1, 0]
    assert [len(other.claim(1)), len(other.claim(9)), len(nameless.claim(9))] == [1, 2, 3]
    first.done(held[0])
    assert [len(second.claim(10)), len(other.claim(1))] == [1, 0]
    assert value(postgres, NOTED) == 9


def test_task_that_ends_makes_room_at_its_site_in_the_same_exchange(
    limited: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """An agent that reports and claims is not held up by its own; nothing of the ended is kept."""
    agent = hire(limited.path)
    held = agent.claim(3)
    for _ in range(3):
        held = turn(agent, held, 5)
        assert len(held) == 3
    assert turn(agent, held, 1) != []
    assert value(postgres, NOTED) == 1
    assert value(postgres, "select count(*) from taskq.limit_claim") == 1


@pytest.mark.parametrize("end", ["fail", "release", "leave", "expire"])
def test_however_a_task_ends_there_is_room_again(
    end: str, limited: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """The count is that of the tasks, whatever ends their work."""
    agent, other = hire(limited.path), hire(limited.path)
    held = agent.claim(3)
    if end == "fail":
        agent.fail(held[0])
    elif end == "release":
        agent.release(held[0], started=False)
        other.forget_position()
    elif end == "leave":
        assert agent.leave() == 3
        other.forget_position()
    else:
        silence(postgres, agent.session)
        assert expire(postgres) == 3
    assert len(other.claim(9)) == (3 if end in ("leave", "expire") else 1)


@pytest.mark.thorough
def test_limit_of_a_site_holds_while_many_claim_at_once(
    limited: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Agents of two sites claim and report as fast as they can; at no moment do four run at one."""
    agents = [hire(limited.path, site="ab"[number % 2]) for number in range(8)]
    done, most = most_at_work(agents, postgres, AT_SITES)
    assert done == 300
    assert most <= 3
    assert_counts_are_true(postgres)


def test_batch_of_agents_gets_what_each_site_has_room_for(
    limited: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Those of a full site are named, and do not take the campaign's room from others."""
    limited.change(CampaignSpec(limited.path, max_running=4, max_running_per_site=3))
    agents = [hire(limited.path, site=site) for site in "aaaaabb"]
    row = postgres.execute(
        "select tasks, avoided from taskq.exchange(%s, null, %s, %s::uuid[], %s)",
        [
            limited.campaign_id,
            [agent.session for agent in agents],
            [agent.draw_lease() for agent in agents],
            [1] * len(agents),
        ],
    ).fetchone()
    assert row is not None
    sessions = [task[5] for task in row["tasks"]]
    assert sessions == [agents[n].session for n in (0, 1, 2, 5)]
    assert sorted(row["avoided"]) == [agents[3].session, agents[4].session]


def test_repeated_claim_counts_once(limited: Campaign, hire: Hire, postgres: Postgres) -> None:
    """A claim whose answer was lost is answered again from what it has got.

    A lease id that is used again later is a claim as any other.
    """
    agent = hire(limited.path)
    first = agent.claim(2)
    assert agent.claim(2, lease=first[0].lease) == first
    assert value(postgres, NOTED) == 2
    assert [agent.done(task) for task in first] == ["accepted"] * 2
    assert len(agent.claim(9, lease=first[0].lease)) == 3
    assert value(postgres, NOTED) == 3


@pytest.mark.thorough
def test_ended_tasks_are_found_among_more_claims_than_one_claim_looks_at(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """A later claim finds it: each looks at some from another place; none gets too much."""
    campaign = servable(queue, "/limited", 20, max_running_per_site=2_001)
    other = hire("/limited")
    crowd(postgres, campaign.campaign_id, "here", 2_000, at_work=True)
    assert len(other.claim(2)) == 1
    assert other.claim(1) == []
    postgres.execute("delete from taskq.task where task_id between -10 and -1")
    assert sum(len(other.claim(1)) for _ in range(200)) == 10
    assert value(postgres, NOTED) == 2_001


@pytest.mark.usefixtures("limited")
async def test_agent_of_a_full_site_takes_nothing_from_others(
    queue: Client, database: Database, hire: Hire, statements: Counter[str]
) -> None:
    """It gets what waits elsewhere, or comes again later; no campaign is struck off."""
    full, other = hire("/", site="full").session, hire("/", site="other").session
    assert len(hire("/limited", site="full").claim(3)) == 3
    async with Batcher(database) as batcher:
        claims = Claims(batcher, Scope("/"))
        statements.clear()
        for number in range(3):
            (refused,) = await claims.of(full)
            assert (refused.tasks, refused.orders.claim_after_s) == ((), 2.0)
            (answer,) = await claims.of(other)
            assert len(answer.tasks) == 1, f"claim {number}"
        assert statements["servable"] <= 2, "nothing was drawn anew"
        elsewhere = servable(queue, "/elsewhere", 5)
        batcher.forget(Scope("/"))
        ((task,),) = [answer.tasks for answer in await claims.of(full)]
        assert task.campaign == elsewhere.campaign_id


def test_tasks_of_a_campaign_with_a_site_limit_are_not_leased_ahead(
    limited: Campaign, postgres: Postgres
) -> None:
    """What waits in a list is at no site yet."""
    assert not value(postgres, "select taskq.is_frontable(%s)", limited.campaign_id)


def test_limit_of_a_site_is_within_bounds_and_excludes_hedging(
    limited: Campaign, postgres: Postgres
) -> None:
    """Also for who writes SQL."""
    for wrong in (
        '{"max_running_per_site": 0}',
        '{"max_running_per_site": 20001}',
        '{"hedge": 0.1, "late_results": "salvage"}',
    ):
        with pytest.raises(psycopg.errors.CheckViolation):
            postgres.execute("select taskq.change_campaign('/limited', %s)", [wrong])
    assert (limited.spec().max_running, limited.spec().max_running_per_site) == (None, 3)


def test_notes_on_site_limits_are_deleted_with_their_campaign(
    limited: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Nothing is left of it."""
    hire("/limited").claim(3)
    limited.remove()
    assert value(postgres, NOTED) == 0


def test_idle_claim_counts_nothing_at_its_site(
    limited: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Where nothing waits, or as many run as may in all; of a full site not all each time."""
    idle = hire("/limited")
    claim = (
        "select avoided from taskq.exchange(%s, null, array[%s]::bigint[], array[%s]::uuid[], %s)"
    )
    crowd(postgres, limited.campaign_id, "here", 900, at_work=True)

    def recounted() -> tuple[float, list[int] | None]:
        """Claim; return how many claims at the site were counted again, and who must come again."""
        with watched(postgres) as seen:
            row = postgres.execute(
                claim, [limited.campaign_id, idle.session, idle.draw_lease(), [1]]
            ).fetchone()
        assert row is not None
        again = [access for access in seen.to("limit_claim").accesses if access.index == "ctid"]
        return max((access.rows for access in again), default=0), row["avoided"]

    assert recounted() == (100, [idle.session])
    limited.change(CampaignSpec("/limited", max_running=1, max_running_per_site=3))
    postgres.execute("update taskq.counter set working = 900")
    assert recounted() == (0, None)
    limited.change(CampaignSpec("/limited", max_running_per_site=3))
    limited.cancel()
    limited.resume()
    assert recounted() == (0, None)


def test_task_is_claimed_where_it_is_handed_back(queue: Client, hire: Hire) -> None:
    """In the exchange that makes it wait, which has not counted that yet."""
    agent = hire(servable(queue, "/limited", 1, max_running_per_site=1).path)
    (held,) = agent.claim(1)
    answer = agent.exchange([report_of(held, "released")], 1)
    assert [task.task for task in agent.claimed(answer)] == [held.task]
