"""The database's types of what a heartbeat says are those of its declaration."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from taskq_agent.protocol import Heartbeat
from tests.helpers.postgres import Postgres

#: What beat() reads into variables of its own.
ATTEMPTS: Final = {"session", "held", "pending", "drawn", "timeline", "claims"}
#: The gateway, or the agent itself, reads the stamp; no session keeps it.
READ_BEFORE: Final = {"stamp"}
BASES: Final = {"int4": int, "int8": int, "float8": float, "text": str, "bool": bool}
MEMBERS: Final = """
    select a.attname as name, t.typname as type, t.typcategory = 'A' as many,
           coalesce(nullif(t.typbasetype, 0)::regtype::text, '') as base
      from pg_attribute a
      join pg_type t on t.oid = a.atttypid
      join pg_class c on c.oid = a.attrelid
     where c.relnamespace = 'taskq'::regnamespace
       and c.relname = %s
       and a.attnum > 0
"""


def declared(kind: Any) -> Any:
    """Return the members of a message, each with its type without limits; a list for several."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Annotated, Union):
        return declared(arguments[0])
    if origin is tuple:
        return [declared(arguments[0])]
    if is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        return {field.name: declared(hints[field.name]) for field in fields(kind)}
    return kind


def stored(postgres: Postgres, name: str) -> Any:
    """Return the same of a type of the database."""
    if name in BASES:
        return BASES[name]
    rows = postgres.execute(MEMBERS, [name]).fetchall()
    assert rows, f"there is no type {name}"
    found = {}
    for row in rows:
        inner = {"integer": "int4"}.get(row["base"], row["type"].removeprefix("_"))
        found[row["name"]] = [stored(postgres, inner)] if row["many"] else stored(postgres, inner)
    return found


def test_database_keeps_each_member_that_heartbeats_have(postgres: Postgres) -> None:
    """A member that is added to one of the two only would be lost, or could never come."""
    kept = declared(Heartbeat).keys() - ATTEMPTS - READ_BEFORE
    said = {name: kind for name, kind in declared(Heartbeat).items() if name in kept}
    assert stored(postgres, "said") == said
