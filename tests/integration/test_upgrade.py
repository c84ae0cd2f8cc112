"""Databases of earlier releases: brought up to date with what is in them."""

from __future__ import annotations

import importlib.resources

import psycopg

from taskq import Client
from taskq.db import migrations
from taskq.db.connections import Database
from tests.helpers.schema import described

#: Functions that returned something else in an earlier release, with their arguments.
OTHER_RESULTS = {
    "counts": "text, integer",
    "keep": "uuid, double precision",
    "servable": "text, double precision, text[], integer",
    "standing": "text",
}


def test_first_schema_is_brought_up_to_date_with_what_it_holds(empty_dsn: str, dsn: str) -> None:
    """Campaigns and sessions get what they would have had by default."""
    first = importlib.resources.files("taskq.sql.migrations").joinpath("0001_base.sql").read_text()
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(first.encode())
        connection.execute("insert into taskq.installation values (true, 1, 'first')")
        for name, arguments in OTHER_RESULTS.items():
            connection.execute(
                f"create function taskq.{name}({arguments}) returns setof bigint"
                " language sql as 'select 1::bigint'"
            )
        connection.execute(
            "insert into taskq.campaign (parent_id, path, lineage) values (1, '/old', '{1,2}')"
        )
        connection.execute("insert into taskq.counter (campaign_id, done) values (2, 7)")
        connection.execute(
            "insert into taskq.session values"
            " (default, gen_random_uuid(), 2, now(), now(), 60, null, false, 1, 1, '', '', '', '')"
        )
    database = Database(empty_dsn).open()
    try:
        before, after = migrations.migrate(database)
        assert (before.version, after.current) == (1, True)
        assert described(empty_dsn) == described(dsn)

        queue = Client(database)
        spec = queue.campaign("/old").spec()
        assert (spec.weight, spec.requires, spec.max_running) == (1.0, (), None)
        assert queue.campaign("/old").status().done == 7
        (agent,) = queue.agents()
        assert (agent.offers, agent.draining, agent.token) == ([], False, None)
    finally:
        database.close()
