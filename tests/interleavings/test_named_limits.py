"""Claims of campaigns that share a limit meet at its last unit."""

from __future__ import annotations

import pytest

from taskq import Campaign, Client
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, value
from tests.interleavings.meeting import calling, claiming, meet, reporting

WORKING = "select count(*) from taskq.state where status = 'working'"


@pytest.fixture
def campaigns(queue: Client) -> list[Campaign]:
    """Give two campaigns that share a limit of one start."""
    queue.limits.set("licence", 1)
    return [servable(queue, path, 5, named_limits=("licence",)) for path in ("/a", "/b")]


@pytest.mark.usefixtures("campaigns")
@pytest.mark.parametrize("undo", [False, True])
def test_last_unit_goes_to_one_of_two_campaigns(
    undo: bool, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """The second waits, and gets it only if the first was undone."""
    met = meet(dsn, claiming(hire("/a")), claiming(hire("/b")), undo=undo)
    assert met.waited
    assert (len(met.first), len(met.second)) == (1, int(undo))
    assert value(postgres, WORKING) == 1


@pytest.mark.usefixtures("campaigns")
def test_unit_that_a_report_frees_is_not_given_away_before_that_commits(
    hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """What ends is seen late, never early."""
    (task,) = hire("/a").claim(1)
    assert meet(dsn, reporting(task), claiming(hire("/b")), undo=True).second == []
    assert value(postgres, WORKING) == 1


@pytest.mark.usefixtures("campaigns")
def test_keeper_passes_a_limit_by_in_which_somebody_claims(hire: Hire, dsn: str) -> None:
    """It waits for no claim, and no claim for what else it does in its round."""
    free = calling("select taskq.free_limits()")
    met = meet(dsn, claiming(hire("/a")), free)
    assert not met.waited


def test_change_that_names_a_limit_meets_its_removal(
    campaigns: list[Campaign], queue: Client, postgres: Postgres, dsn: str
) -> None:
    """Neither is a victim of the other: one comes after the other, in whichever order."""
    queue.limits.set("other", 1)
    change = calling(
        "select taskq.change_campaign('/a', %s)", '{"named_limits": ["licence", "other"]}'
    )
    assert meet(dsn, change, calling("select taskq.remove_limit('licence')")).waited
    names = "select array_agg(distinct n) from taskq.campaign, unnest(named_limits) as n"
    assert value(postgres, names) == ["other"]
    back = calling("select taskq.change_campaign('/b', %s)", '{"named_limits": ["other"]}')
    assert meet(dsn, calling("select taskq.remove_limit('other')"), back, undo=True).waited
    assert campaigns[1].spec().named_limits == ("other",)
