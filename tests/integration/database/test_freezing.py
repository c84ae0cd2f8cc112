"""Tables that only grow are frozen as they fill: no vacuum of all that they hold comes due."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from taskq import Client
from taskq.db import migrations
from taskq.db.connections import Database
from taskq.embedded import Server
from tests.fixtures.servers import make_home, remove_home
from tests.helpers.scripted_agent import ScriptedAgent, report_of
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.thorough

# The least that PostgreSQL takes for a limit that is 200 million by default.
_LIMIT = 100_000
_SETTINGS = f"""\
fsync = off
autovacuum_freeze_max_age = {_LIMIT}
autovacuum_naptime = '1s'
log_autovacuum_min_duration = 0
"""
# Each sub-transaction that writes takes a number, as an exchange does.
_SPEND = """
    do $$
    begin
        for n in 1..4000 loop
            begin
                insert into spent values (n);
                raise exception 'undone';
            exception
                when raise_exception then null;
            end;
        end loop;
    end
    $$
"""
_OLDEST = """
    select max(age(relfrozenxid))
      from pg_class
     where oid in ('taskq.spec'::regclass, 'taskq.attempt'::regclass)
"""


@pytest.fixture
def server() -> Iterator[Server]:
    """Give a server that is up, with autovacuum, and small limits of age."""
    home = make_home()
    (home / "conf" / "user.conf").write_text(_SETTINGS)
    server = Server(home)
    server.up()
    yield server
    remove_home(home)


def test_specs_and_attempts_stay_young_without_an_emergency(server: Server) -> None:
    """While more transactions go by than a table may be old; each vacuum reads what is new."""
    info = server.up()
    database = Database(info.dsn).open()
    migrations.migrate(database)
    campaign = Client(database).create_campaign("/c")
    agent = ScriptedAgent(database)
    spent, tasks = 0, 0
    with psycopg.connect(info.dsn, autocommit=True) as look:
        look.execute("create temp table spent (n integer)")

        def oldest() -> int:
            row = look.execute(_OLDEST).fetchone()
            assert row is not None
            return int(row[0])

        def is_young() -> bool:
            # Before version 15 a connection reports its last inserts only after a later statement.
            agent.heartbeat()
            campaign.status()
            return oldest() < 0.2 * _LIMIT

        while spent <= 1.2 * _LIMIT:
            for _ in range(10):
                look.execute(_SPEND)
                spent += 4_000
            # A twentieth of the table, and a thousand.
            campaign.seed({"n": tasks + n} for n in range(1_500))
            tasks += 1_500
            while claimed := agent.claim(500):
                agent.exchange([report_of(task, "done", by=agent.session) for task in claimed])
            wait_until(is_young, on_timeout=info.log_file.read_text)
    agent.close()
    database.close()
    vacuums = [line for line in info.log_file.read_text().splitlines() if "automatic" in line]
    for table in ("spec", "attempt"):
        own = [line for line in vacuums if f'.taskq.{table}"' in line and "vacuum" in line]
        assert own, table
        assert not [line for line in own if "aggressive" in line or "wraparound" in line]
