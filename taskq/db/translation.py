"""Translation of psycopg's errors to those of the library.

It happens here only. A lost server becomes `Unavailable`, a refused login `LoginRefused`, each
private error code of the server-side functions (`TQ...`) its exception. A refused value is the
caller's mistake and becomes `ValueRefused`, a `UsageError`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
import psycopg_pool

from taskq.db import logins, time_limits
from taskq.db.timeouts import POOL_TIMEOUT_S
from taskq.model.errors import (
    BROKEN,
    BY_SQLSTATE,
    Clash,
    KeyConflict,
    LoginRefused,
    ServerUnsuitable,
    TaskqError,
    Unavailable,
    UsageError,
    ValueRefused,
    from_server,
)

#: What helps a server whose disk is full.
FULL: Final = "make room on its disk, such as by `taskq campaign rm` of what has ended"
#: Errors that pass, with advice.
_NOT_NOW: Final[dict[type[psycopg.Error], str]] = {
    psycopg.errors.DiskFull: FULL,
    psycopg.errors.LockNotAvailable: (
        "another transaction uses what this needs; repeat it, or end that one: pg_stat_activity "
        "and pg_locks show it"
    ),
}

#: Keys whose values the server draws.
_DRAWN_IDS: Final = frozenset(
    f"{table}_pkey"
    for table in ("blob", "campaign", "pilot", "result_index", "session", "spec", "token")
)

#: The code with which a gateway says so; see `taskq.gateway.errors`.
TOO_LONG: Final = "too_long"

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
            f"{first_line(error)}; is the server running?"
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise _not_allowed(what, error) from error
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise Unavailable(f"{what} takes no writes now: {first_line(error)}") from error
    except tuple(_NOT_NOW) as error:
        raise Unavailable(f"{what}: {first_line(error)}; {_NOT_NOW[type(error)]}") from error
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
        raise _of_server(what, error) from error


def waited_for_lock(error: Unavailable) -> bool:
    """Return whether a statement waited too long, at PostgreSQL or at a gateway.

    A gateway does not say whether it waited for a lock.
    """
    cause = error.__cause__
    return (
        isinstance(cause, psycopg.errors.LockNotAvailable) or getattr(cause, "code", "") == TOO_LONG
    )


def _of_server(what: str, error: psycopg.Error) -> TaskqError:
    if (limit := time_limits.met(error.sqlstate, what, first_line(error))) is not None:
        return limit
    kind = BY_SQLSTATE.get(error.sqlstate or "", ServerUnsuitable)
    if kind is KeyConflict:
        return _key_conflict(error)
    return from_server(kind, first_line(error))


def _refused_value(what: str, error: psycopg.Error) -> ValueRefused | Unavailable:
    """Return the caller's error, or the server's if the server drew an id that is taken."""
    text = first_line(error)
    if error.diag.constraint_name not in _DRAWN_IDS:
        return ValueRefused(f"{what} refuses a value: {text}")
    return Unavailable(
        f"{what} draws ids that are taken, such as in a new copy by logical replication: {text}; "
        "a keeper repairs that within a minute, `taskq recover` at once"
    )


def _not_allowed(what: str, error: psycopg.Error) -> ServerUnsuitable:
    text = first_line(error)
    # About an object in the schema; creating a database, for example, is refused elsewhere.
    ours = (error.diag.source_function or "").startswith("aclcheck_error")
    hint = "; the schema's owner may, and grants roles with `taskq db grant`" if ours else ""
    return ServerUnsuitable(f"{what} refuses: {text}{hint}")


def _out_of_reach(what: str, error: psycopg.Error) -> LoginRefused | Unavailable:
    text = first_line(error)
    if (limit := time_limits.met(error.sqlstate, what, text)) is not None:
        return limit
    if (remedy := logins.advice(error, text)) is not None:
        said = text.rpartition("FATAL:")[2].strip()
        return LoginRefused(f"{what} refuses the login: {said}; {remedy}")
    code = error.sqlstate or getattr(error, "refusal", None)
    if code == logins.READ_ONLY:
        return Unavailable(
            f"{what} takes no writes now: {text}; it is a standby, or has "
            "default_transaction_read_only on"
        )
    if code == psycopg.errors.DiskFull.sqlstate:
        return Unavailable(f"{what} cannot do this now: {text}; {FULL}")
    if code is not None and not code.startswith(("08", "57P")):
        is_broken = what == EMBEDDED and code.startswith(BROKEN)
        hint = "; `taskq up` starts it anew" if is_broken else ""
        return Unavailable(f"{what} cannot do this now: {text}{hint}")
    hint = "; `taskq up` starts it" if what == EMBEDDED and code is None else ""
    return Unavailable(f"cannot reach {what}: {text}{hint}")


def _key_conflict(error: psycopg.Error) -> KeyConflict:
    """Return the conflict in the detail of TQ422, unedited; see `seed_again.sql`."""
    detail = json.loads(error.diag.message_detail or "{}")
    return KeyConflict(
        first_line(error),
        count=detail.get("conflicts", 0),
        clashes=[
            Clash(clash["key"], clash["stored"], clash["offered"], clash["place"])
            for clash in detail.get("named", ())
        ],
        too_long=detail.get("too_long", False),
    )


def first_line(error: BaseException) -> str:
    """Return the first line of an error, in the server's words if it has some."""
    diagnosis = getattr(getattr(error, "diag", None), "message_primary", None)
    lines = str(diagnosis or error).strip().splitlines()
    return lines[0].removeprefix("connection failed: ") if lines else type(error).__name__
