"""Settings that all connections of taskq have, whatever server, login and environment say.

taskq sets what could change the meaning of its statements or of their answers. All else is left to
the server: limits of time and memory, durability, storage, plans, language, logs. What of it harms
a queue is in `left_settings`.

The encoding is part of the start-up packet. The first statement of a connection, which it needs
anyway, sets the rest. A pooler that shares connections between clients carries only some settings
from one to the next; it is not safe to set others there. So a connection through a pooler is
refused if its server has another value for one of these.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from taskq.db.silence import Watched
from taskq.model.errors import ServerUnsuitable

#: In the start-up packet, which outdoes what the login and the database set.
START_UP: Final = {"client_encoding": "UTF8"}

#: Settings by name; a server that does not know one has nothing to set.
PINNED: Final = {
    # How times and texts are written and read. Poolers carry these.
    "DateStyle": "ISO, MDY",
    "TimeZone": "UTC",
    "standard_conforming_strings": "on",
    # What a transaction sees; see demand_read_committed.sql.
    "default_transaction_isolation": "read committed",
    # Which function or operator an expression names.
    "search_path": "pg_catalog, pg_temp",
    # How many digits a number has, what NULL is in an array, what `= null` means.
    "extra_float_digits": "1",
    "array_nulls": "on",
    "transform_null_equals": "off",
    # Whether a function may take the first of several rows.
    "plpgsql.extra_errors": "none",
    # Whether an error that a function handles ends the session, and whether views can be read.
    "exit_on_error": "off",
    "restrict_nonsystem_relation_kind": "",
    # Whether foreign keys hold.
    "session_replication_role": "origin",
}
#: What PgBouncer gives each client on whatever connection; it gets to know it as the server does.
_CARRIED: Final = ("DateStyle", "TimeZone", "standard_conforming_strings")
#: Through a pooler, harmless unless it puts other schemas before PostgreSQL's own.
_PATH: Final = "search_path"

_SETTINGS: Final = {
    "settings": json.dumps(PINNED),
    "carried": "{" + ",".join(_CARRIED) + "}",
}


def wanted(connection: Watched) -> dict[str, Any]:
    """Return the parameters of a statement that begins a connection, and checks it later."""
    return _SETTINGS | {"pid": connection.info.backend_pid}


def begin(connection: Watched, row: Mapping[str, Any], server: str) -> None:
    """Note what such a statement found: whether a pooler is in between, and what it keeps.

    Disable prepared statements behind a pooler: the next transaction may run on another server
    connection, where another client may own the name of a prepared statement.

    Raise `ServerUnsuitable` if the server has a setting that taskq cannot change.
    """
    if row["pid"] != connection.info.backend_pid and os.environ.get("TASKQ_PREPARE") != "on":
        connection.prepare_threshold = None
    unlike = row["unlike"]
    wrong = [name for name in unlike if name != _PATH or _puts_others_first(unlike[name])]
    if not wrong:
        return
    name = wrong[0]
    value = PINNED[name] if name == _PATH else f"'{PINNED[name]}'"
    connection.pgconn.finish()
    raise ServerUnsuitable(
        f"{server} has {name} = {row['unlike'][name]!r}, and through a pooler taskq cannot set it: "
        f"run `alter role {row['login']} in database {row['database']} set {name} = "
        f"{value}` there, then `reconnect` in the pooler's console"
    )


def _puts_others_first(search_path: str) -> bool:
    """Return whether schemas come before PostgreSQL's own, which is first where it is not named.

    Their functions, operators and types of the same names would be taken instead.
    """
    names = [name.strip().strip('"') for name in search_path.split(",")]
    return "pg_catalog" in names[1:]
