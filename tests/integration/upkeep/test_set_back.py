"""A server that lacks committed work: keepers find it, and say so."""

from __future__ import annotations

import logging
from contextlib import closing

import pytest

from taskq import CampaignSpec, Client
from taskq.db.connections import Database
from taskq.model.errors import Unavailable
from taskq.upkeep.keeper import Keeper
from tests.fixtures.replicas import Pair, pair  # noqa: F401  # a fixture, for the tests here
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, value
from tests.helpers.waiting import wait_until

LATER_S = 100.0
GONE = 3


def goes_round(keeper: Keeper) -> bool:
    """Return whether a server was there for one round."""
    try:
        keeper.round()
    except Unavailable:
        return False
    return True


@pytest.mark.thorough
def test_audit_reports_commits_that_a_promoted_standby_lacks(
    pair: Pair,  # noqa: F811  # the fixture
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The keeper that knows of it logs it once, and audits of that time show it."""
    with closing(Database(pair.dsn).open()) as database, closing(Keeper(database)) as keeper:
        queue = Client(database)
        queue.create_campaign(CampaignSpec("/before"))
        keeper.round()
        pair.cut()
        for _ in range(GONE):
            keeper.round()
        pair.kill_primary()
        pair.promote()
        wait_until(lambda: goes_round(keeper), timeout_s=LATER_S)
        keeper.round()
        (said,) = [record.message for record in caplog.records if record.levelno == logging.ERROR]
        assert "of acknowledged work are gone" in said
        queue.create_campaign(CampaignSpec("/after"))
        assert list(queue.audit("/after")) == []
        assert [violation.check for violation in queue.audit("/before")] == ["set_back"]
        (violation,) = queue.audit()
        assert (violation.campaign, violation.check) == ("/", "set_back")
        assert violation.rows["rounds"] == GONE
        assert "s of what was acknowledged until" in violation.text
        assert "set_back" in CommandLine(pair.dsn)("audit").stdout


def test_nothing_is_noted_while_nothing_is_gone(database: Database, postgres: Postgres) -> None:
    """Anyone who acts, and anyone who only looks."""
    with closing(Keeper(database)) as keeper, closing(Keeper(database)) as another:
        for _ in range(2):
            assert keeper.round().acting
            assert not another.round().acting
        postgres.execute("update taskq.keeper set until = '-infinity'")
        assert another.round().acting
        assert not keeper.round().acting
    assert value(postgres, "select rounds from taskq.keeper") == GONE
    assert value(postgres, "select count(*) from taskq.set_back") == 0
