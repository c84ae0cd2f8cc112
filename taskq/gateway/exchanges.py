"""Exchanges of agents at a gateway: reports, claims, and waits for tasks.

Under load, requests that free resources go first. The gateway still accepts an exchange with
reports when it refuses one that only claims. If an exchange does both, only its claim is put off.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from taskq.db.connections import Database
from taskq.dispatch.batching import Batcher, Callback, Submitted, answered
from taskq.dispatch.exchange_request import ExchangeRequest, Fence
from taskq.dispatch.fair_queue import is_large
from taskq.dispatch.heartbeats import HeartbeatBatcher, ends_wait, timeline_of
from taskq.dispatch.long_poll import LongPoll
from taskq.gateway import messages
from taskq.gateway.auth import AgentSession
from taskq.gateway.end_waits import EndWaits
from taskq.gateway.errors import Draining
from taskq.gateway.http.errors import Busy
from taskq.gateway.http.kept_bytes import KeptBytes
from taskq.gateway.metrics import Metrics
from taskq.gateway.pace import Pace
from taskq.gateway.settings import Settings
from taskq.gateway.statement_pool import StatementPool
from taskq_agent.errors import Refused
from taskq_agent.protocol import Answer, Heartbeat, Orders

if TYPE_CHECKING:
    from taskq.gateway.fronted import Fronted

#: Limits on what waits for a statement. The gateway refuses claims from `MOST_CLAIMS` waiting
#: exchanges on, and reports too from `MOST_REPORTS` waiting exchanges on.
MOST_CLAIMS: Final = 4_096
MOST_REPORTS: Final = 16_384
#: Most seconds until a refused report comes again: its agent may have only half a minute.
REPORT_AGAIN_S: Final = 5.0
#: Large exchanges that may wait, each with up to 8 MiB.
MOST_LARGE: Final = 64
#: Room that the answer to a claim needs: payloads of a claim, and what is around them.
CLAIM_BYTES: Final = 5 << 20

_NOTHING: Final = Answer()


@dataclass(slots=True, eq=False)
class ExchangeUnderWay:
    """An exchange whose client waits. callback: takes the answer or an error, once."""

    exchanges: AgentExchanges
    agent: AgentSession
    token: str
    message: messages.Exchange
    callback: Callback | None
    began: float = field(default_factory=time.perf_counter)
    submitted: Submitted | None = None
    task: asyncio.Task[None] | None = None

    def abandon(self) -> None:
        """End it: the client has gone."""
        self.callback = None
        if self.submitted is not None:
            self.submitted.abandon()
        if self.task is not None:
            self.task.cancel()

    def answered(self, outcome: Answer | Exception) -> None:
        """Pass an outcome on; first wait for tasks or check the session, where that is needed."""
        exchanges, message = self.exchanges, self.message
        if isinstance(outcome, Exception):
            self._resolve(outcome)
            return
        if outcome.acks:
            exchanges.ends.reported(outcome.acks)
        if not outcome.tasks and exchanges.may_wait(message, outcome):
            self.spawn(exchanges.wait_for_tasks(self.agent, message, outcome))
        elif _is_unchecked(message, outcome):
            self.spawn(self._checked(outcome))
        else:
            exchanges.metrics.took(time.perf_counter() - self.began)
            callback, self.callback = self.callback, None
            if callback is not None:
                callback(exchanges.with_orders(message, outcome))

    def spawn(self, steps: Awaitable[Answer]) -> None:
        """Pass on what some steps return or raise."""
        self.task = asyncio.get_running_loop().create_task(self._passed_on(steps))

    async def _checked(self, answer: Answer) -> Answer:
        await self.exchanges.check(self.token)
        return answer

    async def _passed_on(self, steps: Awaitable[Answer]) -> None:
        try:
            answer = await steps
        except Exception as error:  # noqa: BLE001  # the callback answers it
            self._resolve(error)
        else:
            self._resolve(self.exchanges.with_orders(self.message, answer))

    def _resolve(self, outcome: Answer | Exception) -> None:
        callback, self.callback = self.callback, None
        if callback is not None:
            callback(outcome)


class AgentExchanges:
    """Answers the exchanges of a gateway's agents; for one asyncio loop.

    check: raises `SessionLost` if the session of a token has ended; used where no statement has
    checked it. untaken: what is kept of answers that clients do not take. heartbeats: a claim that
    waits stands for one. connections: returns the number of connected clients. ends: learns on
    which tasks there are verdicts.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        metrics: Metrics,
        *,
        check: Callable[[str], Awaitable[object]],
        untaken: KeptBytes,
        statements: StatementPool,
        heartbeats: HeartbeatBatcher,
        connections: Callable[[], int],
        ends: EndWaits,
    ) -> None:
        self.metrics = metrics
        self.ends = ends
        self.check = check
        self.draining = False
        self._settings = settings
        self._untaken = untaken
        self._heartbeats = heartbeats
        self._connections = connections
        self._pace = Pace(time.monotonic)
        self._batcher = Batcher(database, connections=settings.connections)
        has_front = settings.front is not None
        self._long_poll = LongPoll(database, found=self._batcher.forget, front=has_front)
        self.front: Fronted | None = None
        if settings.front is not None:
            from taskq.front.pool import Pool  # noqa: PLC0415  # the extra may be missing
            from taskq.gateway.fronted import Fronted  # noqa: PLC0415

            pool = Pool(database, settings.front, self._batcher.campaign_cache)
            self.front = Fronted(self._batcher, pool, statements)

    async def start(self) -> None:
        """Start the background tasks of the front, if there is one."""
        if self.front is not None:
            await self.front.start()

    def drain(self) -> None:
        """Hand out no more tasks, and end all waits."""
        self.draining = True
        self._long_poll.drain()

    async def close(self) -> None:
        """Finish all exchanges that were accepted, then close the connections."""
        self._long_poll.drain()
        if self.front is not None:
            await self.front.close()
        await self._batcher.close()
        await self._long_poll.close()

    @property
    def waiting(self) -> int:
        """How many exchanges wait for a statement."""
        return self._batcher.waiting

    def poll_soon(self) -> None:
        """Look soon for tasks for waiting agents: some may have become claimable."""
        self._long_poll.poll_soon()

    def begin(
        self,
        agent: AgentSession,
        token: str,
        message: messages.Exchange,
        callback: Callback,
        *,
        is_new: bool,
    ) -> ExchangeUnderWay:
        """Report and claim; wait for tasks for as long as the agent allows.

        token: the session's. callback: takes the answer as it goes out, or an error. is_new:
        whether the claim is certainly not a repeated one, which may have tasks already. Raise what
        `once` raises.
        """
        exchange = ExchangeUnderWay(self, agent, token, message, callback)
        if is_new and self._would_wait(agent, message):
            exchange.answered(_NOTHING)
        else:
            exchange.submitted = self._submit(agent, message, exchange.answered)
        return exchange

    async def once(self, agent: AgentSession, message: messages.Exchange) -> Answer:
        """Report and claim, once.

        If the claim has to be put off, `message.want` becomes 0. Raise `Busy` or `Draining` if the
        whole exchange is refused, `BadRequest` if a report cannot be stored.
        """
        return await answered(partial(self._submit, agent, message))

    def _submit(
        self, agent: AgentSession, message: messages.Exchange, callback: Callback
    ) -> Submitted:
        waiting = self._batcher.waiting
        if (
            self.draining
            or (waiting >= MOST_CLAIMS and not self._has_tasks_for(agent, message))
            or (self._untaken.size and self._untaken.is_full(agent.token_id, CLAIM_BYTES))
        ):
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

    def _would_wait(self, agent: AgentSession, message: messages.Exchange) -> bool:
        """Return whether a new claim need not be tried, since others wait in the same scope."""
        return (
            message.wait_s > 0
            and not message.reports
            and self.may_wait(message, _NOTHING)
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
            if not (heartbeat.done() and ends_wait(heartbeat)):
                await asyncio.wait({turns})
            if turns.done():
                answer = turns.result()
            else:
                answer = replace(answer, orders=heartbeat.result().orders)
            if not acks:
                timeline = max(answer.timeline, timeline_of(heartbeat))
        finally:
            self.metrics.waiting -= 1
            heartbeat.cancel()
            turns.cancel()
        orders = replace(answer.orders, gateways=self._settings.gateways)
        return replace(answer, acks=acks, orders=orders, timeline=timeline)

    async def _turns(
        self, agent: AgentSession, message: messages.Exchange, answer: Answer
    ) -> Answer:
        """Claim whenever there may be a task, until there is one or the time is up."""
        # The limit keeps the session from expiring before its agent is heard again.
        deadline = time.monotonic() + min(message.wait_s, self._settings.lease_s / 3)
        scope = agent.scope_for(message)
        unfinished = None if message.until_empty else 0  # an agent that stays ignores the end
        while self.may_wait(message, answer):
            left_s = deadline - time.monotonic()
            drawn_at = self._batcher.drawn_at(scope)
            if left_s <= 0 or not await self._long_poll.wait(
                scope, left_s, unfinished, drawn_at=drawn_at
            ):
                break
            answer = await self.once(agent, message)
            if answer.orders.claim_after_s is not None and not answer.tasks:
                self._long_poll.pass_on(scope)
        return answer

    def with_orders(self, message: messages.Exchange, answer: Answer) -> Answer:
        """Return an answer with the orders of a drain, or of a claim that was put off."""
        self.metrics.tasks += len(answer.tasks)
        if self.draining:
            orders = replace(answer.orders, elsewhere=True, gateways=self._settings.gateways)
        elif message.lease and not message.want:  # the claim was put off
            orders = Orders(claim_after_s=self._wait_s())
        else:
            return answer
        return replace(answer, orders=orders)


def _is_unchecked(message: messages.Exchange, answer: Answer) -> bool:
    """Return whether an answer was made without a check that the session still lives.

    Statements that report or claim check it, and so does the heartbeat of a wait.
    """
    return not (answer.tasks or answer.acks or message.wait_s > 0)
