"""The tables: whose they are, what is attached to them, and whether a crash spares them."""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

from taskq.db.access import Queries
from taskq.db.checks.findings import ADVICE, FAULT, FINE, ServerFinding, State
from taskq.db.rows import Row
from taskq.model.words import counted

#: Tables whose content a crash may take.
_UNLOGGED: Final = ("progress", "followed")
#: A table in schema.txt.
TABLE: Final = re.compile(r"^table (\w+)", re.MULTILINE)


class _Wrong(NamedTuple):
    """What is wrong with a table, and its remedy; {0} is the table, {1} the thing."""

    state: State
    text: str
    remedy: str


_TABLES: Final[dict[str, _Wrong]] = {
    "missing": _Wrong(FAULT, "is missing", "restore the whole dump into an empty database"),
    "unlogged": _Wrong(
        FAULT, "is not logged: a crash empties it", "`alter table taskq.{0} set logged`"
    ),
    "hidden": _Wrong(
        FAULT,
        "hides rows from logins (row level security): agents and people miss tasks",
        "`alter table taskq.{0} disable row level security`, "
        "`alter table taskq.{0} no force row level security`",
    ),
    "not vacuumed": _Wrong(
        FAULT,
        "is left out of autovacuum: it grows, and claims get slower and slower",
        "`alter table taskq.{0} reset (autovacuum_enabled)`",
    ),
    "owner": _Wrong(
        FAULT,
        "belongs to {0}, unlike the schema",
        "`do $$ begin execute format('alter table taskq.{0} owner to %s', (select "
        "nspowner::regrole from pg_namespace where nspname = 'taskq')); end $$`, as a superuser",
    ),
    "trigger off": _Wrong(
        FAULT,
        "does not check what it refers to: {0} is switched off",
        "`alter table taskq.{0} enable trigger all`, as a superuser",
    ),
    "trigger": _Wrong(
        ADVICE,
        "has the trigger {0}, which is not taskq's, and may change or refuse rows",
        'unless you need it, `drop trigger "{1}" on taskq.{0}`',
    ),
    "rule": _Wrong(
        ADVICE,
        "has the rule {0}, which is not taskq's, and may change or refuse rows",
        'unless you need it, `drop rule "{1}" on taskq.{0}`',
    ),
}


@cache
def schema_text() -> str:
    """Return the page of all tables."""
    return importlib.resources.files("taskq.sql").joinpath("schema.txt").read_text("utf-8")


@cache
def tables_made() -> tuple[str, ...]:
    """Return the names of all tables."""
    return tuple(TABLE.findall(schema_text()))


def read_tables(queries: Queries) -> list[Row]:
    """Return what is wrong with tables."""
    return queries.rows("check_tables", names=list(tables_made()), unlogged=list(_UNLOGGED))


def tables(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge the tables: whose they are, what is attached to them, if a crash spares them."""
    if not rows:
        number = counted(len(tables_made()), "table")
        yield ServerFinding(FINE, f"All {number} are there, and nothing is attached to them.")
    for row in rows:
        wrong = _TABLES[row["what"]]
        name, thing = row["name"], row["thing"]
        yield ServerFinding(
            wrong.state,
            f"The table {name} {wrong.text.format(thing)}.",
            wrong.remedy.format(name, thing),
            {"table": name, "what": row["what"]},
        )
