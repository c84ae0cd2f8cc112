"""Addresses of PostgreSQL with the parameters of their connections."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.rows import dict_row
from psycopg.types.json import set_json_loads
from psycopg.types.string import BytesBinaryDumper
from typing_extensions import Self

from taskq.db.dsn import DEFAULTS, no_other_host
from taskq.db.environment import all_parameters
from taskq.db.sessions import START_UP
from taskq.db.silence import WatchedAsyncConnection, WatchedConnection
from taskq.db.stored_json import loads
from taskq.db.takeovers import Takeovers
from taskq.db.timeouts import CONNECT_TIMEOUT_S
from taskq.db.translation import EMBEDDED
from taskq.db.upgrades import Installed

#: A connection prepares a statement at its second run: what runs twice runs often.
PREPARE_THRESHOLD: Final = 1

#: psycopg's adapters, which also load JSON that Python cannot read. Bytes go as they are: as text,
#: they take twice the room.
_ADAPTERS: Final = AdaptersMap(psycopg.adapters)
_ADAPTERS.register_dumper(bytes, BytesBinaryDumper)
set_json_loads(loads, _ADAPTERS)


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """Parameters of a connection; `conninfo` may contain a password."""

    conninfo: str
    server: str
    options: dict[str, Any]
    takeovers: Takeovers = field(default_factory=Takeovers)
    installed: Installed = field(default_factory=Installed)

    @classmethod
    def of(cls, dsn: str, server: str) -> Self:
        """Return the address of a DSN; statements are prepared unless `TASKQ_PREPARE` is off.

        libpq's variables add to what the DSN names, except to the embedded server's, and except
        PGHOSTADDR: it would lead away from the host of the DSN.
        """
        unprepared = os.environ.get("TASKQ_PREPARE") == "off"
        parts = psycopg.conninfo.conninfo_to_dict(dsn)
        hosts = 1 + str(parts.get("hostaddr") or parts.get("host")).count(",")
        # libpq's smallest timeout is two seconds.
        patience = {"connect_timeout": max(2, CONNECT_TIMEOUT_S // hosts)}
        embedded = server == EMBEDDED
        usual = all_parameters() if embedded else no_other_host(parts)
        return cls(
            psycopg.conninfo.make_conninfo(**usual | DEFAULTS | patience | parts | START_UP),
            server,
            {
                "autocommit": True,
                "row_factory": dict_row,
                "prepare_threshold": None if unprepared else PREPARE_THRESHOLD,
                "context": _ADAPTERS,
                "alone": embedded,
            },
        )

    def connect(self) -> WatchedConnection:
        """Open a connection."""
        return WatchedConnection.connect(self.conninfo, **self.options)

    async def connect_async(self) -> WatchedAsyncConnection:
        """Open a connection for asyncio."""
        return await WatchedAsyncConnection.connect(self.conninfo, **self.options)
