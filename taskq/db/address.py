"""Addresses of PostgreSQL, parameters for libpq, and translation of psycopg's errors.

psycopg's errors are translated here only. A lost server becomes `Unavailable`, a refused login
`LoginRefused`, each private error code of the server-side functions (`TQ...`) its exception. A
refused value is the caller's mistake and becomes `ValueRefused`, a `UsageError`.

Gateways and agents go on while the database is upgraded, as long as their statements work. An error
that the upgrade may have caused becomes `SchemaNewer`, on which they wait; an error of the caller
would make agents leave.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
import psycopg_pool
from psycopg import sql
from psycopg.adapt import AdaptersMap
from psycopg.rows import dict_row
from psycopg.types.json import set_json_loads
from psycopg.types.string import BytesBinaryDumper
from typing_extensions import Self

from taskq.db.silence import Watched, WatchedAsyncConnection, WatchedConnection
from taskq.db.stored_json import loads
from taskq.model.errors import (
    BY_SQLSTATE,
    Clash,
    KeyConflict,
    LoginRefused,
    SchemaNewer,
    ServerUnsuitable,
    Unavailable,
    UsageError,
    ValueRefused,
    from_server,
)
from taskq_agent.text import is_unicode

_WRITTEN: Final = {"@": "%40", "/": "%2F", "?": "%3F", "#": "%23"}


def check_delimited(url: str, delimiters: str) -> None:
    """Raise `UsageError` if part of a URL's password would be parsed as host or path.

    Messages would then show it. delimiters: characters that end a password too early in this URL's
    parser.
    """
    password = url.partition("://")[2].rpartition("@")[0]
    if set(delimiters) & set(password):
        codes = " ".join(f"{one} as {_WRITTEN[one]}" for one in delimiters)
        raise UsageError(f"not an address: in a user name or a password, write {codes}")


#: Seconds for all hosts of a DSN together, so that dead ones do not exceed POOL_TIMEOUT_S.
CONNECT_TIMEOUT_S: Final = 10
POOL_TIMEOUT_S: Final = 15.0
#: Seconds for each host of a connection that only reads.
READ_TIMEOUT_S: Final = 3
#: A connection prepares a statement at its second run: what runs twice runs often.
PREPARE_THRESHOLD: Final = 1

Row = dict[str, Any]


#: Errors that pass, with advice.
_NOT_NOW: Final[dict[type[psycopg.Error], str]] = {
    psycopg.errors.DiskFull: "free some space",
    psycopg.errors.LockNotAvailable: (
        "another transaction uses what this needs; repeat it, or end that one: pg_stat_activity "
        "and pg_locks show it"
    ),
}


#: psycopg's adapters, which also load JSON that Python cannot read. Bytes go as they are: as text,
#: they take twice the room.
_ADAPTERS: Final = AdaptersMap(psycopg.adapters)
_ADAPTERS.register_dumper(bytes, BytesBinaryDumper)
set_json_loads(loads, _ADAPTERS)

#: Keys whose values the server draws.
_DRAWN_IDS: Final = frozenset(
    f"{table}_pkey"
    for table in ("blob", "campaign", "pilot", "result_index", "session", "spec", "token")
)


#: The name of the embedded server in messages.
EMBEDDED: Final = "the embedded PostgreSQL"


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Translate psycopg's errors to taskq's; `what` is the server's name in messages."""
    try:
        yield
    except psycopg_pool.PoolTimeout as error:
        raise Unavailable(
            f"cannot get a connection to {what} in {POOL_TIMEOUT_S:g} s: "
            f"{_first_line(error)}; is the server running?"
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise _not_allowed(what, error) from error
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise Unavailable(f"{what} takes no writes now: {_first_line(error)}") from error
    except tuple(_NOT_NOW) as error:
        raise Unavailable(f"{what}: {_first_line(error)}; {_NOT_NOW[type(error)]}") from error
    except (
        psycopg.errors.DataError,
        psycopg.errors.IntegrityError,
        psycopg.errors.StatementTooComplex,  # JSON that is nested too deep to be parsed
    ) as error:
        raise _refused_value(what, error) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise _out_of_reach(what, error) from error
    except UnicodeEncodeError as error:
        raise UsageError(f"{what} takes only valid Unicode: {error.object!r:.80}") from error
    except psycopg.Error as error:
        kind = BY_SQLSTATE.get(error.sqlstate or "", ServerUnsuitable)
        if kind is KeyConflict:
            raise _key_conflict(error) from error
        raise from_server(kind, _first_line(error)) from error


def _refused_value(what: str, error: psycopg.Error) -> ValueRefused | Unavailable:
    """Return the caller's error, or the server's if the server drew an id that is taken."""
    text = _first_line(error)
    if error.diag.constraint_name not in _DRAWN_IDS:
        return ValueRefused(f"{what} refuses a value: {text}")
    return Unavailable(
        f"{what} draws ids that are taken, such as in a new copy by logical replication: {text}; "
        "a keeper repairs that within a minute, `taskq recover` at once"
    )


def _not_allowed(what: str, error: psycopg.Error) -> ServerUnsuitable:
    text = _first_line(error)
    # About an object in the schema; creating a database, for example, gives another message.
    ours = text.startswith("permission denied for ")
    hint = "; the schema's owner may, and grants roles with `taskq db grant`" if ours else ""
    return ServerUnsuitable(f"{what} refuses: {text}{hint}")


def _out_of_reach(what: str, error: psycopg.Error) -> LoginRefused | Unavailable:
    text = _first_line(error)
    if error.sqlstate is None and (refused := login_refusal(text)) is not None:
        return LoginRefused(f"{what} refuses the login: {refused}")
    if error.sqlstate is not None and not error.sqlstate.startswith(("08", "57P")):
        return Unavailable(f"{what} cannot do this now: {text}")
    hint = "; `taskq up` starts it" if what == EMBEDDED else ""
    return Unavailable(f"cannot reach {what}: {text}{hint}")


#: The error of a statement that was prepared before an upgrade changed its result.
PREPARED_BEFORE: Final = psycopg.errors.FeatureNotSupported

#: Errors that blame the caller.
_CALLERS: Final = (UsageError, ServerUnsuitable)


class Installed:
    """What was installed when this process began to use a database; None if unknown."""

    def __init__(self) -> None:
        self.noted: dict[str, Any] | None = None

    def explains(self, error: psycopg.Error) -> bool:
        """Return whether an upgrade may have caused an error."""
        kind = BY_SQLSTATE.get(error.sqlstate or "", ServerUnsuitable)
        lost = isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
        return self.noted is not None and not lost and issubclass(kind, _CALLERS)

    def check(self, found: dict[str, Any] | None, server: str) -> None:
        """Raise `SchemaNewer` if something else is installed now."""
        if self.noted is not None and self.noted != found:
            raise SchemaNewer(
                f"{server} was upgraded while this process used it: restart the process, with "
                "the release that is installed there"
            )


@dataclass(slots=True)
class Takeovers:
    """How often the timeline changed: another server than before answered on any connection."""

    count: int = 0
    timeline: int = 0

    def note(self, timeline: int) -> None:
        """Note the timeline that a server has just reported; 0 means unknown."""
        if timeline and timeline != self.timeline:
            self.timeline = timeline
            self.count += 1


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """Parameters of a connection; `conninfo` may contain a password."""

    conninfo: str
    server: str
    options: dict[str, Any]
    takeovers: Takeovers = field(default_factory=Takeovers)
    installed: Installed = field(default_factory=Installed)

    @classmethod
    def of(cls, dsn: str, server: str) -> Self:
        """Return the address of a DSN; statements are prepared unless `TASKQ_PREPARE` is off."""
        unprepared = os.environ.get("TASKQ_PREPARE") == "off"
        parts = psycopg.conninfo.conninfo_to_dict(dsn)
        hosts = 1 + str(parts.get("hostaddr") or parts.get("host")).count(",")
        # libpq's smallest timeout is two seconds.
        patience = {"connect_timeout": max(2, CONNECT_TIMEOUT_S // hosts)}
        return cls(
            psycopg.conninfo.make_conninfo(**_DEFAULTS | patience | parts),
            server,
            {
                "autocommit": True,
                "row_factory": dict_row,
                "prepare_threshold": None if unprepared else PREPARE_THRESHOLD,
                "context": _ADAPTERS,
            },
        )

    def connect(self) -> WatchedConnection:
        """Open a connection."""
        return WatchedConnection.connect(self.conninfo, **self.options)

    async def connect_async(self) -> WatchedAsyncConnection:
        """Open a connection for asyncio."""
        return await WatchedAsyncConnection.connect(self.conninfo, **self.options)


def reading(dsn: str) -> str:
    """Return the DSN for reading: by default it prefers a standby and gives up on a host soon.

    libpq then goes through the hosts twice, and takes the primary if no standby answers.
    """
    usual = {"target_session_attrs": "prefer-standby", "connect_timeout": READ_TIMEOUT_S}
    given = psycopg.conninfo.conninfo_to_dict(dsn)
    missing: dict[str, Any] = {one: usual[one] for one in usual if one not in given}
    return psycopg.conninfo.make_conninfo(dsn, **missing)


#: Seconds between two looks at a server that recovers.
START_POLL_S: Final = 0.5


def is_starting(dsn: str) -> bool:
    """Return whether a host of the DSN has a server that recovers and takes no connections yet.

    This looks at the code of the refusal, which is the same in all languages.
    """
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    several = {
        name: str(parts[name]).split(",") for name in ("host", "hostaddr", "port") if name in parts
    }
    for number in range(max([1, *map(len, several.values())])):
        own = {name: values[number % len(values)] for name, values in several.items()}
        patience: dict[str, Any] = {"connect_timeout": READ_TIMEOUT_S}  # for each host
        one = psycopg.conninfo.make_conninfo(**_DEFAULTS | parts | own | patience)
        if psycopg.pq.PGconn.ping(one.encode()) == psycopg.pq.Ping.REJECT:
            return True
    return False


def await_start(dsn: str, say: Callable[[], None]) -> None:
    """Wait while a server of the DSN recovers, for as long as that takes; see `is_starting`.

    say: called once, before the wait.
    """
    announced = False
    while is_starting(dsn):
        if not announced:
            say()
            announced = True
        time.sleep(START_POLL_S)


def note_backend(connection: Watched, pid: int) -> None:
    """Disable prepared statements if `pid` is not the process that the connection was opened to.

    Then a pooler is in between: the next transaction may run on another server connection, where
    another client may own the name of a prepared statement.
    """
    if pid != connection.info.backend_pid and os.environ.get("TASKQ_PREPARE") != "on":
        connection.prepare_threshold = None


def quoted(name: str | Sequence[str]) -> sql.Composable:
    """Return an identifier, or a list of names in taskq's schema, as SQL."""
    if isinstance(name, str):
        return sql.Identifier(name)
    return sql.SQL(", ").join(sql.Identifier("taskq", one) for one in name)


def display_name(dsn: str) -> str:
    """Return a name for a DSN's server without secrets; raise `UsageError` for a bad DSN."""
    check_delimited(dsn, "@/?")
    if not is_unicode(dsn):
        raise UsageError("not a PostgreSQL address: it has bytes that are not UTF-8")
    if dsn.startswith(("http://", "https://")):
        raise UsageError(
            "not a PostgreSQL address but a gateway's: this needs PostgreSQL's (TASKQ_DSN)"
        )
    try:
        parts = psycopg.conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as error:
        # libpq may quote a part of a password.
        secret = "@" in dsn or "password" in dsn
        reason = re.sub('".*"', "...", _first_line(error)) if secret else _first_line(error)
        raise UsageError(
            f"not a PostgreSQL address: {reason}; write "
            "postgresql://user@host:5432/database or host=... dbname=..."
        ) from None
    hosts = str(parts.get("host") or parts.get("hostaddr") or "the local socket").split(",")
    ports = str(parts.get("port") or "").split(",")
    # One port holds for all hosts. Connecting refuses a wrong number of ports.
    each = itertools.zip_longest(hosts, ports if ports[1:] else ports * len(hosts), fillvalue="")
    places = ",".join(f"{host}:{port}" if port else host for host, port in each)
    return f"the database {parts.get('dbname') or '(default)'} at {places}"


_DEFAULTS: Final[dict[str, Any]] = {
    "application_name": "taskq",
    # Of several hosts, connect to the one that accepts writes.
    "target_session_attrs": "read-write",
    # Detects a vanished peer well within a lease, not after the kernel's two hours.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


def _key_conflict(error: psycopg.Error) -> KeyConflict:
    """Return the conflict in the detail of TQ422, unedited; see `sql/functions/seed_again.sql`."""
    detail = json.loads(error.diag.message_detail or "{}")
    return KeyConflict(
        _first_line(error),
        count=detail.get("conflicts", 0),
        clashes=[
            Clash(one["key"], one["stored"], one["offered"], one["place"])
            for one in detail.get("named", ())
        ],
        too_long=detail.get("too_long", False),
    )


def _first_line(error: BaseException) -> str:
    diagnosis = getattr(getattr(error, "diag", None), "message_primary", None)
    lines = str(diagnosis or error).strip().splitlines()
    return lines[0].removeprefix("connection failed: ") if lines else type(error).__name__


_ROLE: Final = r'role ".*" (?:does not exist|is not permitted to log in)'
_ADVICE: Final = {
    re.compile(rf"authentication failed|no password supplied|no such user|{_ROLE}"): (
        "check the user and the password in the address"
    ),
    re.compile(r"\bpg_hba\.conf\b"): (
        "the server's administrator can let you in, with a line in that file"
    ),
    re.compile(r'database ".*" does not exist|no such database'): (
        "check its name in the address; the server's administrator creates databases"
    ),
    re.compile("permission denied for database"): (
        "its owner can let you in, with `grant connect on database`"
    ),
}


def login_refusal(message: str) -> str | None:
    """Return why a login was refused and what to do; None for other failures.

    message: the first line of libpq's message about the failed connection.
    """
    for pattern, advice in _ADVICE.items():
        if pattern.search(message):
            return f"{message.rpartition('FATAL:')[2].strip()}; {advice}"
    return None
