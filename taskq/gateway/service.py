"""The gateway's service to agents, without HTTP.

Under load, requests that free resources go first. The gateway still accepts an exchange with
reports when it refuses one that only claims. If an exchange does both, only its claim is put off.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from taskq.db.connections import Database
from taskq.db.tokens import session_token
from taskq.dispatch.batching import Batcher, Callback, Submitted, answered
from taskq.dispatch.exchange_request import ExchangeRequest, Fence
from taskq.dispatch.fair_queue import is_large
from taskq.dispatch.fair_share import Scope
from taskq.dispatch.heartbeats import BATCH_S, HeartbeatBatcher
from taskq.dispatch.long_poll import LongPoll
from taskq.gateway import messages, metrics
from taskq.gateway.auth import AgentSession, TokenCache
from taskq.gateway.enrolments import Departures, Enrolments
from taskq.gateway.errors import Busy, Draining, ErrorAnswer, failure, retry_after_s
from taskq.gateway.metrics import MetricReader
from taskq.gateway.pace import Pace, StatementPool
from taskq.gateway.requests import LargeBodies
from taskq.gateway.settings import Settings
from taskq.model.errors import Forbidden, Unauthorized
from taskq_agent.errors import Refused, SessionLost
from taskq_agent.protocol import Answer, Heartbeat, HeartbeatAnswer, Hello, Orders, Welcome

if TYPE_CHECKING:
    from taskq.gateway.fronted import Fronted

log: Final = logging.getLogger("taskq.gateway")

#: Limits on what waits for a statement. The gateway refuses claims from `MOST_CLAIMS` waiting
#: exchanges on, heartbeats from `MOST_BEATS` waiting heartbeats on, and reports too from
#: `MOST_REPORTS` waiting exchanges on.
MOST_CLAIMS: Final = 4_096
MOST_BEATS: Final = 8_192
MOST_REPORTS: Final = 16_384
#: Most seconds until a refused report comes again: its agent may have only half a minute.
REPORT_AGAIN_S: Final = 5.0
#: Connections for all but opening sessions and exchanges.
OTHER_CONNECTIONS: Final = 3
#: Large exchanges that may wait, each with up to 8 MiB.
MOST_LARGE: Final = 64
MOST_UPLOADS: Final = 4

NOTHING: Final = Answer()


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
        self.draining = False
        #: Seconds that the database's clock is ahead of this process's.
        self.clock_ahead_s = 0.0
        #: Limits the large bodies that are in memory at the same time.
        self.uploads = asyncio.Semaphore(MOST_UPLOADS)
        self.large_bodies = LargeBodies()
        self._connections = connections
        self._pace = Pace(time.monotonic)
        self._batcher = Batcher(database, connections=settings.connections)
        # Well within a lease: an agent sends four heartbeats in it, and waits for each answer.
        self._heartbeats = HeartbeatBatcher(database, min(BATCH_S, settings.lease_s / 8))
        front = settings.front is not None
        self._long_poll = LongPoll(database, found=self._batcher.forget, front=front)
        self.front: Fronted | None = None
        if settings.front is not None:
            from taskq.front.pool import Pool  # noqa: PLC0415  # the extra may be missing
            from taskq.gateway.fronted import Fronted  # noqa: PLC0415

            pool = Pool(database, settings.front, self._batcher.campaign_cache)
            self.front = Fronted(self._batcher, pool, self.statements)

    async def start(self) -> None:
        """Start the background tasks of the front, if there is one."""
        if self.front is not None:
            await self.front.start()

    async def close(self) -> None:
        """Finish all requests that were accepted, then close the connections."""
        self._long_poll.drain()
        if self.front is not None:
            await self.front.close()
        await self._batcher.close()
        await self._heartbeats.close()
        await self._long_poll.close()
        await self._enrolments.close()
        await self._departures.close()
        await self.statements.close()

    def drain(self) -> None:
        """Hand out no more tasks, end all waits, and send agents to other gateways."""
        self.draining = True
        self._long_poll.drain()

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
            self.identities.remember(session, AgentSession(row["session_id"], scope))
        heartbeat_s = lease_s / 4
        if self.front is not None:  # a heartbeat must name pooled tasks before their deadline
            heartbeat_s = min(heartbeat_s, self.front.heartbeat_s)
        now = time.time() + self.clock_ahead_s
        return Welcome(row["session_id"], heartbeat_s, lease_s, session, now)

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

    async def exchange(self, agent: AgentSession, message: messages.Exchange) -> Answer:
        """Report and claim, once."""
        return await answered(partial(self.submit, agent, message))

    def submit(
        self, agent: AgentSession, message: messages.Exchange, callback: Callback
    ) -> Submitted:
        """Report and claim, once; see `Batcher.submit`.

        If the claim has to be put off, `message.want` becomes 0. Raise `Busy` or `Draining` if the
        whole exchange is refused, `BadRequest` if a report cannot be stored.
        """
        waiting = self._batcher.waiting
        if self.draining or (waiting >= MOST_CLAIMS and not self._has_tasks_for(agent, message)):
            message.want = 0
            if not message.reports:
                raise Draining if self.draining else Busy(self._wait_s())
            if waiting >= MOST_REPORTS:
                raise Busy(min(self._wait_s(), REPORT_AGAIN_S))
        if message.want and not message.lease:
            raise Refused("a claim needs a lease id")
        reports = message.reports
        exchange = ExchangeRequest(
            agent.session,
            message.want,
            message.lease,
            agent.scope_for(message),
            [Fence(report.campaign, report.task, report.lease) for report in reports],
            [messages.encoded_report(report, agent.session) for report in reports],
        )
        if self._batcher.waiting_apart >= MOST_LARGE and is_large(exchange):
            raise Busy
        self.metrics.exchanges += 1
        self.metrics.reports += len(reports)
        if message.ahead and self.front is not None:
            return self.front.submit(exchange, callback)
        return self._batcher.submit(exchange, callback)

    def _wait_s(self) -> float:
        """Return the seconds after which a refused exchange should come again."""
        waiting = self._batcher.waiting
        return self._pace.wait_s(waiting, self.metrics.exchanges - waiting, self._connections())

    def _has_tasks_for(self, agent: AgentSession, message: messages.Exchange) -> bool:
        """Return whether the front has tasks for a claim, however busy the database is."""
        return (
            self.front is not None
            and message.ahead
            and not message.reports
            and self.front.pool.has_entries(agent.scope_for(message))
        )

    def is_final(self, message: messages.Exchange, answer: Answer) -> bool:
        """Return whether an answer needs only its orders, and `finish` would not wait."""
        return not (self.may_wait(message, answer) or _is_unchecked(message, answer))

    async def finish(
        self, agent: AgentSession, token: str, message: messages.Exchange, answer: Answer
    ) -> Answer:
        """Return an answer as it goes out.

        Without tasks, wait for some for as long as the agent allows. Raise `SessionLost` if the
        session has ended; this is checked only if nothing else has checked it.
        """
        if self.may_wait(message, answer):
            answer = await self.wait_for_tasks(agent, message, answer)
        elif _is_unchecked(message, answer):
            await self.identities.identify(token, anew=True)
        return self.with_orders(message, answer)

    def would_wait(self, agent: AgentSession, message: messages.Exchange) -> bool:
        """Return whether a new claim need not be tried, since others wait in the same scope."""
        return (
            message.wait_s > 0
            and not message.reports
            and self.may_wait(message, NOTHING)
            and self._long_poll.has_waiting(agent.scope_for(message))
        )

    def may_wait(self, message: messages.Exchange, answer: Answer) -> bool:
        """Return whether an answer is kept back: it has no tasks, and the agent would wait."""
        return (
            not answer.tasks
            and message.wait_s > 0
            and message.want > 0
            and not (message.until_empty and answer.left == 0)
            # Otherwise a claim under a spent lease id would suggest to others that nothing waits.
            and answer.orders.claim_after_s is None
            and not self.draining
        )

    async def wait_for_tasks(
        self, agent: AgentSession, message: messages.Exchange, answer: Answer
    ) -> Answer:
        """Claim again for an agent that found no task, until it gets some.

        The wait ends when there are tasks, when the agent's time is up, or when the agent would
        leave because nothing is unfinished. Return the last answer, with the acknowledgements of
        the first.

        The wait counts as a heartbeat, so an idle agent needs no second connection for heartbeats.
        It also ends if the heartbeat finds that the session has ended or has to drain.
        """
        acks, timeline = answer.acks, answer.timeline
        message.reports = ()
        self.metrics.heard[agent.session] = time.monotonic()
        heartbeat = asyncio.create_task(self._heartbeats.heartbeat(Heartbeat(agent.session)))
        turns = asyncio.create_task(self._turns(agent, message, answer))
        self.metrics.waiting += 1
        try:
            await asyncio.wait({heartbeat, turns}, return_when=asyncio.FIRST_COMPLETED)
            if not (heartbeat.done() and _ends_wait(heartbeat)):
                await asyncio.wait({turns})
            if turns.done():
                answer = turns.result()
            else:
                answer = replace(answer, orders=heartbeat.result().orders)
            if not acks:
                timeline = max(answer.timeline, _timeline_of(heartbeat))
        finally:
            self.metrics.waiting -= 1
            heartbeat.cancel()
            turns.cancel()
        orders = replace(answer.orders, gateways=self.settings.gateways)
        return replace(answer, acks=acks, orders=orders, timeline=timeline)

    async def _turns(
        self, agent: AgentSession, message: messages.Exchange, answer: Answer
    ) -> Answer:
        """Claim whenever there may be a task, until there is one or the time is up."""
        # The limit keeps the session from expiring before its agent is heard again.
        deadline = time.monotonic() + min(message.wait_s, self.settings.lease_s / 3)
        scope = agent.scope_for(message)
        unfinished = None if message.until_empty else 0  # an agent that stays ignores the end
        while self.may_wait(message, answer):
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not await self._long_poll.wait(scope, left_s, unfinished):
                break
            answer = await self.exchange(agent, message)
            if answer.orders.claim_after_s is not None and not answer.tasks:
                self._long_poll.pass_on(scope)
        return answer

    def with_orders(self, message: messages.Exchange, answer: Answer) -> Answer:
        """Return an answer with the orders of a drain, or of a claim that was put off."""
        self.metrics.tasks += len(answer.tasks)
        if self.draining:
            orders = replace(answer.orders, elsewhere=True, gateways=self.settings.gateways)
        elif message.lease and not message.want:  # the claim was put off
            orders = Orders(claim_after_s=self._wait_s())
        else:
            return answer
        return replace(answer, orders=orders)

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

    def poll_soon(self) -> None:
        """Look soon for tasks for waiting agents: some may have become claimable."""
        self._long_poll.poll_soon()

    async def metrics_text(self, paths: tuple[str, ...]) -> bytes:
        """Return the metrics in Prometheus' text format; paths: the campaigns to include.

        Numbers that only the database knows are left out if it does not answer.
        """
        self.metrics.forget_silent(time.monotonic() - self.settings.lease_s)
        stored = await self._stored.read(paths)
        return metrics.text(
            self.metrics,
            connections=self._connections(),
            queued=self._batcher.waiting,
            pool=None if self.front is None else self.front.pool,
            stored=stored,
        )

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


def _is_unchecked(message: messages.Exchange, answer: Answer) -> bool:
    """Return whether an answer was made without a check that the session still lives.

    Statements that report or claim check it, and so does the heartbeat of a wait.
    """
    return not (answer.tasks or answer.acks or message.wait_s > 0)


def _timeline_of(heartbeat: asyncio.Task[HeartbeatAnswer]) -> int:
    """Return the timeline of the server that answered a heartbeat, 0 if none has yet."""
    answered = heartbeat.done() and not heartbeat.cancelled() and heartbeat.exception() is None
    return heartbeat.result().timeline if answered else 0


def _ends_wait(heartbeat: asyncio.Task[HeartbeatAnswer]) -> bool:
    """Return whether a heartbeat has found that its session has ended or has to drain."""
    error = heartbeat.exception()
    if error is None:
        return heartbeat.result().orders.drain
    return isinstance(error, SessionLost)
