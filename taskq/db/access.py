"""Access to a queue's named statements, whoever executes them: PostgreSQL itself, or a gateway."""

from __future__ import annotations

import os
from typing import Any, Protocol

from taskq.db.address import Row
from taskq.model.errors import UsageError
from taskq.model.seed import NamedCampaign


def check_process(connected_in: int) -> None:
    """Raise `UsageError` in a forked child of the process that connected.

    They would share sockets, and each would get answers to what the other asks.
    """
    if os.getpid() != connected_in:
        raise UsageError("this queue was connected in another process; connect again in this one")


class Queries(Protocol):
    """Runs the statements of `sql/queries` by name.

    `db.connections.Database` and `Statements` run them on a connection, `remote.GatewayQueries`
    asks a gateway. What works with this alone works over both.
    """

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, so that nothing can be asked any more."""
        ...

    def rows(self, name: str, /, **values: object) -> list[Row]:
        """Return all rows of a statement."""
        ...

    def row(self, name: str, /, **values: object) -> Row | None:
        """Return the first row, None if there is none."""
        ...

    def value(self, name: str, /, **values: object) -> Any:
        """Return the first column of the first row, None if there is none."""
        ...


class Queue(Protocol):
    """What the rooms below the client need of a `taskq.Client`, whose docstring explains it."""

    @property
    def queries(self) -> Queries:
        """Runs statements."""
        ...

    def campaign(self, path: str) -> NamedCampaign:
        """Return the campaign at a path; raise `UnknownCampaign` if there is none."""
        ...
