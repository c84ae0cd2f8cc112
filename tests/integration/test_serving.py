"""Since when a server serves: time in which nobody could be heard counts against nobody."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from taskq import Campaign, CampaignSpec, Client, Handler
from taskq.database import Database
from taskq.keeper import Keeper
from tests.backstage import Backstage, expire, silence, statuses, value
from tests.fixtures.queues import Hire
from tests.support import wait_until

_POOL_AGE = "select extract(epoch from clock_timestamp() - min(claimed_at)) from taskq.task"


@pytest.fixture
def keeper(database: Database) -> Iterator[Keeper]:
    """Give a keeper."""
    keeper = Keeper(database)
    yield keeper
    stopped = threading.Event()
    stopped.set()
    keeper.run(stopped)


def pretend_promotion(backstage: Backstage) -> None:
    """Let the server look as if it had been a standby until this moment."""
    backstage.execute("update taskq.serving set timeline = timeline - 1, since = '-infinity'")


def test_silence_before_a_promotion_costs_no_lease(
    keeper: Keeper, campaign: Campaign, hire: Hire, backstage: Backstage
) -> None:
    """The standby was started long before; what counts is when it took over."""
    campaign.seed([{"n": 1}])
    agent = hire()
    agent.claim(1)
    silence(backstage, agent.session)
    pretend_promotion(backstage)
    assert expire(backstage) == 0, "no keeper has looked yet"
    assert keeper.round().lost == 0
    assert keeper.round().lost == 0, "the lease begins with the promotion"
    backstage.execute("update taskq.serving set since = since - interval '2 s'")
    assert keeper.round().lost == 1
    assert set(statuses(backstage).values()) == {"waiting"}


def test_what_was_leased_ahead_survives_a_promotion(
    keeper: Keeper, queue: Client, backstage: Backstage
) -> None:
    """Nobody could name it meanwhile, so its deadline begins anew."""
    campaign = queue.create_campaign(CampaignSpec("/c", handler=Handler("command", argv=("true",))))
    campaign.seed([{"n": 1}])
    epoch = value(backstage, "select epoch from taskq.begin_front(1)")
    lease_ahead = "select cardinality(entries) from taskq.lease_ahead(%s, %s, 1)"
    assert value(backstage, lease_ahead, epoch, campaign.campaign_id) == 1
    wait_until(lambda: value(backstage, _POOL_AGE) > 1)
    pretend_promotion(backstage)
    keeper.round()
    assert set(statuses(backstage).values()) == {"working"}
    backstage.execute("update taskq.serving set since = since - interval '2 s'")
    keeper.round()
    assert set(statuses(backstage).values()) == {"waiting"}


def test_promotion_is_noted_once(keeper: Keeper, backstage: Backstage) -> None:
    """A keeper that acts writes nothing of it as long as nothing happens."""
    pretend_promotion(backstage)
    keeper.round()
    noted = value(backstage, "select since from taskq.serving")
    assert value(backstage, "select taskq.serving_since()") == noted
    keeper.round()
    assert value(backstage, "select since from taskq.serving") == noted
