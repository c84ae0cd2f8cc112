"""Description of an installed schema as text, one line for each object or property.

`python -m tests.helpers.schema > sql/schema.txt` updates the snapshot.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import psycopg

from taskq.db import migrations
from taskq.db.connections import Database
from taskq.embedded import Server
from tests.fixtures.servers import make_home, remove_home

HEAD = "# Written by `make schema` from migrations and functions; a test compares it with them.\n"

_TYPES = """
    select t.typname, string_agg(e.enumlabel, ', ' order by e.enumsortorder)
      from pg_type t join pg_enum e on e.enumtypid = t.oid
     where t.typnamespace = 'taskq'::regnamespace
     group by t.typname order by t.typname
"""

_TABLES = """
    select c.oid, c.relname, coalesce(array_to_string(c.reloptions, ', '), ''),
           obj_description(c.oid, 'pg_class')
      from pg_class c
     where c.relnamespace = 'taskq'::regnamespace and c.relkind in ('r', 'p')
     order by c.relname
"""

_COLUMNS = """
    select concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod),
                     case when l.collname <> 'default' then 'collate ' || l.collname end,
                     case when a.attnotnull then 'not null' end,
                     case when a.attidentity = 'a' then 'generated always as identity' end,
                     'default ' || pg_get_expr(d.adbin, d.adrelid),
                     '-- ' || col_description(a.attrelid, a.attnum))
      from pg_attribute a
      left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
      left join pg_collation l on l.oid = a.attcollation
     where a.attrelid = %s and a.attnum > 0 and not a.attisdropped
     order by a.attnum
"""

# Newer servers list NOT NULL as constraints too; those stand with the columns.
_CONSTRAINTS = """
    select 'constraint ' || conname || ' ' || pg_get_constraintdef(oid)
      from pg_constraint
     where conrelid = %s and contype <> 'n'
     order by conname
"""

_INDEXES = """
    select pg_get_indexdef(i.indexrelid)
      from pg_index i join pg_class c on c.oid = i.indexrelid
     where i.indrelid = %s
       and not exists (select from pg_constraint k
                        where k.conindid = i.indexrelid and k.conrelid = i.indrelid)
     order by c.relname
"""

_FUNCTIONS = """
    select p.proname || '(' || pg_get_function_arguments(p.oid) || ')',
           pg_get_function_result(p.oid),
           concat_ws(', ', l.lanname,
                     case p.provolatile when 'i' then 'immutable' when 's' then 'stable' end,
                     case when p.prosecdef then 'security definer' end,
                     case when has_function_privilege('public', p.oid, 'execute')
                          then 'everybody may call it' end),
           p.proconfig
      from pg_proc p join pg_language l on l.oid = p.prolang
     where p.pronamespace = 'taskq'::regnamespace
     order by 1
"""


def described(dsn: str) -> str:
    """Return the description of the schema `taskq` of a database."""
    with psycopg.connect(dsn) as connection:
        connection.execute("set search_path = pg_catalog")  # so that all names are qualified
        return HEAD + "".join(f"{line}\n" for line in _lines(connection))


def _lines(connection: psycopg.Connection) -> Iterator[str]:
    for name, labels in connection.execute(_TYPES):
        yield f"\ntype {name}: {labels}"
    for oid, name, options, comment in connection.execute(_TABLES):
        yield f"\ntable {name}{options and f' with ({options})'}"
        yield f"    -- {comment}"
        for query in (_COLUMNS, _CONSTRAINTS, _INDEXES):
            for (line,) in connection.execute(query, [oid]):
                yield f"    {line}"
    for signature, result, traits, settings in connection.execute(_FUNCTIONS):
        yield f"\nfunction {signature}"
        yield f"    returns {result}"
        yield f"    {traits}"
        for setting in settings or ():
            yield f"    set {setting}"


def main() -> None:
    """Describe what this release installs, on a server that is started for it."""
    home = make_home()
    try:
        database = Database(Server(home).up().dsn).open()
        migrations.migrate(database)
        database.close()
        sys.stdout.write(described(database.dsn))
    finally:
        remove_home(home)


if __name__ == "__main__":
    main()
