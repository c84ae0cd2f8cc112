"""Claims on a connection that has claimed before: single ones that share a statement, or alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from taskq import Campaign, Client
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, value
from tests.helpers.scripted_agent import ScriptedAgent, report_of

TOGETHER = "select * from taskq.exchange(%s, null, %s::bigint[], %s::uuid[], %s::integer[])"

#: Claims for agents under lease ids, or new ones; returns the row of the statement.
Claim: TypeAlias = Callable[..., dict[str, Any]]


@pytest.fixture
def agents(campaign: Campaign, hire: Hire) -> list[ScriptedAgent]:
    """Give three agents."""
    return [hire(campaign.path) for _ in range(3)]


@pytest.fixture
def claim(agents: list[ScriptedAgent], postgres: Postgres) -> Claim:
    """Give a call that claims one task for each of the agents, by one statement."""

    def claim(leases: list[str] | None = None) -> dict[str, Any]:
        leases = leases or [agent.draw_lease() for agent in agents]
        sessions = [agent.session for agent in agents]
        row = postgres.execute(
            TOGETHER, [agents[0].campaign, sessions, leases, [1] * len(agents)]
        ).fetchone()
        assert row is not None
        return row

    return claim


@pytest.fixture
def warm(campaign: Campaign, claim: Claim) -> list[int]:
    """Have the connection claim once; give the ids of what was seeded."""
    campaign.seed({"n": n} for n in range(640))  # in spans of twenty
    return tasks_of(claim())


def tasks_of(row: dict[str, Any]) -> list[int]:
    """Return the ids of the tasks of an answer, in its order."""
    return [task[1] for task in row["tasks"] or []]


@pytest.fixture(autouse=True)
def _sound(true_counts: None) -> None:
    """Compare the counts with a recount."""


def test_each_agent_gets_the_next_task_under_its_lease(
    agents: list[ScriptedAgent], claim: Claim, warm: list[int], postgres: Postgres
) -> None:
    """First seeded first, in the order of the claims, as first attempts."""
    leases = [agent.draw_lease() for agent in agents]
    row = claim(leases)
    assert tasks_of(row) == [warm[-1] + n for n in (1, 2, 3)]
    assert [task[0] for task in row["tasks"]] == leases
    assert [task[5] for task in row["tasks"]] == [agent.session for agent in agents]
    assert [task[2] for task in row["tasks"]] == [1, 1, 1]
    held = "select lease_id::text from taskq.state where status = 'working' and task_id = %s"
    assert [value(postgres, held, task) for task in tasks_of(row)] == leases


@pytest.mark.usefixtures("warm")
def test_claims_that_are_asked_again_get_the_same_tasks(
    agents: list[ScriptedAgent], claim: Claim, campaign: Campaign
) -> None:
    """Also if only one of them was asked before."""
    leases = [agent.draw_lease() for agent in agents]
    first = claim(leases)
    assert sorted(tasks_of(claim(leases))) == tasks_of(first)
    again = claim([agents[0].draw_lease(), leases[1], agents[2].draw_lease()])
    assert tasks_of(first)[1] in tasks_of(again)
    assert campaign.status().working == 3 + 3 + 2


@pytest.mark.usefixtures("warm")
def test_ended_session_is_refused_alone(agents: list[ScriptedAgent], claim: Claim) -> None:
    """The others get their tasks."""
    agents[1].leave()
    for _ in range(2):  # first what it had, then what nobody has had
        row = claim()
        assert row["refused"] == [agents[1].session]
        assert {task[5] for task in row["tasks"]} == {agents[0].session, agents[2].session}


@pytest.mark.usefixtures("warm")
def test_paused_campaign_gives_nothing(claim: Claim, campaign: Campaign) -> None:
    """As to a single claim."""
    campaign.pause()
    assert tasks_of(claim()) == []


def test_last_tasks_go_to_the_first_claims(claim: Claim, warm: list[int]) -> None:
    """No claim gets more than there is, and none is lost at the end."""
    got = warm + [task for _ in range(215) for task in tasks_of(claim())]
    assert len(got) == len(set(got)) == 640


def test_gap_between_tasks_is_passed_over(
    claim: Claim, warm: list[int], campaign: Campaign, postgres: Postgres
) -> None:
    """Ids need not follow each other."""
    gap = warm[-1] + 2
    postgres.execute(
        "delete from taskq.spec where campaign_id = %s and task_id = %s",
        [campaign.campaign_id, gap],
    )
    # The counts must have the damage, too.
    postgres.execute(
        "insert into taskq.delta (campaign_id, waiting) values (%s, -1)", [campaign.campaign_id]
    )
    assert tasks_of(claim()) == [gap - 1, gap + 1, gap + 2]


@pytest.mark.usefixtures("warm")
def test_task_that_was_handed_back_is_claimed_before_later_ones(
    agents: list[ScriptedAgent], claim: Claim, postgres: Postgres
) -> None:
    """At the latest when the connection gives its position up."""
    row = claim()
    last = row["tasks"][-1]
    agents[2].exchange(
        [{"task": last[1], "lease": last[0], "outcome": "released", "started": False}]
    )
    postgres.execute(f"set taskq.position_{agents[0].campaign} = ''")
    assert tasks_of(claim()) == [last[1], last[1] + 1, last[1] + 2]


def test_task_that_was_handed_back_is_claimed_before_those_behind_a_fresh_position(
    campaign: Campaign, hire: Hire
) -> None:
    """A claim of several has kept the position, which does not know what waits as a row."""
    campaign.seed({"n": n} for n in range(640))
    agent, other = hire(), hire()
    agent.claim(1)
    (back,) = other.claim(1)
    assert len(agent.claim(2)) == 2
    assert other.release(back, started=False) == "accepted"
    assert [task.task for task in agent.claim(1)] == [back.task]


def test_connection_takes_nothing_from_a_span_that_was_cancelled(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Neither from that of its last claim, nor from the first that it finds."""
    campaign.seed({"n": n} for n in range(640))
    agent = hire()
    agent.claim_singly(2)
    postgres.execute("select taskq.cancel(%s, null, 0, 1000)", [campaign.campaign_id])
    assert agent.claim(1) == []
    agent.forget_position()
    assert agent.claim(1) == []


@pytest.mark.parametrize("want", [1, 2])
def test_exchange_may_claim_the_task_that_it_hands_back(
    want: int, campaign: Campaign, hire: Hire
) -> None:
    """Though the connection has just seen that no such task waits."""
    campaign.seed({"n": n} for n in range(640))
    agent = hire()
    tasks = agent.claim_singly(3)
    report = report_of(tasks[1], "released", started=False)
    assert agent.claimed(agent.exchange([report], want))[0].task == tasks[1].task


@pytest.mark.parametrize("want", [1, 3])
def test_only_who_offers_what_is_required_gets_tasks(
    want: int, queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """Alone and next to others, also where the connection has just claimed for one that does."""
    campaign = servable(queue, "/large", requires=["mem>=16"])
    campaign.seed({"n": n} for n in range(640))
    small, fit, other = (hire("/large", offers=[f"mem={size}"]) for size in (8, 16, 32))

    def sessions_of(*agents: ScriptedAgent) -> list[int]:
        asked = [[agent.session for agent in agents], [agent.draw_lease() for agent in agents]]
        values = [campaign.campaign_id, *asked, [want] * len(agents)]
        row = postgres.execute(TOGETHER, values).fetchone()
        assert row is not None
        assert not row["refused"]
        return [task[5] for task in row["tasks"] or []]

    assert sessions_of(fit) == [fit.session] * want
    assert sessions_of(fit) == [fit.session] * want
    assert sessions_of(small) == []
    assert sessions_of(fit, other) == [fit.session] * want + [other.session] * want
    assert sessions_of(small, fit) == [fit.session] * want
    assert sessions_of(fit, small, other) == [fit.session] * want + [other.session] * want
    assert campaign.status().working == 7 * want


@pytest.mark.parametrize(("wants", "got"), [([0], []), ([0, 1], [1]), ([0, 3, 0], [1, 1, 1])])
def test_claim_for_nothing_gets_nothing(
    wants: list[int],
    got: list[int],
    campaign: Campaign,
    agents: list[ScriptedAgent],
    postgres: Postgres,
) -> None:
    """By itself, and among others. got: whose the tasks are."""
    campaign.seed({"n": n} for n in range(9))
    some = agents[: len(wants)]
    claims = [[agent.session for agent in some], [agent.draw_lease() for agent in some], wants]
    row = postgres.execute(TOGETHER, [campaign.campaign_id, *claims]).fetchone()
    assert row is not None
    assert [task[5] for task in row["tasks"] or []] == [agents[n].session for n in got]


def test_no_lease_id_can_be_chosen_that_meets_another_lock(
    campaign: Campaign, agents: list[ScriptedAgent], postgres: Postgres
) -> None:
    """Advisory locks of claims have one key, of the caller's choice; all others have two."""
    held = (
        "select array_agg(distinct objsubid) from pg_locks"
        " where locktype = 'advisory' and pid = pg_backend_pid()"
    )
    others = [
        f"select taskq.seed_begin({campaign.campaign_id})",
        f"select taskq.cancel({campaign.campaign_id}, null, 0, 1)",
        f"select taskq.room_to_run({campaign.campaign_id}, 1, 0)",
        "select taskq.give_campaign('/c', 'ada')",
        "select taskq.set_quota(owner, '{}') from taskq.campaign where path = '/c'",
    ]
    for statement in others:
        with postgres.transaction(force_rollback=True):
            postgres.execute(statement)
            assert value(postgres, held) == [2], statement
    with postgres.transaction():
        claims = [[agents[0].session], [agents[0].draw_lease()], [1]]
        postgres.execute(TOGETHER, [campaign.campaign_id, *claims])
        assert value(postgres, held) == [1]
