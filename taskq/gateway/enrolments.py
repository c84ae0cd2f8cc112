"""Group commit for hellos: those that wait together share a statement, and each has its own answer.

A hello costs the server less than its commit. So thousands of agents that arrive within a second
are let in at the rate at which the server opens sessions, not at that of its disk.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from taskq.db.connections import Database, Row
from taskq.dispatch.futures import resolve
from taskq.dispatch.sessions import session_values
from taskq.errors import BY_SQLSTATE, UsageError
from taskq.gateway.db_pool import MOST_WAITING, StatementPool
from taskq.gateway.errors import Busy
from taskq.gateway.pace import Pace
from taskq.tokens import hashed
from taskq_agent.protocol import Hello

#: Connections of their own, so that however many agents come keep nobody who is known from being
#: served.
CONNECTIONS: Final = 2
#: Hellos in a statement at most; see `sql/functions/enrol_many.sql`.
MOST_HELLOS: Final = 64

_Waiting: TypeAlias = tuple[dict[str, Any], "asyncio.Future[Row]"]


class Enrolments:
    """Opens the sessions of agents.

    clients: returns how many clients may have been turned away.
    """

    def __init__(self, database: Database, lease_s: float, clients: Callable[[], int]) -> None:
        self._statements = StatementPool(database, CONNECTIONS)
        self._lease_s = lease_s
        self._clients = clients
        self._waiting: deque[_Waiting] = deque()
        self._taken = 0
        self._rounds: set[asyncio.Task[None]] = set()
        self._pace = Pace(time.monotonic)

    async def open(self, token: str, session: str, hello: Hello, address: str) -> Row:
        """Open a session, or find the one that this hello has opened.

        token: the site's; session: the session's own. Return `session_id`, `path` and `offers`.
        Raise `Busy` if too many wait already, and the errors of `enrol`.
        """
        if len(self._waiting) >= MOST_WAITING:
            served = self._taken - len(self._waiting)
            raise Busy(self._pace.wait_s(len(self._waiting), served, self._clients()))
        values = session_values(hello, self._lease_s)
        del values["lease_s"]  # that of all
        values["token_hash"] = f"\\x{hashed(token).hex()}"
        values["session_hash"] = f"\\x{hashed(session).hex()}"
        values["address"] = address
        opened: asyncio.Future[Row] = asyncio.get_running_loop().create_future()
        self._waiting.append((values, opened))
        self._taken += 1
        if len(self._rounds) < CONNECTIONS:
            self._rounds.add(asyncio.create_task(self._serve()))
        return await opened

    async def close(self) -> None:
        """Close the connections; nobody may wait any more."""
        await self._statements.close()

    async def _serve(self) -> None:
        """Open sessions until nobody waits."""
        try:
            while self._waiting:
                most = min(MOST_HELLOS, len(self._waiting))
                await self._open([self._waiting.popleft() for _ in range(most)])
        finally:
            # At once: whoever comes next would wait for this round.
            self._rounds = {one for one in self._rounds if one is not asyncio.current_task()}

    async def _open(self, batch: list[_Waiting]) -> None:
        """Open the sessions of a batch in one statement; in halves if one hello spoils it."""
        hellos = [{"place": place, **values} for place, (values, _) in enumerate(batch)]
        try:
            rows = await self._statements.rows(
                "enrol_many", hellos=json.dumps(hellos), lease_s=self._lease_s
            )
        except Exception as error:  # noqa: BLE001  # each is told
            if len(batch) > 1 and isinstance(error, UsageError):
                half = len(batch) // 2
                await self._open(batch[:half])
                await self._open(batch[half:])
                return
            for _, opened in batch:
                resolve(opened, error)
            return
        for row in rows:
            refused = row["refused"]
            outcome = row if refused is None else BY_SQLSTATE[refused](row["reason"])
            resolve(batch[row["place"]][1], outcome)
