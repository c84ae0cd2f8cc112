"""A new time limit also ends attempts that were claimed before it was set."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskq import Campaign, Client
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, statuses, value
from tests.integration.explaining.test_overdue import begun_earlier

pytestmark = pytest.mark.usefixtures("true_counts")


def set_limit(campaign: Campaign, limit_s: float | None) -> None:
    campaign.change(replace(campaign.spec(), time_limit_s=limit_s))


def enforce(postgres: Postgres) -> int:
    return int(value(postgres, "select taskq.enforce_time_limits()"))


def test_new_limit_ends_attempts_that_were_claimed_before(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Agents get the order to stop, and no failure counts, whether claimed together or alone."""
    campaign.seed({"n": n} for n in range(5))
    agent, alone = hire(), hire(host="node2")
    held = [*agent.claim(2), *agent.claim(1)]
    (single,) = alone.claim_singly(1)
    begun_earlier(postgres, 300)
    (young,) = agent.claim(1)
    set_limit(campaign, 600)
    assert enforce(postgres) == 0
    set_limit(campaign, 120)
    assert enforce(postgres) == 4
    assert enforce(postgres) == 0
    assert sorted(statuses(postgres).values()) == ["waiting"] * 4 + ["working"]
    for task in held:
        (tried,) = campaign.attempts(task.key)
        assert (tried.outcome, tried.error_class) == ("released", "time-limit")
        assert campaign.task(task.key).failures == 0
    assert agent.heartbeat([*held, young]) == {attempt.task for attempt in held}
    assert alone.done(single) == "superseded"
    assert agent.done(young) == "accepted"


def test_attempts_within_their_limit_hide_none_that_are_overdue(
    campaign: Campaign, queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """A round looks at 1,000 attempts, of all campaigns whose limit was changed."""
    other = servable(queue, "/long")
    other.seed({"n": n} for n in range(1_100))
    many = hire("/long", slots=1_100)
    assert len([*many.claim(1_000), *many.claim(100)]) == 1_100
    set_limit(other, 86_400)
    begun_earlier(postgres, 600)
    campaign.seed([{"n": 1}])
    assert len(hire().claim(1)) == 1
    begun_earlier(postgres, 300)
    set_limit(campaign, 120)
    assert enforce(postgres) == 1
    assert list(statuses(postgres).values()) == ["waiting"]


def test_look_at_attempts_ends_with_the_last_from_before(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Attempts claimed later know the limit. A lifted limit ends no attempt."""
    campaign.seed({"n": n} for n in range(3))
    agent = hire()
    (old,) = agent.claim(1)
    limited = "select limited_at from taskq.campaign where path = '/c'"
    set_limit(campaign, 600)
    earlier = "update taskq.campaign set limited_at = limited_at - interval '10 min'"
    postgres.execute(earlier)
    begun_earlier(postgres, 900)
    agent.claim(1)
    begun_earlier(postgres, 5)
    assert enforce(postgres) == 1
    assert value(postgres, limited) is not None
    assert enforce(postgres) == 0
    assert value(postgres, limited) is None
    agent.forget_position()
    assert [task.key for task in agent.claim(1)] == [old.key]
    set_limit(campaign, 60)
    set_limit(campaign, None)
    begun_earlier(postgres, 900)
    assert enforce(postgres) == 0
