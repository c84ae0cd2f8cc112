"""Statements under a manager's token: PostgreSQL looks its rights up with each, nothing is cached.

Gateways run what managers send, and pages what viewers confirm, through here alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from taskq.db.access import Queries
from taskq.db.catalogue import wakes
from taskq.db.connections import Database, Statements
from taskq.db.headers import Offer
from taskq.db.rows import Row
from taskq.gateway.errors import StatementTooLong
from taskq.gateway.manager_statements import about, checked, offered
from taskq.model.errors import LoginForbidden, ServerUnsuitable, Unavailable, UsageError

_TAKES_TOO_LONG: Final = frozenset({"57014", "55P03"})  # cancelled by a time limit
_NO_RIGHT: Final = "42501"


@dataclass(frozen=True, slots=True)
class Permitted:
    """A statement that a token permits, in the transaction in which it is to run.

    name: which statement it is for this token. within: whether it is for all campaigns concerned;
    if not, it has no rows. by: the name of the token.
    """

    statements: Statements
    name: str
    within: bool
    by: str


@contextmanager
def permitted(
    database: Database, token_hash: bytes, name: str, values: dict[str, object]
) -> Iterator[Permitted]:
    """Yield a statement, once its token and its values are checked; commit what the block does.

    Raise `NotOverGateway` if it is not offered, `Unauthorized` or `Forbidden` if the token does not
    allow it, `StatementTooLong` if it exceeds its time limit, and what the statement raises.
    """
    how = offered(name)
    checked(name, values)
    paths, campaigns = about(name, values)
    try:
        with database.transaction() as statements:
            found = permit(statements, token_hash, how, paths=paths, campaigns=campaigns)
            lesser = how.instead is not None and found["kind"] == "manager"
            chosen = how.instead or name if lesser else name
            yield Permitted(statements, chosen, found["within"], found["name"])
    except (ServerUnsuitable, Unavailable) as error:
        raise _for_manager(error, name, how) from error


def permit(
    statements: Statements,
    token_hash: bytes,
    how: Offer,
    *,
    paths: Sequence[str] = (),
    campaigns: Sequence[int] = (),
) -> Row:
    """Check a token for the rest of the transaction; raise `Forbidden` or `Unauthorized`."""
    return statements.rows(
        "permit",
        hash=token_hash,
        kind=how.kind,
        paths=list(paths),
        campaigns=list(campaigns),
        quiet=how.quiet,
        timeout_s=how.timeout_s,
    )[0]


class PermittedQueries(Queries):
    """Runs named statements under a token, as a gateway runs them for its holder. Thread-safe.

    by: the name of the token, once a statement has run.
    """

    def __init__(self, database: Database, token_hash: bytes) -> None:
        self._database = database
        self._token_hash = token_hash
        self.by = ""

    @property
    def is_closed(self) -> bool:
        """Whether the connections were closed."""
        return self._database.is_closed

    def rows(self, name: str, /, **values: object) -> list[Row]:
        """Return all rows of a statement; raise what `permitted` does."""
        with permitted(self._database, self._token_hash, name, values) as allowed:
            self.by = allowed.by
            rows = allowed.statements.rows(allowed.name, **values)
            rows = rows if allowed.within else []
        if wakes(name):
            self._database.announce_tasks()
        return rows


def _for_manager(error: ServerUnsuitable | Unavailable, name: str, how: Offer) -> Exception:
    """Translate the error of a statement for a manager."""
    state = getattr(error.__cause__, "sqlstate", None)
    if state in _TAKES_TOO_LONG:
        return StatementTooLong(
            f"{name} took longer than {how.timeout_s:g} s; {how.hint}, or connect to PostgreSQL"
        )
    if state == _NO_RIGHT:
        return LoginForbidden(
            "this gateway's login may not do that for managers; the owner of the schema lets it, "
            "by `taskq db grant manager LOGIN`"
        )
    if isinstance(error, ServerUnsuitable):
        return UsageError(f"{name} does not take such values")
    return error
