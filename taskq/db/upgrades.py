"""Upgrades of the database under gateways and agents that run.

They go on with statements that still work. An error that the upgrade may have caused is raised as
`SchemaNewer`, for which gateways and agents wait; as a fault of the caller it would make agents
leave.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg

from taskq.model.errors import BY_SQLSTATE, SchemaNewer, ServerUnsuitable, UsageError

#: The error of a statement that was prepared before an upgrade changed its result.
PREPARED_BEFORE: Final = psycopg.errors.FeatureNotSupported

#: Errors that say that a call is wrong.
_CALLERS: Final = (UsageError, ServerUnsuitable)


class Installed:
    """What was installed in a database when this process began to use it; None: not known."""

    def __init__(self) -> None:
        self.noted: dict[str, Any] | None = None

    def explains(self, error: psycopg.Error) -> bool:
        """Tell whether an error may come from an upgrade, rather than the state of things."""
        kind = BY_SQLSTATE.get(error.sqlstate or "", ServerUnsuitable)
        lost = isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
        return self.noted is not None and not lost and issubclass(kind, _CALLERS)

    def check(self, found: dict[str, Any] | None, server: str) -> None:
        """Raise `SchemaNewer` if something else is installed now."""
        if self.noted is not None and self.noted != found:
            raise SchemaNewer(
                f"{server} was upgraded while this process used it: start the process anew, with "
                "the release that is installed there"
            )
