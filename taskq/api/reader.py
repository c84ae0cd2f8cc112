"""Connecting to a queue to read from a standby, whose data may be some seconds old."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from taskq import embedded
from taskq.api.client import Client
from taskq.db.connections import Database
from taskq.db.queue_address import is_gateway, queue_address
from taskq.db.standby import MOST_BEHIND_S, StandbyReads
from taskq.model.errors import UsageError


def connect_to_read(
    read_dsn: str,
    address: str | None = None,
    *,
    most_behind_s: float = MOST_BEHIND_S,
    say: Callable[[str], None] | None = None,
) -> Client:
    """Connect to a queue for reading, from a standby as long as it keeps up.

    read_dsn: address of the standby, or of several servers, of which a standby is preferred.
    address: the primary, as for `connect`. Reads go to it while the standby does not answer or is
    more than `most_behind_s` seconds behind; `Campaign.wait` always reads from it.
    `Client.behind_s` gives the age of the data read. The client changes nothing: calls that would
    raise `UsageError`.

    say: called with the reason whenever reads move from the standby to the primary; by default the
    reason is logged. Raise as `connect` does.
    """
    found = queue_address(address)
    if is_gateway(found):
        raise UsageError("a standby goes with the address of PostgreSQL, not of a gateway")
    if found is None:
        primary = Database(embedded.Server().up().dsn, server="the embedded PostgreSQL")
    else:
        primary = Database(found)
    options: dict[str, Any] = {} if say is None else {"say": say}
    reads = StandbyReads.of(primary, read_dsn, most_behind_s=most_behind_s, **options)
    try:
        return Client(reads.open(), embedded=found is None)
    except BaseException:
        reads.close()
        raise


def anonymous(client: Client) -> Client:
    """Return a client of the same queue whose errors may be shown to anybody."""
    if isinstance(client.queries, StandbyReads):
        return Client(client.queries.anonymous().open())
    return Client(client.database.anonymous())
