"""Access to a queue's named statements, at PostgreSQL or at a gateway."""

from __future__ import annotations

import os
from typing import Any, Protocol

from taskq.db.address import Row
from taskq.model.errors import UsageError
from taskq.model.seed import NamedCampaign


def check_process(connected_in: int) -> None:
    """Raise `UsageError` in a forked child of the process that connected.

    They would share sockets, and each would get answers to the other's statements.
    """
    if os.getpid() != connected_in:
        raise UsageError("this queue was connected in another process; connect again in this one")


class Queries(Protocol):
    """Runs the statements of `sql/queries` by name.

    `connections.Database` and `statements.Statements` run them on a connection,
    `gateway_queries.GatewayQueries` asks a gateway. Code that needs only this works over both.
    """

    @property
    def is_closed(self) -> bool:
        """Whether it was closed; a closed one answers nothing."""
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
    """The part of `taskq.Client` that the rooms below it need; see there."""

    @property
    def queries(self) -> Queries:
        """The statements of the queue."""
        ...

    def campaign(self, path: str) -> NamedCampaign:
        """Return the campaign at a path; raise `UnknownCampaign` if there is none."""
        ...
