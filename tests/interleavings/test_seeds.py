"""Two seed or change a campaign, or follow one of its tasks, at the same moment."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from taskq import Campaign, Seed
from taskq.ingest.key_conflicts import OnConflict
from taskq.model.errors import KeyConflict
from tests.helpers.postgres import Postgres, value
from tests.helpers.scripted_agent import Claimed
from tests.interleavings.meeting import calling, meet

FIRST = """
    select taskq.submit('/c', '[{"key": "a", "payload": {}}, {"key": "b", "payload": {}}]')
"""


@pytest.mark.parametrize(("undo", "added"), [(False, 1), (True, 3)])
def test_seed_that_meets_another_adds_what_that_leaves(
    undo: bool, added: int, campaign: Campaign, dsn: str
) -> None:
    """It waits before it asks which keys are there: none of them makes it fail, or is twice."""
    records = [Seed({}, key) for key in "bca"]
    met = meet(dsn, calling(FIRST), lambda _: campaign.seed(records).added, undo=undo)
    assert (met.waited, met.first, met.second) == (True, 2, added)
    assert campaign.status().waiting == 3


@pytest.mark.parametrize(("undo", "cancelled"), [(False, 2), (True, 0)])
def test_cancellation_waits_for_a_seed_where_nothing_is_unfinished_yet(
    undo: bool, cancelled: int, campaign: Campaign, dsn: str
) -> None:
    """It asks no campaign whose tasks have all ended, but those of which a seed has the lock."""
    met = meet(dsn, calling(FIRST), lambda _: campaign.cancel(), undo=undo)
    assert (met.waited, met.second) == (True, cancelled)
    assert (campaign.status().waiting, campaign.status().cancelled) == (0, cancelled)


def outcome(campaign: Campaign, records: list[Seed], on_conflict: OnConflict) -> tuple[int, int]:
    """Seed; return how many tasks that added, and how many conflicts there were."""
    try:
        count = campaign.seed(records, on_conflict=on_conflict)
    except KeyConflict as error:
        return error.added, error.count
    return count.added, count.conflicts


@pytest.mark.parametrize(
    ("on_conflict", "undo", "expected", "keys"),
    [
        ("fail", False, (0, 1), "a b"),
        ("fail", True, (2, 0), "a c"),
        ("skip", False, (1, 1), "a b c"),
        ("keep-both", False, (2, 1), "a a#2 b c"),
        ("keep-both", True, (2, 0), "a c"),
    ],
)
def test_seed_that_meets_another_payload_of_its_key_sees_what_becomes_of_that(
    on_conflict: OnConflict,
    undo: bool,
    expected: tuple[int, int],
    keys: str,
    campaign: Campaign,
    dsn: str,
) -> None:
    """It waits before it compares: what is stored when it goes on is no longer open."""
    records = [Seed({}, "c"), Seed({"another": 1}, "a")]
    met = meet(dsn, calling(FIRST), lambda _: outcome(campaign, records, on_conflict), undo=undo)
    assert (met.waited, met.second) == (True, expected)
    assert sorted(task.key for task in campaign.tasks()) == keys.split()


def test_two_that_keep_both_number_their_payloads_one_after_the_other(
    campaign: Campaign, dsn: str
) -> None:
    """Neither takes the number of the other, and the same payload gets one."""
    campaign.submit({}, "a")
    first = """
        select taskq.submit('/c', '[{"key": "a", "payload": {"n": 1}},
                                    {"key": "a", "payload": {"n": 2}}]', 'keep-both')
    """
    records = [Seed({"n": n}, "a") for n in (3, 2)]
    met = meet(dsn, calling(first), lambda _: outcome(campaign, records, "keep-both"))
    assert (met.waited, met.first, met.second) == (True, 2, (1, 1))
    found = {task.key: task.payload for task in campaign.tasks()}
    assert found == {"a": {}, "a#2": {"n": 1}, "a#3": {"n": 2}, "a#4": {"n": 3}}


CHANGE = "select taskq.change_campaign('/c', %s)"


def test_of_two_changes_at_once_both_hold(campaign: Campaign, dsn: str) -> None:
    """The second waits, and changes what the first one left."""
    met = meet(dsn, calling(CHANGE, '{"weight": 2}'), calling(CHANGE, '{"max_running": 3}'))
    assert met.waited
    assert (campaign.spec().weight, campaign.spec().max_running) == (2, 3)


def following(task: Claimed) -> Callable[[Postgres], str]:
    """Return an act that asks for the output of a task, and returns its status."""
    return calling("select status::text from taskq.follow(%s, %s)", task.campaign, task.task)


@pytest.mark.parametrize("undo", [False, True])
def test_second_first_call_is_answered_as_the_first(
    undo: bool, held: list[Claimed], postgres: Postgres, dsn: str
) -> None:
    """Whether that commits or not, they follow one task."""
    met = meet(dsn, following(held[0]), following(held[0]), undo=undo)
    assert (met.waited, met.first, met.second) == (True, "working", "working")
    assert value(postgres, "select array_agg(lease_id::text) from taskq.followed") == [
        held[0].lease
    ]
