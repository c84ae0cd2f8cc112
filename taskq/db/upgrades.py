"""Recognition of upgrades of the database under a running process.

Gateways and agents go on while the database is upgraded, as long as their statements work. An error
that the upgrade may have caused becomes `SchemaNewer`, on which they wait; an error of the caller
would make agents leave.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg

from taskq.model.errors import BY_SQLSTATE, SchemaNewer, ServerUnsuitable, UsageError

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
