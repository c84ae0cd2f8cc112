"""What server, database, login and environment set changes no answer of taskq's connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from taskq import CampaignSpec, Client, Handler, RetryPolicy
from taskq.db import migrations, sessions
from taskq.db.catalogue import statement
from taskq.db.connections import Database, Row
from taskq.db.standby import StandbyReads
from taskq.embedded import Server
from taskq.embedded.settings import quoted
from tests.fixtures.servers import make_home, remove_home
from tests.helpers.command_line import CommandLine
from tests.helpers.hostile_settings import ALL, PINNED

pytestmark = pytest.mark.longer

#: With letters of LATIN1, and others. The last one fails.
PAYLOADS = [
    {"n": 0, "name": "größe"},
    {"n": 1, "name": "größer als 日本"},
    {"n": 2, "name": "zu groß: C:\\new\\x00, 'quoted'"},
]
PAYLOAD_CODE = """
def run(payload, shared):
    if payload["n"] == 2:
        raise ValueError(payload["name"])
    return {"name": payload["name"], "number": 0.1 + 0.2}
"""
WAYS = ["variable", "login", "database", "configuration"]


@pytest.fixture(params=WAYS)
def hostile(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give the address of a migrated database where the settings are set in one way."""
    home = make_home()
    try:
        if request.param == "configuration":
            with (home / "conf/user.conf").open("a") as conf:
                conf.writelines(f"{name} = {quoted(its)}\n" for name, its in ALL.items())
        dsn = Server(home).up().dsn
        targets = {"login": "role taskq", "database": "database taskq"}
        if request.param in targets:
            with psycopg.connect(dsn, autocommit=True) as admin:
                for name, its in ALL.items():
                    admin.execute(
                        sql.SQL("alter {} set {} = {}").format(
                            sql.SQL(targets[request.param]),
                            sql.SQL(name),
                            sql.SQL(its) if name == "search_path" else sql.Literal(its),
                        )
                    )
        if request.param == "variable":
            words = (f"-c {name}={its.replace(' ', chr(92) + ' ')}" for name, its in ALL.items())
            monkeypatch.setenv("PGOPTIONS", " ".join(words))
            monkeypatch.setenv("PGCLIENTENCODING", PINNED["client_encoding"])
            monkeypatch.setenv("PGDATESTYLE", PINNED["DateStyle"])
            monkeypatch.setenv("PGTZ", PINNED["TimeZone"])
        with closing(Database(dsn).open()) as database:
            migrations.migrate(database)
        yield dsn
    finally:
        remove_home(home)


def shown(row: Row | None) -> dict[str, str]:
    """Return the settings of a connection that differ from those that all have."""
    assert row is not None
    wanted = {**sessions.START_UP, **sessions.PINNED}
    return {name: its for name, its in row["settings"].items() if its != wanted[name]}


@pytest.mark.thorough
def test_each_kind_of_connection_has_the_same_settings(hostile: str) -> None:
    """Of the pool, of agents, of gateways, and for reading."""
    ask, names = "tests.helpers/settings_shown", list(PINNED)
    with psycopg.connect(hostile) as plain:
        row = plain.execute(statement(ask), {"names": names}).fetchone()
    assert row is not None
    assert shown({"settings": row[0]}).keys() == set(PINNED), "they are hostile otherwise"
    with closing(Database(hostile).open()) as database:
        assert shown(database.row(ask, names=names)) == {}
        line = database.dedicated_connection()
        with line.connected() as statements:
            assert shown(statements.row(ask, names=names)) == {}
        line.close()

        async def ask_there() -> Row:
            line = database.dedicated_async_connection()
            (row,) = await line.rows(ask, names=names)
            await line.close()
            return row

        assert shown(asyncio.run(ask_there())) == {}
        reads = StandbyReads.of(database, hostile).open()
        assert shown(reads.in_snapshot(lambda snapshot: snapshot.row(ask, names=names))) == {}
        reads.close()


def test_all_hostile_values_are_tried() -> None:
    """Each setting of taskq's; one is not known to all releases."""
    known = {*sessions.START_UP, *sessions.PINNED} - {"restrict_nonsystem_relation_kind"}
    assert known == set(PINNED)


@pytest.mark.thorough
def test_seeded_payloads_come_back_unchanged(hostile: str, tmp_path: Path) -> None:
    """By commands, an agent, and the audit; a failure is recorded as it was."""
    (tmp_path / "hostile_payload.py").write_text(PAYLOAD_CODE)
    (tmp_path / "tasks.jsonl").write_text(
        "".join(f"{json.dumps(payload, ensure_ascii=False)}\n" for payload in PAYLOADS), "utf-8"
    )
    taskq = CommandLine(hostile)
    with closing(Database(hostile).open()) as database:
        handler = Handler("python", target="hostile_payload:run")
        retry = RetryPolicy(max_attempts=1)
        Client(database).create_campaign(CampaignSpec("/c", handler=handler, retry=retry))
    taskq.out("seed", "/c", tmp_path / "tasks.jsonl")
    words = ("--campaign", "/c", "--until-empty", "--path", tmp_path, "--quiet")
    with taskq.process("agent", "run", *words) as agent:
        _, said = agent.communicate(timeout=120)
    # A server that cuts idle sessions may meet an agent that a busy machine held up.
    assert agent.returncode == 0, said
    assert [line for line in said.splitlines() if "trying again" not in line] == []
    rows = [json.loads(line) for line in taskq.out("export", "/c").splitlines()]
    assert [row["payload"] for row in rows] == PAYLOADS[:2]
    assert [row["result"] for row in rows] == [
        {"name": payload["name"], "number": 0.1 + 0.2} for payload in PAYLOADS[:2]
    ]
    (failed,) = taskq.json("failures", "/c")
    assert PAYLOADS[2]["name"] in failed.values()
    for words in (("status",), ("explain", "/c"), ("tasks", "/c"), ("ls", "/"), ("audit", "/")):
        taskq.out(*words)
