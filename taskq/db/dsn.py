"""DSNs: names of their servers without secrets, and what to add for which purpose."""

from __future__ import annotations

import itertools
import re
from typing import Any, Final

import psycopg

from taskq.db.timeouts import READ_TIMEOUT_S
from taskq.db.translation import first_line
from taskq.model.errors import UsageError
from taskq_agent.text import is_unicode

_WRITTEN: Final = {"@": "%40", "/": "%2F", "?": "%3F", "#": "%23"}

DEFAULTS: Final[dict[str, Any]] = {
    "application_name": "taskq",
    # Of several hosts, connect to the one that accepts writes.
    "target_session_attrs": "read-write",
    # Detects a vanished peer well within a lease, not after the kernel's two hours.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


def check_delimited(url: str, delimiters: str) -> None:
    """Raise `UsageError` if part of a URL's password would be parsed as host or path.

    Messages would then show it. delimiters: characters that end a password too early in this URL's
    parser.
    """
    password = url.partition("://")[2].rpartition("@")[0]
    if set(delimiters) & set(password):
        codes = " ".join(f"{char} as {_WRITTEN[char]}" for char in delimiters)
        raise UsageError(f"not an address: in a user name or a password, write {codes}")


def no_other_host(parts: dict[str, Any]) -> dict[str, Any]:
    """Return what keeps PGHOSTADDR from replacing the host of an address."""
    return {"hostaddr": ""} if "host" in parts else {}


def reading(dsn: str) -> str:
    """Return the DSN for reading: by default it prefers a standby and gives up on a host soon.

    libpq then goes through the hosts twice, and takes the primary if no standby answers.
    """
    usual = {"target_session_attrs": "prefer-standby", "connect_timeout": READ_TIMEOUT_S}
    given = psycopg.conninfo.conninfo_to_dict(dsn)
    missing: dict[str, Any] = {name: usual[name] for name in usual if name not in given}
    return psycopg.conninfo.make_conninfo(dsn, **missing)


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
        reason = re.sub('".*"', "...", first_line(error)) if secret else first_line(error)
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
