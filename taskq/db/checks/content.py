"""What the database has in it: functions, rights, sequences, tables, indexes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from taskq.db.access import Queries
from taskq.db.catalogue import ROLES, definition, granted_functions
from taskq.db.checks.findings import ADVICE, FAULT, FINE, ServerFinding
from taskq.db.checks.tables import TABLE, schema_text
from taskq.db.installed import texts
from taskq.db.rows import Row
from taskq.model.words import command, counted
from taskq_agent.units import in_bytes

_NAMED: Final = 3
_BODY: Final = re.compile(r"\$\$(.*)\$\$", re.DOTALL)
_DEFINER: Final = re.compile(r"^security definer$", re.MULTILINE)
_SETTING: Final = re.compile(r"^set (\w+) = (.+)$", re.MULTILINE)
_GRANT: Final = re.compile(r"grant select\s+(?:\(([^)]+)\)\s+)?on ([^{}]+?) to \{login\};")
_INDEX: Final = re.compile(r"^    (CREATE (?:UNIQUE )?INDEX (\w+) .*)$", re.MULTILINE)
_KEY: Final = re.compile(r"^    (constraint (\w+) (?:PRIMARY KEY|UNIQUE) .*)$", re.MULTILINE)
#: Dead rows of a table that are too many: so many, and more than the living ones.
_DEAD: Final = 1_000_000
_REINSTALL: Final = (
    "as the owner of the schema, `update taskq.installation set functions = ''` in psql, then "
    "`taskq db migrate`"
)
#: Gives all functions to the owner of the schema.
_OWN_FUNCTIONS: Final = (
    "do $$ begin execute (select string_agg(format("
    "'alter routine %s owner to %s', p.oid::regprocedure, n.nspowner::regrole), ';') "
    "from pg_proc p join pg_namespace n on n.oid = p.pronamespace "
    "where n.nspname = 'taskq' and p.proowner <> n.nspowner); end $$"
)


@cache
def bodies() -> dict[str, str]:
    """Return the digest of each function, by its name: of its body, as whom and how it runs."""
    return {
        name: _digest(definition(name, text), found[1])
        for name, text in texts("functions")
        if (found := _BODY.search(text))
    }


def _digest(text: str, body: str) -> str:
    before = text.partition("\nas $$\n")[0]
    as_owner = "true" if _DEFINER.search(before) else "false"
    settings = sorted(f"{name}={value}" for name, value in _SETTING.findall(before))
    parts = "|".join((body, as_owner, *settings))
    return hashlib.md5(parts.encode(), usedforsecurity=False).hexdigest()


def read_content(queries: Queries) -> list[Row]:
    """Return the functions that are not as their files have them, and the rights that are wrong.

    The first row has the logins, and those that were dropped.
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in queries.rows("login_roles"):
        alike.setdefault(tuple(row["roles"]), []).append(row["login"])
    files = dict(texts("roles"))
    asked = []
    for granted, logins in alike.items():
        known = [role for role in granted if role in ROLES]
        rights = {right for role in known for right in ROLES[role]} & files.keys()
        columns = sorted({column for right in rights for column in columns_of(right)})
        asked.append({"logins": logins, "functions": granted_functions(known), "columns": columns})
    gone = [row["login"] for row in queries.rows("gone_logins")]
    queries.rows("catalog_plans")
    rows = queries.rows("check_content", texts=json.dumps(bodies()), asked=json.dumps(asked))
    roles_of = {login: roles for roles, logins in alike.items() for login in logins}
    summary = {"subject": "logins", "logins": len(roles_of), "gone": gone}
    return [summary, *({**row, "roles": roles_of.get(row["name"], ())} for row in rows)]


def functions(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge the functions in the server."""
    wrong = [row for row in rows if row["subject"] == "functions"]
    if not wrong:
        yield ServerFinding(
            FINE, f"All {counted(len(bodies()), 'function')} are those of this release."
        )
        return
    names = [f"{row['name']} ({row['state']})" for row in wrong]
    owned = any(row["state"].startswith("of ") for row in wrong)
    yield ServerFinding(
        FAULT,
        f"{counted(len(wrong), 'function')} in the server differ from this release: "
        f"{_some(names)}.",
        f"`{_OWN_FUNCTIONS}` as a superuser" if owned else _REINSTALL,
        {"functions": [row["name"] for row in wrong]},
    )


@cache
def columns_of(right: str) -> tuple[str, ...]:
    """Return what a file of `sql/roles` lets read: `table.column`, or `table.` for all of it."""
    found = []
    for columns, tables in _GRANT.findall(dict(texts("roles"))[right]):
        for table in re.findall(r"taskq\.(\w+)", tables):
            found += [f"{table}.{column}" for column in re.findall(r"\w+", columns) or ("",)]
    return tuple(found)


def rights(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge the rights of logins."""
    summary = rows[0]
    wrong = [row for row in rows if row["subject"] == "rights"]
    if not wrong and not summary["gone"]:
        number = counted(summary["logins"], "login")
        yield ServerFinding(FINE, f"The rights of {number} are those of their roles.")
    if summary["gone"]:
        yield ServerFinding(
            ADVICE,
            f"{counted(len(summary['gone']), 'login')} with roles here have been dropped: after a "
            "restore on another server, these numbers may be those of others.",
            "any `taskq db grant` or `taskq db revoke` forgets them; do one before the next dump",
            {"gone": summary["gone"]},
        )
    by_login: dict[str, list[Row]] = {}
    for row in wrong:
        by_login.setdefault(row["name"], []).append(row)
    for login, its in by_login.items():
        roles = its[0]["roles"]
        whats = [f"{row['state']} {row['what']}" for row in its]
        lacks = any(row["state"] == "lacks" for row in its)
        if roles:
            remedy = f"`{command('db', 'grant', roles[0], names=[login])}` renews all its rights"
        else:
            who = f'"{login}"' if login else "public"
            remedy = f"`revoke all on all tables in schema taskq from {who}`, and so for functions"
        yield ServerFinding(
            FAULT,
            f"{f'The login {login}' if login else 'Each login'} {_some(whats)}"
            f"{', unlike its roles' if roles else ' without a role'}.",
            remedy,
            {"login": login, "lacks": lacks, "rights": whats},
        )


def sequences(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge the sequences that give ids."""
    if not rows:
        yield ServerFinding(FINE, "All sequences are above the ids that are stored.")
        return
    names = [row["name"] for row in rows]
    yield ServerFinding(
        FAULT,
        f"The sequences of {_some(names)} are behind the ids that are stored, as in a copy.",
        "`taskq recover` sets them right; the keeper does so after a takeover too",
        {"tables": names},
    )


def sizes(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge the sizes of tables and indexes."""
    tables, indexes = (sum(row[name] for row in rows) for name in ("bytes", "index_bytes"))
    largest = [f"{row['name']} {in_bytes(row['bytes'] + row['index_bytes'])}" for row in rows]
    figures = {"bytes": tables, "index_bytes": indexes}
    text = f"Tables take {in_bytes(tables)}, their indexes {in_bytes(indexes)}; the largest are "
    text += f"{', '.join(largest[:_NAMED])}."
    dead = [row for row in rows if row["dead"] > max(_DEAD, row["live"])]
    if not dead:
        yield ServerFinding(FINE, text, figures=figures)
    for row in dead:
        yield ServerFinding(
            ADVICE,
            f"{row['dead']:,} rows of {row['name']} are dead, more than the {row['live']:,} living "
            "ones: VACUUM does not keep up, or something holds it back.",
            f"end what holds snapshots, then `vacuum taskq.{row['name']}`",
            {"table": row["name"], "dead": row["dead"], "live": row["live"]},
        )


@cache
def indexes_made() -> dict[str, str]:
    """Return the statement that makes each index again, by its name."""
    made: dict[str, str] = {}
    for part in schema_text().split("\n\n"):
        table = TABLE.match(part)
        if table is not None:
            made |= {name: text for text, name in _INDEX.findall(part)}
            for text, name in _KEY.findall(part):
                made[name] = f"alter table taskq.{table[1]} add {text}"
    return made


def read_indexes(queries: Queries) -> list[Row]:
    """Return the indexes that are missing or invalid."""
    return queries.rows("check_indexes", names=sorted(indexes_made()))


def indexes(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge the indexes."""
    if not rows:
        number = counted(len(indexes_made()), "index").replace("indexs", "indexes")
        yield ServerFinding(FINE, f"All {number} are there and valid.")
    for row in rows:
        name = row["name"]
        if row["state"] == "missing":
            remedy = f"`{indexes_made()[name]}`"
        elif name in indexes_made():
            remedy = f"`reindex index concurrently taskq.{name}`"
        else:
            remedy = f"`drop index concurrently taskq.{name}`: it is not one of taskq's"
        yield ServerFinding(FAULT, f"The index {name} is {row['state']}.", remedy, {"index": name})


def _some(names: Iterable[str]) -> str:
    known = list(names)
    more = len(known) - _NAMED
    return ", ".join(known[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
