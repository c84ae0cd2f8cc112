"""Connecting to a queue, at PostgreSQL, over a gateway, or to read from a standby."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from taskq import embedded
from taskq.api.client import Client
from taskq.db import migrations
from taskq.db.connections import Database
from taskq.db.gateway_queries import open_gateway
from taskq.db.queue_address import is_gateway, queue_address
from taskq.db.standby import MOST_BEHIND_S, StandbyReads
from taskq.db.translation import EMBEDDED
from taskq.model.errors import SchemaMissing, UsageError


def connect(
    address: str | None = None,
    *,
    token_file: str | Path | None = None,
    ca: str | Path | None = None,
) -> Client:
    """Connect to a queue.

    Args:
        address: That of PostgreSQL, or `https://...` of a gateway, or of several, joined by
            commas. By default `TASKQ_DSN` or `TASKQ_URL`. Without these it is the embedded server
            of this user, which is started if it does not run and set up if it is new. It is never
            upgraded, since agents of the release before may be at work. Within a task an address is
            required.
        token_file: The file with the manager's token for a gateway; by default `TASKQ_TOKEN_FILE`
            names it, or `TASKQ_TOKEN` is the token.
        ca: File with the authorities to trust instead of the system's; by default the one that
            `TASKQ_CA` names.

    Raises:
        Unavailable: The server does not answer.
        LoginRefused: The server refuses the login.
        SchemaError: The schema is not this release's: run `taskq db migrate`.
        Unauthorized: A gateway does not know the token.
        UsageError: There is no address within a task.
    """
    found = queue_address(address)
    if found is not None and is_gateway(found):
        return Client(open_gateway(found, token_file=token_file, ca=ca))
    if found is not None:
        database = Database(found).open()
    elif "TASKQ_TASK" in os.environ:
        raise UsageError(
            "connect() needs an address within a task: agents hide the address of their queue, and "
            "their token, from the code that they run. Return what to compute next, and submit it "
            "where the results are read; or give connect() an address, and a token in a file that "
            "the task can read"
        )
    else:
        info = embedded.Server().up()
        database = Database(info.dsn, server=EMBEDDED).open()
    try:
        try:
            migrations.require(database)
        except SchemaMissing:
            if found is not None:
                raise
            migrations.migrate(database)
    except BaseException:
        database.close()
        raise
    return Client(database, embedded=found is None)


def connect_to_read(
    read_dsn: str,
    address: str | None = None,
    *,
    most_behind_s: float = MOST_BEHIND_S,
    say: Callable[[str], None] | None = None,
) -> Client:
    """Connect to a queue for reading, from a standby as long as it keeps up.

    Reads go to the primary while the standby does not answer or is too far behind; `Campaign.wait`
    always reads from the primary. `Client.behind_s` gives the age of the data read. The client
    changes nothing. Errors are those of `connect`.

    Args:
        read_dsn: Address of the standby, or of several servers, of which a standby is preferred.
        address: The primary, as for `connect`.
        most_behind_s: Seconds that the standby may be behind.
        say: Called with the reason whenever reads move from the standby to the primary; by default
            the reason is logged.

    Raises:
        UsageError: The address is a gateway's; later, a call would change something.
    """
    found = queue_address(address)
    if is_gateway(found):
        raise UsageError("a standby needs the address of PostgreSQL, not that of a gateway")
    if found is None:
        primary = Database(embedded.Server().up().dsn, server=EMBEDDED)
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
