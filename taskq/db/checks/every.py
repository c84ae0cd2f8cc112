"""All checks of a server, in the order in which they are shown, and their run.

A check reads a row or a few of catalogs and small tables, in a transaction of its own that writes
nothing and waits for nobody for long. What a login may not see is no failure: the check says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from taskq.db.access import Queries
from taskq.db.checks import content, needed, running, tables, upkeep
from taskq.db.checks.findings import FAULT, FINE, UNSEEN, ServerCheck, ServerFinding, State, reads
from taskq.db.connections import Database, Statements
from taskq.db.installed import Schema, read_schema
from taskq.db.rows import Row
from taskq.model.errors import TaskqError

#: Rows, by what has read them: what two checks judge is read once.
_Known: TypeAlias = dict[Callable[[Queries], list[Row]], list[Row]]
#: Seconds for which a check waits for somebody's lock.
LOCK_WAIT_S: Final = 2.0


def _schema(queries: Queries) -> list[Row]:
    (server,) = queries.rows("server")
    return [{"schema": read_schema(queries, server)}]


def _judge_schema(rows: list[Row]) -> Iterator[ServerFinding]:
    schema: Schema = rows[0]["schema"]
    if schema.current:
        yield ServerFinding(
            FINE, f"The schema has version {schema.version}, with this release's parts."
        )
    elif not schema.version:
        yield ServerFinding(FAULT, "The database has no schema of taskq.", "`taskq db migrate`")
    else:
        yield ServerFinding(
            FAULT,
            f"The schema has version {schema.version}; this release needs {schema.needed}, with "
            "its own functions.",
            "`taskq db status` says which release it is for",
        )


CHECKS: Final = (
    ServerCheck("version", reads("server"), needed.version, needs_schema=False),
    ServerCheck("encoding", reads("server"), needed.encoding, needs_schema=False),
    ServerCheck("collation", reads("check_collation"), running.collation, needs_schema=False),
    ServerCheck("settings", running.read_settings, running.settings, needs_schema=False),
    ServerCheck("schema", _schema, _judge_schema, needs_schema=False),
    ServerCheck("tables", tables.read_tables, tables.tables),
    ServerCheck("functions", content.read_content, content.functions),
    ServerCheck("rights", content.read_content, content.rights),
    ServerCheck("places", reads("open_to_all"), upkeep.places, needs_schema=False),
    ServerCheck("sequences", reads("behind_sequences"), content.sequences),
    ServerCheck("indexes", content.read_indexes, content.indexes),
    ServerCheck("sizes", reads("check_sizes"), content.sizes),
    ServerCheck(
        "snapshot", reads("check_activity"), running.snapshot, needs_schema=False, explains="direct"
    ),
    ServerCheck("held", reads("check_held"), running.held, needs_schema=False, explains="direct"),
    ServerCheck(
        "freeze", reads("check_freeze"), running.freeze, needs_schema=False, explains="direct"
    ),
    ServerCheck("log", reads("check_log"), running.log, needs_schema=False),
    ServerCheck("texts", reads("check_log_texts"), running.texts_in_log, needs_schema=False),
    ServerCheck("standbys", reads("check_standbys"), running.standbys, needs_schema=False),
    ServerCheck("cache", reads("check_cache"), running.cache_hits, needs_schema=False),
    ServerCheck("memory", reads("check_memory"), running.memory, needs_schema=False),
    ServerCheck("connections", reads("check_activity"), running.connections, needs_schema=False),
    ServerCheck("disk", reads("disks"), upkeep.disks, explains="anywhere"),
    ServerCheck("keeper", reads("check_keeper"), upkeep.keeper),
    ServerCheck("programs", reads("check_stopped"), upkeep.programs, explains="anywhere"),
    ServerCheck("retention", reads("check_retention"), upkeep.retention),
    ServerCheck("clock", running.read_clock, running.clock, needs_schema=False),
    ServerCheck("agents", reads("check_agent_clocks"), upkeep.agent_clocks),
    ServerCheck("tokens", reads("check_tokens"), upkeep.tokens),
    ServerCheck("certificates", reads("check_certificates"), upkeep.certificates),
    ServerCheck("passwords", reads("check_passwords"), upkeep.passwords),
)


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found. See `ServerFinding`."""

    check: str
    state: State
    text: str
    remedy: str
    figures: dict[str, object]


def checked(database: Database) -> Iterator[Checked]:
    """Yield the findings of all checks; those of the schema's content unless it is another one."""
    schema: State = FINE
    known: _Known = {}
    for check in CHECKS:
        if check.needs_schema and schema == FAULT:
            continue
        for finding in _findings(database, check, known):
            if check.name == "schema":
                schema = finding.state
            yield _checked(check, finding)


def faults_of_server(database: Database) -> list[Checked]:
    """Return the faults of the server itself, before anything is installed there.

    Without those that a migration refuses.
    """
    known: _Known = {}
    return [
        _checked(check, finding)
        for check in CHECKS
        if not check.needs_schema and check.name not in {"version", "encoding", "schema"}
        for finding in _findings(database, check, known)
        if finding.state == FAULT
    ]


def server_faults(queries: Queries) -> list[Checked]:
    """Return the faults that explain why a queue is slow, or will stop."""
    return [
        _checked(check, finding)
        for check in CHECKS
        if check.explains == "anywhere" or (check.explains and isinstance(queries, Statements))
        for finding in check.judge(check.read(queries))
        if finding.state == FAULT
    ]


def _checked(check: ServerCheck, finding: ServerFinding) -> Checked:
    return Checked(check.name, finding.state, finding.text, finding.remedy, dict(finding.figures))


def _findings(database: Database, check: ServerCheck, known: _Known) -> list[ServerFinding]:
    """Return the findings of a check. known: what was read for those before it."""
    try:
        if check.read not in known:
            known[check.read] = database.in_snapshot(check.read, lock_wait_s=LOCK_WAIT_S)
        return list(check.judge(known[check.read]))
    except TaskqError as error:
        return [ServerFinding(UNSEEN, f"This could not be looked at: {error}.")]
