"""Two that change tasks of one span: who comes later finds what the first has left of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from taskq import Campaign
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, assert_counts_are_true, statuses, value
from tests.helpers.scripted_agent import Claimed
from tests.interleavings.meeting import calling, cancelling, claiming, meet


@pytest.fixture
def tasks(campaign: Campaign, postgres: Postgres) -> list[int]:
    """Give the ids of the twenty tasks of a campaign, which wait in one span."""
    campaign.seed({"n": n} for n in range(20))
    query = "select array_agg(task_id order by task_id) from taskq.spec"
    found: list[int] = value(postgres, query)
    postgres.execute("delete from taskq.span")
    postgres.execute("select taskq.pack(%s, 0, p_parts => 1)", [campaign.campaign_id])
    assert value(postgres, "select count(*) from taskq.span") == 1
    return found


def cancelling_some(campaign: Campaign, *tasks: int) -> Callable[[Postgres], int]:
    """Return an act that cancels some tasks, and returns how many that were."""
    query = "select moved from taskq.cancel(%s, %s::bigint[], 0, 1000)"
    return calling(query, campaign.campaign_id, list(tasks))


def retrying(campaign: Campaign, *tasks: int) -> Callable[[Postgres], int]:
    """Return an act that retries cancelled tasks, all if none is named, and returns how many."""
    query = "select moved from taskq.retry(%s, 'cancelled', null, %s::bigint[], 0, 1000)"
    return calling(query, campaign.campaign_id, list(tasks) or None)


def prioritising(campaign: Campaign, task: int) -> Callable[[Postgres], tuple[int, int, int]]:
    """Return an act that gives a task another priority: how many changed, had it, and could not."""
    query = "select changed, unchanged, others from taskq.prioritise(%s, %s::bigint[], '{5}')"
    return calling(query, campaign.campaign_id, [task])


def test_two_cancel_neighbours(
    campaign: Campaign, tasks: list[int], postgres: Postgres, dsn: str
) -> None:
    """Each its own."""
    first = cancelling_some(campaign, tasks[3])
    met = meet(dsn, first, cancelling_some(campaign, tasks[4], tasks[19]))
    assert (met.waited, met.first, met.second) == (True, 1, 2)
    assert Counter(statuses(postgres).values()) == {"cancelled": 3, "waiting": 17}


@pytest.mark.parametrize("some", [False, True], ids=["all", "some"])
def test_retry_meets_a_retry_of_some(
    some: bool, campaign: Campaign, tasks: list[int], postgres: Postgres, dsn: str
) -> None:
    """Of one cancelled span: each task waits again once, and none is left out."""
    campaign.cancel()
    campaign.resume()
    first = retrying(campaign, tasks[3], tasks[7])
    second = retrying(campaign, *(tasks[3:9] if some else ()))
    met = meet(dsn, first, second)
    assert (met.waited, met.first, met.second) == (True, 2, 4 if some else 18)
    assert Counter(statuses(postgres).values())["waiting"] == (6 if some else 20)


def test_claim_passes_over_what_a_retry_has_in_hand(
    campaign: Campaign, tasks: list[int], hire: Hire, dsn: str
) -> None:
    """Nothing of it waits before that commits, or if it never does."""
    campaign.cancel()
    campaign.resume()
    agent = hire()
    met = meet(dsn, retrying(campaign), claiming(agent, 5), undo=True)
    assert (met.waited, met.first, met.second) == (False, 20, [])
    met = meet(dsn, retrying(campaign), claiming(agent, 5))
    assert (met.waited, met.first, met.second) == (False, 20, [])
    agent.forget_position()
    assert [task.task for task in agent.claim(5)] == tasks[:5]


@pytest.mark.usefixtures("tasks")
def test_removal_meets_a_claim(
    campaign: Campaign, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """It waits for it, and what it took is removed with the others."""
    agent = hire()

    def claim(connection: Postgres) -> list[Claimed]:
        claimed = claiming(agent, 5)(connection)
        postgres.execute("select taskq.set_status('/c', 'cancelled')")
        return claimed

    removal = calling("select moved from taskq.remove_tasks(%s, 0, 3)", campaign.campaign_id)
    met = meet(dsn, claim, removal)
    assert (met.waited, len(met.first), met.second) == (True, 5, 3)
    assert Counter(statuses(postgres).values()) == {"working": 2, "waiting": 15}
    assert value(postgres, "select sum(cardinality(b.tasks)) from taskq.bundle b") is None
    assert_counts_are_true(postgres)


def test_two_prioritise_neighbours(campaign: Campaign, tasks: list[int], dsn: str) -> None:
    """Neither is an error because its task does not wait."""
    met = meet(dsn, prioritising(campaign, tasks[3]), prioritising(campaign, tasks[4]))
    assert (met.waited, met.first, met.second) == (True, (1, 0, 0), (1, 0, 0))


def test_cancelling_all_meets_another_priority(
    campaign: Campaign, tasks: list[int], postgres: Postgres, dsn: str
) -> None:
    """Nothing is left behind."""
    first = prioritising(campaign, tasks[3])
    met = meet(dsn, first, cancelling(campaign.campaign_id))
    assert (met.waited, met.second) == (True, 20)
    assert set(statuses(postgres).values()) == {"cancelled"}


@pytest.mark.parametrize("want", [1, 5])
@pytest.mark.parametrize("some", [False, True], ids=["all", "some"])
def test_cancelling_meets_a_claim(
    want: int,
    some: bool,
    campaign: Campaign,
    tasks: list[int],
    hire: Hire,
    postgres: Postgres,
    dsn: str,
) -> None:
    """It is waited for, and what it took is cancelled with the others; its agent learns it."""
    agent = hire()
    if some:
        second, wanted = cancelling_some(campaign, *tasks[: want + 1]), want + 1
    else:
        second, wanted = cancelling(campaign.campaign_id), 20
    met = meet(dsn, claiming(agent, want), second)
    assert (met.waited, len(met.first), met.second) == (True, want, wanted)
    assert Counter(statuses(postgres).values())["cancelled"] == wanted
    assert agent.heartbeat(met.first) == {task.task for task in met.first}


def test_cancelling_what_a_claim_takes_leaves_the_others_waiting(
    campaign: Campaign, tasks: list[int], hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """The span has none of the tasks any more when it can be had."""
    met = meet(dsn, claiming(hire(), 5), cancelling_some(campaign, tasks[0]))
    assert (met.waited, met.second) == (True, 1)
    assert Counter(statuses(postgres).values()) == {"cancelled": 1, "working": 4, "waiting": 15}
