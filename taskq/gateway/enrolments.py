"""Arrival and departure of agents: sessions are opened and ended in batches."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from taskq.db.connections import Database, Row
from taskq.db.tokens import hashed
from taskq.dispatch.exchange_request import session_values
from taskq.dispatch.group_commit import GroupCommit
from taskq.gateway.http.errors import Busy
from taskq.gateway.messages import SessionEndMessage
from taskq.gateway.pace import Pace
from taskq.gateway.statement_pool import MOST_WAITING, StatementPool
from taskq.gateway.token_rate import TokenRate
from taskq.model.errors import BY_SQLSTATE
from taskq_agent.protocol import Hello
from taskq_agent.text import clean

#: Hellos of one token that are answered at once, and a second in the long run. A site of 20,000
#: nodes may arrive twice within a minute; but each hello leaves a row.
OPENED_AT_ONCE: Final = 40_000
OPENED_PER_S: Final = 100.0


class Enrolments:
    """Opens the sessions of agents.

    clients: returns how many clients may have been refused.
    """

    def __init__(self, database: Database, lease_s: float, clients: Callable[[], int]) -> None:
        # A connection for arriving agents alone, so that any number of them delays no known agent.
        self._statements = StatementPool(database, 1)
        self._lease_s = lease_s
        self._clients = clients
        self._hellos: GroupCommit[dict[str, Any], Row] = GroupCommit(self._open)
        self._pace = Pace(time.monotonic)
        self._answered = TokenRate(OPENED_AT_ONCE, OPENED_PER_S)

    async def open(self, token: str, session: str, hello: Hello, address: str) -> Row:
        """Open a session, or find the one that this hello has opened.

        token: the site's; session: the session's own. Return `session_id`, `path` and `offers`.
        Raise `Busy` if too many wait already or the token has opened too many lately, and the
        errors of `enrol`.
        """
        if wait_s := self._answered.wait_s(token):
            raise Busy(wait_s)
        waiting = len(self._hellos)
        if waiting >= MOST_WAITING:
            raise Busy(self._pace.wait_s(waiting, self._hellos.served, self._clients()))
        values = session_values(hello, self._lease_s)
        del values["lease_s"]  # one value for all
        values["token_hash"] = f"\\x{hashed(token).hex()}"
        values["session_hash"] = f"\\x{hashed(session).hex()}"
        values["address"] = address
        values["unfit"] = clean(hello.unfit)
        row = await self._hellos.put(values)
        # Only now, so that unknown tokens take no room here.
        self._answered.count(token)
        return row

    async def close(self) -> None:
        """Close the connections; no request may still wait."""
        await self._statements.close()

    async def _open(self, batch: Sequence[dict[str, Any]]) -> list[Row | Exception]:
        hellos = json.dumps([{"place": place, **values} for place, values in enumerate(batch)])
        rows = await self._statements.rows("enrol_many", hellos=hellos, lease_s=self._lease_s)
        rows.sort(key=lambda row: row["place"])
        return [
            row if row["refused"] is None else BY_SQLSTATE[row["refused"]](row["reason"])
            for row in rows
        ]


class Departures:
    """Ends the sessions of leaving agents. It refuses none: each client has one request.

    A batch job that is killed has half a minute, so a leaving agent waits behind no claim.
    """

    def __init__(self, database: Database) -> None:
        # A connection for them alone, so that neither claims nor arrivals delay them.
        self._statements = StatementPool(database, 1)
        self._ends: GroupCommit[tuple[int, SessionEndMessage], None] = GroupCommit(self._end)

    async def end(self, session: int, why: SessionEndMessage) -> None:
        """End a session; its tasks are handed out again."""
        await self._ends.put((session, why))

    async def close(self) -> None:
        """Close the connection; no request may still wait."""
        await self._statements.close()

    async def _end(self, batch: Sequence[tuple[int, SessionEndMessage]]) -> list[Exception | None]:
        await self._statements.rows(
            "end_sessions",
            sessions=[session for session, _ in batch],
            whys=[clean(why.reason) or None for _, why in batch],
            exit_codes=[why.exit_code for _, why in batch],
            attempts=[why.attempts for _, why in batch],
        )
        return [None] * len(batch)
