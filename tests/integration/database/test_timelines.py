"""Timelines on servers that do not tell them, and where their numbers begin anew.

What a provider or `pg_upgrade` does is played by functions in the place of PostgreSQL's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from taskq import Campaign, Client
from taskq.db import migrations
from taskq.db.connections import Database
from taskq.model.errors import Unavailable
from taskq.upkeep.keeper import Keeper
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, expire, silence, statuses, value
from tests.helpers.scripted_agent import ScriptedAgent

#: What a server raises instead of its position in the log: as Amazon's Aurora, and as one that
#: refuses it to all but its provider.
RAISED = {
    "55000": "wal_level must be set to logical",
    "42501": "permission denied for function pg_current_wal_lsn",
    "0A000": "not supported here",
}


def stand_in(postgres: Postgres, name: str, parameters: str, result: str, body: str) -> None:
    """Put a function in the place of one of PostgreSQL's, for what this database plans from now on.

    PostgreSQL calls its own by number, whatever their rows say: so the name goes to another.
    """
    types = parameters.rpartition(" ")[2]
    mine = "select prosrc like 'begin %%' from pg_proc where proname = %s"
    postgres.execute("set allow_system_table_mods = on")
    if not value(postgres, mine, name):
        postgres.execute(f"alter function {name}({types}) rename to own_{name}".encode())
    postgres.execute(
        f"create or replace function pg_catalog.{name}({parameters}) returns {result}"
        f" language plpgsql as 'begin {body}; end'".encode()
    )


def stop_telling(postgres: Postgres, sqlstate: str) -> None:
    """Let the server raise where it is asked for its position in the log."""
    raised = f"raise exception using message = $${RAISED[sqlstate]}$$, errcode = $${sqlstate}$$"
    stand_in(postgres, "pg_current_wal_lsn", "", "pg_lsn", raised)


def tell(postgres: Postgres, timeline: int) -> None:
    """Let the server tell this timeline."""
    file = f"return $${timeline:08X}0000000100000001$$"
    stand_in(postgres, "pg_current_wal_lsn", "", "pg_lsn", "return $$0/0$$::pg_lsn")
    stand_in(postgres, "pg_walfile_name", "lsn pg_lsn", "text", file)


@pytest.fixture
def bare(empty_dsn: str) -> Iterator[Postgres]:
    """Give a connection to a database without the schema."""
    with psycopg.connect(
        empty_dsn, autocommit=True, row_factory=psycopg.rows.dict_row
    ) as connection:
        yield connection


@pytest.fixture
def keeper(database: Database) -> Iterator[Keeper]:
    """Give a keeper."""
    with kept(database) as keeper:
        yield keeper


@contextmanager
def kept(database: Database) -> Iterator[Keeper]:
    keeper = Keeper(database)
    yield keeper
    stopped = threading.Event()
    stopped.set()
    keeper.run(stopped)


@pytest.mark.thorough
@pytest.mark.parametrize("sqlstate", RAISED)
def test_server_with_an_unknown_timeline_serves(
    bare: Postgres, empty_dsn: str, sqlstate: str
) -> None:
    """It is migrated and works; agents learn that the timeline is not known; leases expire."""
    stop_telling(bare, sqlstate)
    database = Database(empty_dsn).open()
    try:
        migrations.migrate(database)
        assert value(bare, "select taskq.timeline()") == 0
        campaign = Client(database).create_campaign("/c")
        campaign.seed({"n": n} for n in range(3))
        agent = ScriptedAgent(database)
        held, _ = agent.claim(2)
        assert agent.heartbeat([held], timeline=0) == set()
        assert sorted(statuses(bare).values()) == ["waiting", "waiting", "working"]
        assert agent.done(held) == "accepted"
        agent.claim(1)
        silence(bare, agent.session)
        with kept(database) as keeper:
            assert keeper.round().lost == 1
        assert value(bare, "select timeline from taskq.serving") == 0
        line = database.dedicated_connection()
        with line.connected() as statements:
            assert statements.rows("installation")
        assert line.timeline == 0
        line.close()
        agent.close()
    finally:
        database.close()


def test_standby_is_not_taken_for_a_server_with_an_unknown_timeline(
    database: Database, postgres: Postgres
) -> None:
    """In recovery the same error says that another server takes the writes."""
    stop_telling(postgres, "55000")
    stand_in(postgres, "pg_is_in_recovery", "", "boolean", "return true")
    line = database.dedicated_connection()
    with pytest.raises(Unavailable), line.connected():
        pytest.fail("it was taken for a primary")
    line.close()


def test_server_whose_timeline_becomes_unknown_keeps_the_last_number(
    keeper: Keeper, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Otherwise no heartbeat could hand a task back any more."""
    tell(postgres, here := 5)
    keeper.round()
    stop_telling(postgres, "42501")
    keeper.round()
    assert value(postgres, "select taskq.timeline()") == here
    campaign.seed([{"n": 1}])
    agent = hire()
    agent.claim(1)
    agent.heartbeat([], timeline=here)
    assert set(statuses(postgres).values()) == {"waiting"}


@pytest.mark.parametrize("noted", [False, True])
def test_agents_that_live_through_an_upgrade_are_not_ignored(
    keeper: Keeper, campaign: Campaign, hire: Hire, postgres: Postgres, *, noted: bool
) -> None:
    """`pg_upgrade` begins at timeline 1: for agents the number rises, before a keeper looks too."""
    tell(postgres, 5)
    keeper.round()
    campaign.seed([{"n": 1}, {"n": 2}])
    agent = hire()
    task, _ = agent.claim(2)
    before = value(postgres, "select taskq.timeline()")
    tell(postgres, 1)
    if noted:
        keeper.round()
    after = value(postgres, "select taskq.timeline()")
    assert after > before == 5
    agent.heartbeat([task], timeline=before)
    assert set(statuses(postgres).values()) == {"working"}, "it has not heard of this server yet"
    agent.heartbeat([task], timeline=after)
    assert sorted(statuses(postgres).values()) == ["waiting", "working"]
    keeper.round()
    assert value(postgres, "select taskq.timeline()") == after
    tell(postgres, 2)
    assert value(postgres, "select taskq.timeline()") == after + 1


def test_downtime_of_an_upgrade_costs_no_lease(
    keeper: Keeper, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Silence counts from the moment at which the keeper sees that the numbers began anew."""
    tell(postgres, 5)
    keeper.round()
    campaign.seed([{"n": 1}])
    agent = hire()
    agent.claim(1)
    silence(postgres, agent.session)
    tell(postgres, 1)
    assert expire(postgres) == 0
    assert keeper.round().lost == 0
