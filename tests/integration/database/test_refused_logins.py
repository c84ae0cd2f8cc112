"""A login that the server refuses: told as what it is, and waited for by what runs already."""

from __future__ import annotations

import secrets
import threading
from contextlib import suppress

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from taskq.db.address import login_refusal
from taskq.db.connections import Database
from taskq.dispatch.direct import DirectTransport
from taskq.model.errors import LoginRefused, Unavailable
from taskq.upkeep.keeper import Keeper
from taskq_agent.errors import TransportFailed
from taskq_agent.protocol import Heartbeat, Hello
from tests.fixtures.logins import SECRET, Login, Staff
from tests.helpers.command_line import CommandLine

pytestmark = pytest.mark.thorough


def change(staff: Staff, statement: str, name: str) -> None:
    """Run a statement about a role or a database as the server's administrator."""
    with psycopg.connect(staff.owner.database.dsn, autocommit=True) as admin:
        admin.execute(sql.SQL(statement).format(sql.Identifier(name)))


def refused(dsn: str) -> str:
    """Return what the command line says, in one line and with exit code 77, of an address."""
    code, error = CommandLine(dsn).refused("ls")
    assert code == 77, error
    assert "refuses the login" in error
    assert SECRET not in error
    assert "cannot reach" not in error
    return error


@pytest.mark.parametrize(
    ("changed", "told", "advice"),
    [
        ({"password": "wrong-one"}, "password authentication failed", "user and the password"),
        ({"password": ""}, "no password supplied", "user and the password"),
        ({"user": "nobody-known"}, "password authentication failed", "user and the password"),
        ({"dbname": "typo"}, 'database "typo" does not exist', "administrator creates databases"),
        ({"replication": "true"}, "no pg_hba.conf entry", "administrator can let you in"),
    ],
    ids=["wrong password", "no password", "no such role", "no such database", "not in pg_hba"],
)
def test_refused_login_is_told_with_what_to_do(
    staff: Staff, changed: dict[str, str], told: str, advice: str
) -> None:
    """It is not said that the server cannot be reached."""
    error = refused(make_conninfo(staff.login("reader").dsn, **changed))
    assert (told in error, advice in error) == (True, True), error


def test_role_or_database_that_is_closed_is_told(staff: Staff) -> None:
    """A role that may not log in, and a database into which it is not let."""
    reader = staff.login("reader")
    closed = f"closed_{secrets.token_hex(4)}"
    change(staff, "create database {}", closed)
    change(staff, "revoke connect on database {} from public", closed)
    assert "grant connect on database" in refused(make_conninfo(reader.dsn, dbname=closed))
    change(staff, "alter role {} nologin", reader.name)
    assert "is not permitted to log in" in refused(reader.dsn)


@pytest.mark.parametrize(
    "said",
    [
        "the database system is starting up",
        "sorry, too many clients already",
        "terminating connection due to administrator command",
    ],
)
def test_what_passes_is_no_refused_login(said: str) -> None:
    """A server that will let one in later counts as an outage."""
    assert login_refusal(f'connection to server at "db", port 5432 failed: FATAL:  {said}') is None


def test_refused_login_is_an_outage_for_what_runs(staff: Staff) -> None:
    """Agents, and keepers, wait until a password that is being changed is right again."""
    staff.owner.create_campaign(f"/{secrets.token_hex(6)}")
    agent = staff.login("agent")
    database = Database(agent.dsn).open()
    transport, keeper = DirectTransport(database), Keeper(database)
    session = transport.open(Hello("0" * 32, "/", "a", "h", 1, "", 1, "0")).session
    transport.heartbeat(Heartbeat(session))
    keeper.round()

    change(staff, "alter role {} password 'another'", agent.name)
    cut(staff, agent)
    with pytest.raises(TransportFailed):
        transport.heartbeat(Heartbeat(session))  # its connection was cut
    with pytest.raises(TransportFailed, match="refuses the login"):
        transport.heartbeat(Heartbeat(session))
    with pytest.raises(Unavailable):
        keeper.round()
    with pytest.raises(LoginRefused):
        keeper.round()

    change(staff, f"alter role {{}} password '{SECRET}'", agent.name)
    transport.heartbeat(Heartbeat(session))
    keeper.round()
    with suppress(TransportFailed):  # the connection of exchanges was cut as well
        transport.close(session)
    stop = threading.Event()
    stop.set()
    keeper.run(stop)  # which closes its connection
    database.close()


def cut(staff: Staff, login: Login) -> None:
    """End all connections of a login."""
    with psycopg.connect(staff.owner.database.dsn, autocommit=True) as admin:
        admin.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = %s",
            [login.name],
        )
