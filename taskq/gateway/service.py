"""The gateway's service to agents, without HTTP: one implementation of each call."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from taskq.db.connections import Database
from taskq.db.tokens import session_token
from taskq.dispatch.fair_share import Scope
from taskq.dispatch.heartbeats import BATCH_S, HeartbeatBatcher, campaign_bans
from taskq.gateway import messages, metrics
from taskq.gateway.auth import AgentSession, TokenCache
from taskq.gateway.end_waits import EndWaits
from taskq.gateway.enrolments import Departures, Enrolments
from taskq.gateway.errors import Draining, failure
from taskq.gateway.exchanges import AgentExchanges
from taskq.gateway.http.errors import Busy, ErrorAnswer, retry_after_s
from taskq.gateway.http.kept_bytes import ClientBytes
from taskq.gateway.large_bodies import LargeBodies
from taskq.gateway.settings import Settings
from taskq.gateway.statement_pool import StatementPool
from taskq.gateway.stored_metrics import MetricReader
from taskq.model.errors import Forbidden, Unauthorized
from taskq_agent.errors import SessionLost
from taskq_agent.protocol import HeartbeatAnswer, Hello, Welcome

log: Final = logging.getLogger("taskq.gateway")

#: Heartbeats that may wait for a statement; further ones are refused.
MOST_BEATS: Final = 8_192
#: Connections for all but opening sessions and exchanges.
OTHER_CONNECTIONS: Final = 3


class Service:
    """Serves agents from a database; for one asyncio loop.

    connections: returns the number of connected clients; retries are spread over them.
    """

    def __init__(
        self, database: Database, settings: Settings, connections: Callable[[], int]
    ) -> None:
        self.settings = settings
        self._database = database
        self.metrics = metrics.Metrics()
        self.statements = StatementPool(database, OTHER_CONNECTIONS, connections)
        self._stored = MetricReader(self.statements)
        self._enrolments = Enrolments(database, settings.lease_s, connections)
        self._departures = Departures(database)
        self.identities = TokenCache(self.statements, self.takeovers)
        #: Seconds that the database's clock is ahead of this process's.
        self.clock_ahead_s = 0.0
        self.bytes = ClientBytes()
        self.large_bodies = LargeBodies()
        self._connections = connections
        # Well within a lease: an agent sends four heartbeats in it, and waits for each answer.
        self.ends = EndWaits(self.statements, self.metrics)
        self._heartbeats = HeartbeatBatcher(database, min(BATCH_S, settings.lease_s / 8))
        self.exchanges = AgentExchanges(
            database,
            settings,
            self.metrics,
            check=partial(self.identities.identify, anew=True),
            untaken=self.bytes.untaken,
            statements=self.statements,
            heartbeats=self._heartbeats,
            connections=connections,
            ends=self.ends,
        )

    async def start(self) -> None:
        """Start the background tasks of the front, if there is one."""
        await self.exchanges.start()

    async def close(self) -> None:
        """Finish all requests that were accepted, then close the connections."""
        await self.exchanges.close()
        await self.ends.close()
        await self._heartbeats.close()
        await self._enrolments.close()
        await self._departures.close()
        await self.statements.close()

    @property
    def draining(self) -> bool:
        """Whether no more tasks are handed out."""
        return self.exchanges.draining

    def drain(self) -> None:
        """Hand out no more tasks, end all waits, and send agents to other gateways."""
        self.exchanges.drain()
        self.ends.drain()

    def takeovers(self) -> int:
        """Return how often another server of the database has answered."""
        return self._database.takeovers

    def failed(self, error: Exception) -> ErrorAnswer:
        """Return the answer for an error; count the error, and log it if it is a defect.

        If a retry may help and no queue says when there is room, the answer says how long to wait.
        """
        known = failure(error)
        self.metrics.failures[known.code] += 1
        if known.code == "defect":
            log.error("a request failed", exc_info=error)
        elif known.code == "upgraded" and self.metrics.failures[known.code] == 1:
            log.error("%s", error)
        if known.retry and not known.after_s:
            known = replace(known, after_s=retry_after_s(self._connections()))
        return known

    async def open(self, token: str, hello: Hello, address: str) -> Welcome:
        """Open a session with a site's token, or find the one that this hello has opened."""
        if self.draining:
            raise Draining
        session = session_token(token, hello.key)
        takeovers, lease_s = self.takeovers(), self.settings.lease_s
        row = await self._enrolments.open(token, session, hello, address)
        self.metrics.opened += 1
        if self.takeovers() == takeovers:  # else a standby that has taken over may not know it
            scope = Scope(row["path"], tuple(row["offers"]))
            agent = AgentSession(row["session_id"], scope, row["token_id"])
            self.identities.remember(session, agent)
        heartbeat_s = lease_s / 4
        front = self.exchanges.front
        if front is not None:  # a heartbeat must name pooled tasks before their deadline
            heartbeat_s = min(heartbeat_s, front.heartbeat_s)
        now = time.time() + self.clock_ahead_s
        banned = campaign_bans(row["banned"])
        return Welcome(row["session_id"], heartbeat_s, lease_s, session, now, banned)

    async def close_session(self, token: str, body: bytes) -> None:
        """End a session; its tasks are handed out again. body: why, in JSON; or empty.

        It waits for no claim, hello or limit: a batch job that is killed has half a minute.
        """
        farewell = messages.read_farewell(body) if body else messages.SessionEndMessage()
        try:
            agent = await self.agent(token)
        except SessionLost:
            return  # it has ended before
        await self._departures.end(agent.session, farewell)
        self.metrics.forget(agent.session)
        self.identities.forget(token)

    async def agent(self, token: str) -> AgentSession:
        """Return the agent of a session's token; raise `Unauthorized` or `SessionLost`."""
        identity = self.identities.agent(token) or await self.identities.identify(token)
        if not isinstance(identity, AgentSession):
            raise Unauthorized("this needs the token of a session")
        return identity

    async def check_input(self, agent: AgentSession, digest: str) -> None:
        """Raise `Forbidden` unless a campaign that the agent serves has this input."""
        (row,) = await self.statements.rows("is_input", path=agent.scope.path, digest=digest)
        if not row["is_input"]:
            raise Forbidden("no campaign that this agent serves has such an input")

    async def check_ready(self) -> None:
        """Raise `Draining`, or `Unavailable` if the database does not answer."""
        if self.draining:
            raise Draining
        await self.statements.rows("installation")

    async def metrics_text(self, paths: tuple[str, ...]) -> bytes:
        """Return the metrics in Prometheus' text format; paths: the campaigns to include.

        Numbers that only the database knows are left out if it does not answer.
        """
        self.metrics.forget_silent(time.monotonic() - self.settings.lease_s)
        stored = await self._stored.read(paths)
        front = self.exchanges.front
        own = self.metrics.families(
            self._connections(), self.exchanges.waiting, None if front is None else front.pool
        )
        return metrics.text([*own, *stored.families()])

    async def heartbeat(
        self, agent: AgentSession, message: messages.HeartbeatMessage
    ) -> HeartbeatAnswer:
        """Renew a session; heartbeats of some seconds are batched and answered together."""
        if self._heartbeats.waiting >= MOST_BEATS:
            raise Busy
        throttled = message.trouble is not None and message.trouble.failures > 0
        self.metrics.note_heartbeat(agent.session, throttled=throttled)
        arguments = messages.heartbeat_arguments(message, agent.session)
        answer = await self._heartbeats.send(agent.session, *arguments)
        if self.draining or self.settings.gateways:
            orders = replace(
                answer.orders, elsewhere=self.draining, gateways=self.settings.gateways
            )
            answer = replace(answer, orders=orders)
        return answer
