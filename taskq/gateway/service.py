"""What the gateway does for agents, without HTTP.

Under load, what frees others goes first: an exchange that reports is taken in when one that only
claims is told to come again, and of one that does both the claim is put off.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from taskq.db.connections import Database
from taskq.dispatch.batching import Batcher, Submitted, settle
from taskq.dispatch.exchange import Asked, Fence
from taskq.dispatch.fair_queue import is_large
from taskq.dispatch.heartbeats import GATHER_S, HeartbeatBatcher
from taskq.dispatch.long_poll import LongPoll
from taskq.dispatch.sessions import presented
from taskq.errors import Forbidden, TaskqError, Unauthorized
from taskq.front.address import FrontAddress
from taskq.gateway import messages, metrics
from taskq.gateway.auth import AgentSession, TokenCache
from taskq.gateway.db_pool import StatementPool
from taskq.gateway.errors import Busy, Draining, retry_after_s
from taskq.gateway.pace import Pace
from taskq.tokens import hashed, session_token
from taskq_agent.errors import Refused, SessionLost
from taskq_agent.protocol import Answer, Heartbeat, HeartbeatAnswer, Held, Hello, Orders, Welcome
from taskq_agent.text import clean

if TYPE_CHECKING:
    from taskq.gateway.fronted import Fronted

#: Exchanges that wait for a statement, beyond which no more claims, beats, reports are taken in.
MOST_CLAIMS: Final = 4_096
MOST_BEATS: Final = 8_192
MOST_REPORTS: Final = 16_384
#: Connections for exchanges; a fourth one made a gateway slower on two cores.
LINES: Final = 3
#: ... for opening sessions, so that however many come keep nobody who is known from being served;
ENROLMENT_LINES: Final = 2
#: ... and for all else.
OTHER_LINES: Final = 3
#: Large exchanges that may wait, each with up to 8 MiB.
MOST_LARGE: Final = 64
MOST_UPLOADS: Final = 4
#: For how long metrics wait for the database.
TROUBLES_S: Final = 2.0

NOTHING: Final = Answer()


@dataclass(frozen=True, slots=True)
class Settings:
    """How a gateway serves.

    lease_s: silence after which an agent's tasks are handed out again. gateways: the addresses of
    all gateways, told to agents. lines: connections for exchanges. most_clients: connections
    beyond which nobody is let in, so that files can still be opened. front: where tasks that were
    leased ahead are; None: there is no front.
    """

    lease_s: float = 120.0
    gateways: tuple[str, ...] = ()
    lines: int = LINES
    most_clients: int = 1_000_000
    front: FrontAddress | None = None


class Service:
    """Serves agents from a database; for one asyncio loop.

    connections: returns how many clients are connected, so that they can be told to spread.
    """

    def __init__(
        self, database: Database, settings: Settings, connections: Callable[[], int]
    ) -> None:
        self.settings = settings
        self.metrics = metrics.Metrics()
        self.lines = StatementPool(database, OTHER_LINES, connections)
        self._enrolments = StatementPool(database, ENROLMENT_LINES, connections)
        self.identities = TokenCache(self.lines, self.timeline)
        self.draining = False
        #: Large bodies that are in memory at the same time.
        self.uploads = asyncio.Semaphore(MOST_UPLOADS)
        self._connections = connections
        self._pace = Pace(time.monotonic)
        self._gatherer = Batcher(database, lines=settings.lines)
        # Well within a lease: an agent beats four times in it, and waits for the answer.
        self._beats = HeartbeatBatcher(database, min(GATHER_S, settings.lease_s / 8))
        front = settings.front is not None
        self._waker = LongPoll(database, found=self._gatherer.forget, front=front)
        self._front: Fronted | None = None
        if settings.front is not None:
            from taskq.front.pool import Pool  # noqa: PLC0415  # the extra may be missing
            from taskq.gateway.fronted import Fronted  # noqa: PLC0415

            pool = Pool(database, settings.front, self._gatherer.described)
            self._front = Fronted(self._gatherer, pool, self.lines)

    async def start(self) -> None:
        """Begin what goes on in the background."""
        if self._front is not None:
            await self._front.start()

    async def close(self) -> None:
        """Finish what was asked and close the connections."""
        self._waker.drain()
        if self._front is not None:
            await self._front.close()
        await self._gatherer.close()
        await self._beats.close()
        await self._waker.close()
        await self._enrolments.close()
        await self.lines.close()

    def drain(self) -> None:
        """Hand out no more tasks, let those go who wait for some, and send all elsewhere."""
        self.draining = True
        self._waker.drain()

    def timeline(self) -> int:
        """Return the highest timeline of the servers that have answered; see `Line`."""
        return max(
            self._gatherer.timeline,
            self._beats.timeline,
            self._enrolments.timeline,
            self.lines.timeline,
        )

    def retry_after_s(self) -> float:
        """Return for how long a client should stay away, where nothing tells when to come."""
        return retry_after_s(self._connections())

    async def open(self, token: str, hello: Hello, address: str) -> Welcome:
        """Open a session for a site's token, or find the one that this hello has opened."""
        if self.draining:
            raise Draining
        session = session_token(token, hello.key)
        (row,) = await self._enrolments.rows(
            "enrol",
            token_hash=hashed(token),
            session_hash=hashed(session),
            address=address,
            **presented(hello, self.settings.lease_s),
        )
        self.metrics.opened += 1
        lease_s = self.settings.lease_s
        heartbeat_s = lease_s / 4
        if self._front is not None:  # a task of the pool must be named well before its deadline
            heartbeat_s = min(heartbeat_s, self._front.heartbeat_s)
        return Welcome(row["session_id"], heartbeat_s, lease_s, session)

    async def close_session(self, token: str, farewell: messages.SessionEndMessage) -> None:
        """End a session; what it holds is handed to others."""
        try:
            agent = await self.agent(token)
        except SessionLost:
            return  # it has been ended before
        await self.lines.rows(
            "end_session",
            session=agent.session,
            why=clean(farewell.reason) or None,
            exit_code=farewell.exit_code,
        )
        self.metrics.troubled(agent.session, None)
        self.identities.forget(token)

    async def agent(self, token: str) -> AgentSession:
        """Return the agent of a session's token; raise `Unauthorized` or `SessionLost`."""
        identity = self.identities.agent(token) or await self.identities.identify(token)
        if not isinstance(identity, AgentSession):
            raise Unauthorized("this needs the token of a session")
        return identity

    async def exchange(self, agent: AgentSession, message: messages.Exchange) -> Answer:
        """Report and claim, once."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        submitted = self.submit(agent, message, partial(settle, answer))
        try:
            return await answer
        finally:
            submitted.give_up()

    def submit(
        self,
        agent: AgentSession,
        message: messages.Exchange,
        tell: Callable[[Answer | Exception], None],
    ) -> Submitted:
        """Report and claim, once; see `Gatherer.submit`.

        A claim that has to be put off becomes one for nothing. Raise `Busy` or `Draining` if
        nothing of it is taken in, `BadRequest` if a report cannot be stored.
        """
        waiting = self._gatherer.waiting
        if self.draining or (waiting >= MOST_CLAIMS and not self._has_tasks_for(agent, message)):
            message.want = 0
            if not message.reports:
                raise Draining if self.draining else Busy(self._wait_s())
            if waiting >= MOST_REPORTS:
                raise Busy(self._wait_s())
        if message.want and not message.lease:
            raise Refused("a claim needs a lease id")
        reports = message.reports
        asked = Asked(
            agent.session,
            message.want,
            message.lease,
            agent.serving(message.lifetime_s, message.without),
            [Fence(report.campaign, report.task, report.lease) for report in reports],
            [messages.report_text(report, agent.session) for report in reports],
        )
        if self._gatherer.waiting_apart >= MOST_LARGE and is_large(asked):
            raise Busy
        self.metrics.exchanges += 1
        self.metrics.reports += len(reports)
        if message.ahead and self._front is not None:
            return self._front.submit(asked, tell)
        return self._gatherer.submit(asked, tell)

    def _wait_s(self) -> float:
        """Return for how long an exchange that is turned away should wait."""
        waiting = self._gatherer.waiting
        return self._pace.wait_s(waiting, self.metrics.exchanges - waiting, self._connections())

    def _has_tasks_for(self, agent: AgentSession, message: messages.Exchange) -> bool:
        """Tell whether a claim can be served from the front, however busy the database is."""
        return (
            self._front is not None
            and message.ahead
            and not message.reports
            and self._front.pool.stocked(agent.serving(message.lifetime_s, message.without))
        )

    async def exchanged(self, agent: AgentSession, message: messages.Exchange) -> Answer:
        """Report and claim; if there is nothing to claim, wait for as long as the agent would."""
        answer = await self.exchange(agent, message)
        if self.may_wait(message, answer):
            answer = await self.waited(agent, message, answer)
        return answer

    def is_unchecked(self, message: messages.Exchange, answer: Answer) -> bool:
        """Tell whether nothing on the way to an answer has found out if its session still lives.

        A statement that reports or claims does, and so does the beat that a wait is.
        """
        return not (answer.tasks or answer.acks or message.wait_s > 0)

    def would_wait(self, agent: AgentSession, message: messages.Exchange) -> bool:
        """Tell whether a new claim need not even be tried: others wait for the same already."""
        return (
            message.wait_s > 0
            and not message.reports
            and self.may_wait(message, NOTHING)
            and self._waker.has_waiting(agent.serving(message.lifetime_s, message.without))
        )

    def may_wait(self, message: messages.Exchange, answer: Answer) -> bool:
        """Tell whether an answer without tasks is kept back, since the agent would wait."""
        return (
            not answer.tasks
            and message.wait_s > 0
            and message.want > 0
            and not (message.until_empty and answer.left == 0)
            # Or who claims under a spent lease id would make others believe that nothing waits.
            and answer.orders.claim_after_s is None
            and not self.draining
        )

    async def waited(
        self, agent: AgentSession, message: messages.Exchange, answer: Answer
    ) -> Answer:
        """Return the answer to a claim that found nothing, as soon as there is something.

        Or, when the agent would wait no longer, or would leave since nothing is left to be done,
        what it was. The acknowledgements of the first answer are in it.

        Who waits lives: this is a beat as well, so that an idle agent needs no second connection
        for beats. What the beat is told, ends the wait.
        """
        acks, timeline = answer.acks, answer.timeline
        message.reports = ()
        beat = asyncio.create_task(self._beats.beat(Heartbeat(agent.session)))
        turns = asyncio.create_task(self._turns(agent, message, answer))
        self.metrics.waiting += 1
        try:
            await asyncio.wait({beat, turns}, return_when=asyncio.FIRST_COMPLETED)
            if not (beat.done() and _is_told_to_go(beat)):
                await asyncio.wait({turns})
            if turns.done():
                answer = turns.result()
            else:
                answer = replace(answer, orders=beat.result().orders)
            if not acks:
                timeline = max(answer.timeline, _timeline_of(beat))
        finally:
            self.metrics.waiting -= 1
            beat.cancel()
            turns.cancel()
        orders = replace(answer.orders, gateways=self.settings.gateways)
        return replace(answer, acks=acks, orders=orders, timeline=timeline)

    async def _turns(
        self, agent: AgentSession, message: messages.Exchange, answer: Answer
    ) -> Answer:
        """Claim whenever there may be something, until there is or the time is up."""
        # Never so long that a session could expire before its agent is heard again.
        deadline = time.monotonic() + min(message.wait_s, self.settings.lease_s / 3)
        serving = agent.serving(message.lifetime_s, message.without)
        unfinished = None if message.until_empty else 0  # who stays need not know of the end
        while self.may_wait(message, answer):
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not await self._waker.wait(serving, left_s, unfinished):
                break
            answer = await self.exchange(agent, message)
        return answer

    def ordered(self, message: messages.Exchange, answer: Answer) -> Answer:
        """Return an answer with what the agent should know besides."""
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
        (row,) = await self.lines.rows("is_input", path=agent.path, digest=digest)
        if not row["is_input"]:
            raise Forbidden("no campaign that this agent serves has such an input")

    async def check_ready(self) -> None:
        """Raise `Draining`, or `Unavailable` if the database does not answer."""
        if self.draining:
            raise Draining
        await self.lines.rows("installation")

    def poke(self) -> None:
        """Look soon for those who wait: there may be something to claim."""
        self._waker.poke()

    async def metrics_text(self) -> bytes:
        """Return the metrics in Prometheus' text format.

        What only the database knows is left out when it does not answer.
        """
        self.metrics.forget_troubles(time.monotonic() - self.settings.lease_s)
        troubles: tuple[int, ...] = ()
        with suppress(TaskqError, Busy, asyncio.TimeoutError):
            (row,) = await asyncio.wait_for(self.lines.rows("troubles"), TROUBLES_S)
            troubles = (row["held"], row["paused"])
        return metrics.text(
            self.metrics,
            connections=self._connections(),
            queued=self._gatherer.waiting,
            pool=None if self._front is None else self._front.pool,
            troubles=troubles,
        )

    async def beat(
        self, agent: AgentSession, message: messages.HeartbeatMessage
    ) -> HeartbeatAnswer:
        """Keep a session alive; answered together with others that beat within some seconds."""
        if self._beats.waiting >= MOST_BEATS:
            raise Busy
        self.metrics.beats += 1
        held = tuple(Held(one.campaign, one.task, one.lease) for one in message.held)
        trouble = None if message.trouble is None else message.trouble.told()
        self.metrics.troubled(agent.session, time.monotonic() if trouble else None)
        beat = Heartbeat(
            agent.session,
            held,
            message.pending,
            message.drawn,
            message.timeline,
            trouble,
            message.told_tally(),
        )
        answer = await self._beats.beat(beat)
        if self.draining or self.settings.gateways:
            orders = replace(
                answer.orders, elsewhere=self.draining, gateways=self.settings.gateways
            )
            answer = replace(answer, orders=orders)
        return answer


def _timeline_of(beat: asyncio.Task[HeartbeatAnswer]) -> int:
    """Return the timeline of the server that has answered a beat, 0 if none has yet."""
    answered = beat.done() and not beat.cancelled() and beat.exception() is None
    return beat.result().timeline if answered else 0


def _is_told_to_go(beat: asyncio.Task[HeartbeatAnswer]) -> bool:
    """Tell whether a beat has found that its agent should not wait: its session has ended, say."""
    error = beat.exception()
    if error is None:
        return beat.result().orders.drain
    return isinstance(error, SessionLost)
