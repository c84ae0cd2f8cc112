"""Looks at what is wrong by those that keep the queue next to other work."""

from __future__ import annotations

import logging
import threading
from contextlib import closing

import pytest

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.upkeep.keeper import Keeper
from taskq.upkeep.looking import Looking, keeping_and_looking
from tests.fixtures.logins import Staff
from tests.helpers.postgres import Postgres
from tests.helpers.waiting import wait_until


@pytest.fixture
def waiting(campaign: Campaign, postgres: Postgres) -> Campaign:
    """Give a campaign whose task nobody can claim, at which nobody has looked."""
    campaign.seed([{"n": 1}])
    postgres.execute("update taskq.notify_watch set due_at = now(), wide_at = now()")
    return campaign


@pytest.mark.usefixtures("waiting")
def test_trouble_has_an_id_where_nobody_but_a_gateway_or_an_agent_keeps(
    queue: Client, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it can be acknowledged, and has a since when."""
    monkeypatch.setattr("taskq.upkeep.looking.FIRST_S", 0.05)
    monkeypatch.setattr("taskq.upkeep.looking.PERIOD_S", 0.05)
    with keeping_and_looking(database):
        wait_until(lambda: queue.troubles.list().looked_at)
    (trouble,) = queue.troubles.list().troubles
    assert trouble.trouble_id is not None
    queue.troubles.acknowledge(trouble.trouble_id)
    assert queue.troubles.list().open == []


@pytest.mark.usefixtures("waiting")
def test_only_the_keeper_that_acts_looks(database: Database) -> None:
    """Of thousands of agents that could, one does."""
    with closing(Keeper(database)) as acting, closing(Keeper(database)) as other:
        assert not Looking(database, acting).look(), "it has done no round"
        assert acting.round().acting
        assert not other.round().acting
        assert not Looking(database, other).look()
        assert Looking(database, acting).look()
        assert not Looking(database, acting).look(), "it is not yet time"


@pytest.mark.thorough
def test_login_without_the_right_to_look_ends_the_looks_without_a_warning(
    staff: Staff, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as that of an agent, or of a gateway; the upkeep goes on."""
    caplog.set_level(logging.INFO, "taskq.upkeep")
    login = staff.login("agent")
    with closing(Database(login.dsn).open()) as database, closing(Keeper(database)) as keeper:
        assert keeper.round().acting
        Looking(database, keeper).run(threading.Event(), first_s=0)
        assert keeper.round().acting
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert record.getMessage().startswith("nobody looks here at what is wrong: ")
