"""Tables of a single row that is written all the time: after years they are read as at first."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql

from taskq import Client
from taskq.db.catalogue import statement
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres

#: Tables whose row each round of a keeper, fold or look writes, with a column that it may rise in.
WRITTEN: Final = {
    "keeper": "rounds = rounds + 1",
    "fold": "below = below",
    "summed": "until = until",
    "notify_watch": "look = look + 1",
    "front_refiller": "holder = gen_random_uuid()",
}
SQL: Final = Path(__file__).parents[3] / "sql"
WRITES: Final = 3_000
ASKED: Final = {
    "a stamp": "select taskq.stamp()",
    "a round of a keeper": "select * from taskq.keep(gen_random_uuid(), 0)",
    "a keeper's memory": "select * from taskq.note_set_back(1, 1)",
    "a fold": "select taskq.fold()",
    "counts": "select * from taskq.counts('/', 0)",
    "sums of ends": "select taskq.sum_ends(0.1)",
    "older sums": "select taskq.thin_usage()",
    "a look": "select * from taskq.begin_look()",
}
READ: Final = ("check_keeper", "explain_upkeep", "usage_until")


def test_row_that_is_written_often_is_always_looked_up_by_its_key() -> None:
    """Each statement that names such a table says so."""
    named = re.compile(rf"(?:\b(?:from|update|join)|,) taskq\.(?:{'|'.join(WRITTEN)})\b")
    found = 0
    for folder in ("audit", "functions", "queries"):
        for file in (SQL / folder).rglob("*.sql"):
            text = file.read_text()
            met = len(named.findall(text))
            assert text.count("only_one") >= met, file.name
            found += met
    assert found >= 20


def write_often(postgres: Postgres, dsn: str) -> None:
    """Write the row of each table thousands of times while a snapshot is held; then vacuum."""
    with psycopg.connect(dsn) as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select 1 from taskq.campaign")
        for table, change in WRITTEN.items():
            postgres.execute(
                sql.SQL(
                    "do $$ begin for i in 1..{} loop update taskq.{} set {}; end loop; end $$"
                ).format(sql.Literal(WRITES), sql.Identifier(table), sql.SQL(change))
            )
    for table in WRITTEN:
        postgres.execute(sql.SQL("vacuum taskq.{}").format(sql.Identifier(table)))


def test_row_that_was_written_often_is_found_by_its_key(
    queue: Client, postgres: Postgres, dsn: str
) -> None:
    """A snapshot that was held once leaves such a table large: it is not read as a whole."""
    queue.create_campaign("/demo")
    texts = ASKED | {name: statement(name) for name in READ}
    for text in texts.values():  # plans are kept
        postgres.execute(text)
    write_often(postgres, dsn)
    sizes = postgres.execute(
        "select relname, relpages from pg_class where relname = any (%s)", [[*WRITTEN]]
    )
    assert all(row["relpages"] > 16 for row in sizes), "the test shows nothing"
    met: set[str] = set()
    for name, text in texts.items():
        with watched(postgres) as seen:
            postgres.execute(text)
        for access in seen.to(*WRITTEN).accesses:
            assert access.index is not None, (name, access)
            met.add(access.table)
    assert met == WRITTEN.keys()
