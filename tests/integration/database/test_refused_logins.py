"""A login that the server refuses: how it is reported, and who tries again."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from taskq.db.connections import Database
from taskq.db.translation import EMBEDDED
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
    ("changed", "reason", "advice"),
    [
        ({"password": "wrong-one"}, "password authentication failed", "user and the password"),
        ({"password": ""}, "no password supplied", "user and the password"),
        ({"user": "nobody-known"}, "password authentication failed", "user and the password"),
        ({"dbname": "typo"}, 'database "typo" does not exist', "administrator creates databases"),
        ({"replication": "true"}, "no pg_hba.conf entry", "administrator can let you in"),
    ],
    ids=["wrong password", "no password", "no such role", "no such database", "not in pg_hba"],
)
def test_refused_login_is_reported_with_a_remedy(
    staff: Staff, changed: dict[str, str], reason: str, advice: str
) -> None:
    """It is not reported as a server that cannot be reached."""
    error = refused(make_conninfo(staff.login("reader").dsn, **changed))
    assert (reason in error, advice in error) == (True, True), error


def test_role_or_database_without_access_is_reported_as_a_refused_login(staff: Staff) -> None:
    """A role without the right to log in, and a database that does not admit the role."""
    reader = staff.login("reader")
    closed = f"closed_{secrets.token_hex(4)}"
    change(staff, "create database {}", closed)
    change(staff, "revoke connect on database {} from public", closed)
    assert "grant connect on database" in refused(make_conninfo(reader.dsn, dbname=closed))
    change(staff, "alter role {} nologin", reader.name)
    assert "is not permitted to log in" in refused(reader.dsn)


class Speaker:
    """A server that refuses each login with one error, in its own language."""

    def __init__(self, code: str, said: str) -> None:
        fields = {"S": "FATAL", "V": "FATAL", "C": code, "M": said}
        body = b"".join(f"{key}{its}".encode() + b"\0" for key, its in fields.items()) + b"\0"
        self._answer = b"E" + (len(body) + 4).to_bytes(4, "big") + body
        self._door = socket.create_server(("127.0.0.1", 0))
        self.dsn = f"postgresql://ada:secret@127.0.0.1:{self._door.getsockname()[1]}/queue"
        self.met = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                self.met += 1
                with client:
                    client.recv(8)  # it asks for TLS
                    client.sendall(b"N")
                    client.recv(4096)
                    client.sendall(self._answer)
                    client.recv(1)

    def close(self) -> None:
        """Listen no more."""
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()


@pytest.fixture
def speaking() -> Iterator[Callable[[str, str], Speaker]]:
    """Return a function that starts a server that refuses with a code and a text."""
    started: list[Speaker] = []

    def start(code: str, said: str) -> Speaker:
        started.append(Speaker(code, said))
        return started[-1]

    yield start
    for speaker in started:
        speaker.close()


@pytest.mark.parametrize(
    ("code", "said", "advice"),
    [
        (
            "28P01",
            "Passwort-Authentifizierung für Benutzer »ada« fehlgeschlagen",
            "the user and the password",
        ),
        ("28000", "kein pg_hba.conf-Eintrag für Host »::1«", "pg_hba.conf"),
        ("28000", "Rolle »ada« existiert nicht", "check the user"),
        ("3D000", "Datenbank »queue« existiert nicht", "check its name"),
        ("42501", "keine Berechtigung für Datenbank »queue«", "grant connect on database"),
        ("08P01", "no such user: ada", "the user and the password"),
    ],
)
def test_refused_login_is_recognised_by_its_code_in_any_language(
    speaking: Callable[[str, str], Speaker], code: str, said: str, advice: str
) -> None:
    """Its code decides."""
    server = speaking(code, said)
    error = refused(server.dsn)
    assert (said in error, advice in error) == (True, True), error


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("57P03", "das Datenbanksystem startet"),
        ("53300", "tut mir leid, schon zu viele Verbindungen"),
        ("57P01", "Verbindung wird abgebrochen: password authentication failed"),
    ],
)
def test_passing_refusal_counts_as_an_outage(
    speaking: Callable[[str, str], Speaker], code: str, said: str
) -> None:
    """The server will let the login in later; it is asked for its code once."""
    server = speaking(code, said)
    for _ in range(3):
        with pytest.raises(Unavailable, match=said) as outage:
            Database(server.dsn).open()
        assert not isinstance(outage.value, LoginRefused)
    assert server.met == 4


@pytest.mark.parametrize("server", [EMBEDDED, "the database"])
def test_server_that_takes_no_writes_is_not_called_stopped(dsn: str, server: str) -> None:
    """Clouds set a database so when its disk is full."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        alter = sql.SQL("alter database {} set default_transaction_read_only = on")
        admin.execute(alter.format(sql.Identifier(admin.info.dbname)))
    with pytest.raises(Unavailable, match=r"takes no writes now: .*read_only on") as refused:
        Database(dsn, server=server).open()
    assert "starts it" not in str(refused.value)


def test_server_that_does_not_listen_is_started_by_up(tmp_path: Path) -> None:
    """And only then."""
    dsn = make_conninfo(host=str(tmp_path), dbname="taskq")
    with pytest.raises(Unavailable, match=r"cannot reach .* `taskq up` starts it$"):
        Database(dsn, server=EMBEDDED).open()


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
