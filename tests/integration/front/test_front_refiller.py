"""The refiller: lists follow what is asked for, what may be handed out, and in which order."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from taskq import Campaign, Client, Seed
from taskq.front.demand import LEAST
from tests.fixtures.front import POOL_S, Popper, Refill, in_pool
from tests.helpers.campaigns import servable
from tests.helpers.command_line import TIMEOUT_S, CommandLine
from tests.helpers.postgres import Postgres, assert_counts_are_true, statuses, value
from tests.helpers.waiting import BUSY_S, wait_until

TASKS = 400


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign that may be leased from, with tasks."""
    return servable(queue, tasks=TASKS)


def test_campaign_that_is_asked_for_is_stocked_in_order(
    stocked: int, popper: Popper, postgres: Postgres
) -> None:
    """With entries that PostgreSQL has leased before, first seeded first."""
    tasks = popper.pop(stocked, LEAST)
    rows = postgres.execute(
        "select task_id, lease_id::text as lease, attempt from taskq.state"
        " where session_id = 0 and status = 'working' order by task_id limit %s",
        [LEAST],
    ).fetchall()
    assert [(task.task, task.lease, task.attempt) for task in tasks] == [
        (row["task_id"], row["lease"], 1) for row in rows
    ]
    assert_counts_are_true(postgres)


def test_campaign_that_nobody_asks_for_is_left_alone(
    campaign: Campaign, queue: Client, popper: Popper, refill: Refill
) -> None:
    """A front costs nothing where it is not used."""
    other = servable(queue, "/other", tasks=1)
    refill()
    popper.stock(campaign.campaign_id)
    assert popper.length(other.campaign_id) == 0
    assert other.status().waiting == 1


@pytest.mark.thorough
def test_depth_follows_demand(
    campaign: Campaign, popper: Popper, refill: Refill, postgres: Postgres
) -> None:
    """Many are popped: the list becomes long. Nobody pops: the pool empties by itself."""
    campaign.seed({"more": n} for n in range(20_000))
    refill()
    number = campaign.campaign_id

    def popped_and_long() -> bool:
        popper.pop(number, 20)
        return popper.length(number) > 8 * LEAST

    wait_until(popped_and_long)
    wait_until(lambda: popper.length(number) == 0, timeout_s=POOL_S)
    wait_until(lambda: campaign.status().waiting + in_pool(postgres) == campaign.status().total)
    assert_counts_are_true(postgres)


@pytest.mark.thorough
def test_tasks_leased_ahead_that_nobody_takes_wait_again(
    stocked: int, campaign: Campaign, popper: Popper, postgres: Postgres
) -> None:
    """The pool is empty long before its deadline, and no attempt is counted."""
    wait_until(lambda: in_pool(postgres) == 0, timeout_s=POOL_S)
    # On a slow machine leases have been returned as too old, and their entries follow.
    wait_until(lambda: popper.length(stocked) == 0)
    assert campaign.status().waiting == TASKS
    assert value(postgres, "select max(attempt) from taskq.state") == 0
    assert_counts_are_true(postgres)


@pytest.mark.thorough
def test_of_two_refillers_one_acts_and_the_other_takes_over(
    campaign: Campaign, popper: Popper, refill: Refill, postgres: Postgres
) -> None:
    """In the same epoch and with the lists as they are, once the term of the first is over."""
    first = refill()
    popper.stock(campaign.campaign_id)
    holder = value(postgres, "select holder from taskq.front_refiller")
    refill()
    first.close()
    left = popper.length(campaign.campaign_id)
    assert left >= LEAST
    assert len(popper.pop(campaign.campaign_id, left)) == left
    postgres.execute("update taskq.front_refiller set until = clock_timestamp()")
    wait_until(lambda: popper.length(campaign.campaign_id) >= LEAST)
    assert value(postgres, "select holder from taskq.front_refiller") != holder
    assert popper.state.epoch == popper.epoch_there == 1


@pytest.mark.thorough
def test_list_that_another_refiller_has_left_is_taken_care_of(
    campaign: Campaign, popper: Popper, refill: Refill, postgres: Postgres
) -> None:
    """Though nobody asks for it any more, its tasks are given back."""
    first = refill()
    popper.stock(campaign.campaign_id)
    first.close()
    postgres.execute("update taskq.front_refiller set until = clock_timestamp()")
    refill()
    # It may fill the list once more, as long as it takes what it has found for demand.
    wait_until(
        lambda: in_pool(postgres) == popper.length(campaign.campaign_id) == 0, timeout_s=POOL_S
    )


CLOSED: dict[str, Callable[[Campaign], object]] = {
    "paused": Campaign.pause,
    "cancelled": Campaign.cancel,
    "limited": lambda campaign: campaign.change(replace(campaign.spec(), max_running=5)),
    "kept from the front": lambda campaign: campaign.change(replace(campaign.spec(), front=False)),
}


@pytest.mark.parametrize("how", CLOSED)
@pytest.mark.usefixtures("stocked")
def test_campaign_that_is_closed_leaves_the_lists_at_once(
    how: str, campaign: Campaign, popper: Popper, postgres: Postgres
) -> None:
    """Its leases are given back in one statement."""
    leased = [
        row["task_id"]
        for row in postgres.execute("select task_id from taskq.state where session_id = 0")
    ]
    CLOSED[how](campaign)
    wait_until(lambda: in_pool(postgres) == 0)
    wait_until(lambda: popper.length(campaign.campaign_id) == 0)
    transactions = value(
        postgres,
        "select count(distinct xmin::text) from taskq.task where task_id = any (%s)",
        leased,
    )
    assert transactions == 1
    assert set(statuses(postgres).values()) == {"cancelled" if how == "cancelled" else "waiting"}
    assert_counts_are_true(postgres)


def test_campaign_that_is_resumed_is_stocked_again(
    stocked: int, campaign: Campaign, popper: Popper
) -> None:
    """As soon as it is asked for."""
    campaign.pause()
    wait_until(lambda: popper.length(stocked) == 0)
    campaign.resume()
    popper.stock(stocked)


def test_higher_priority_that_arrives_is_at_the_head(
    stocked: int, campaign: Campaign, popper: Popper
) -> None:
    """In order; the others stay behind it."""
    before = popper.length(stocked)
    campaign.seed(Seed({"urgent": n}, priority=7) for n in range(3))
    wait_until(lambda: popper.length(stocked) > before)
    keys = [bytes(task.payload) for task in popper.pop(stocked, 4)]
    assert [b"urgent" in key for key in keys] == [True, True, True, False]
    assert keys[:3] == sorted(keys[:3])


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_keeper_with_a_front_ends_in_good_order(
    dsn: str,
    campaign: Campaign,
    popper: Popper,
    number: signal.Signals,
) -> None:
    """`taskq keeper --redis` fills the lists; a signal ends it soon, and they stay."""
    with CommandLine(dsn).process("keeper", "--quiet", "--redis", popper.server.url) as keeper:
        popper.stock(campaign.campaign_id, TIMEOUT_S)
        begin = time.monotonic()
        keeper.send_signal(number)
        _, log = keeper.communicate(timeout=TIMEOUT_S)
    assert (keeper.returncode, log) == (0, "")
    assert time.monotonic() - begin < BUSY_S
    assert popper.length(campaign.campaign_id) >= LEAST
    assert popper.state.epoch == popper.epoch_there == 1


def test_password_in_a_command_line_is_refused(dsn: str) -> None:
    """Everybody on the machine could read it; the error says what to do, and does not repeat it."""
    code, error = CommandLine(dsn).refused("keeper", "--redis", "redis://:hidden@127.0.0.1/0")
    assert code == 2
    assert "TASKQ_REDIS" in error
    assert "hidden" not in error
