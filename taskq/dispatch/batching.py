"""Group commit for exchanges: exchanges that arrive together share a statement.

A statement costs far more to set up than one more task costs in it, and a commit waits for the disk
once, however many tasks it covers. Exchanges that arrive while a statement is under way are
therefore batched and sent after its answer. If no statement is under way, an exchange is sent at
once. Under load several statements are under way, each on its own connection, and no exchange
waits for longer than 10 ms while a connection is free. A large exchange is sent alone (see
`fair_queue`), in parts while others ask, and with a limited share of one connection's time.

The technique is the group commit of databases (DeWitt et al., Implementation techniques for main
memory database systems, 1984).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from taskq.db.connections import AsyncConnection, Database
from taskq.dispatch.campaign_cache import CampaignCache
from taskq.dispatch.endings import Closing, resolve
from taskq.dispatch.exchange import Exchanges, Verdicts
from taskq.dispatch.exchange_request import ExchangeRequest, exchange_request
from taskq.dispatch.fair_queue import FairQueue, LargeTurns, Parts
from taskq.dispatch.fair_share import MOST_IN_BATCH, Scope
from taskq.dispatch.halves import in_halves
from taskq.dispatch.seldom import Seldom
from taskq.dispatch.transport_errors import as_transport_errors
from taskq_agent.errors import AnswerUnreadable, Refused, SessionLost, TransportFailed
from taskq_agent.protocol import Answer, Request

log = logging.getLogger(__name__)
log.addFilter(Seldom())

CONNECTIONS: Final = 4
#: Exchanges that justify one more connection: two half batches cost more than a whole one.
WORTH_A_CONNECTION: Final = 32
#: One more connection is also used when the statements under way take longer than this: one of
#: them may hang.
MOST_DELAY_S: Final = 0.01
#: The rest after a large exchange, in its durations; see `LargeTurns`. There is no rest if nobody
#: else has asked for anything in the last `BUSY_S` seconds. A busy gateway has idle moments too,
#: which belong to the next requests.
REST_FACTOR: Final = 5.0
BUSY_S: Final = 1.0


Callback: TypeAlias = Callable[[Answer | Exception], None]


@dataclass(slots=True)
class Submitted:
    """A submitted exchange without an answer so far.

    callback: takes the answer or an error, once; None after that, or if nobody waits any more.
    part: an exchange that does a part of this one, and is abandoned with it. parts: the parts of a
    large exchange that has begun.
    """

    exchange: ExchangeRequest
    callback: Callback | None
    part: Submitted | None = None
    parts: Parts | None = None

    def abandon(self) -> None:
        """Drop the callback. An exchange that has not begun is then never sent."""
        self.callback = None
        if self.part is not None:
            self.part.abandon()

    def resolve(self, outcome: Answer | Exception) -> None:
        """Pass the outcome to the callback, unless that has happened or nobody waits any more."""
        # Drop the callback first: it usually refers to this object, and thousands of reference
        # cycles a second are work for the garbage collector.
        callback, self.callback = self.callback, None
        if callback is not None:
            try:
                callback(outcome)
            except Exception:
                # The others that share the statement must not suffer.
                log.exception("an answer could not be passed on")


class Batcher(Closing):
    """Batches the exchanges of one asyncio loop; use it as an asynchronous context manager.

    An exchange is answered after its statement has committed, as in `DirectTransport.exchange`, and
    is idempotent in the same way. An error that one exchange causes is raised for that one alone.
    """

    def __init__(self, database: Database, *, connections: int = CONNECTIONS) -> None:
        """Open nothing yet. connections: upper limit; each is opened when first needed."""
        self._free = [database.dedicated_async_connection() for _ in range(connections)]
        self._connections = connections
        self._exchanges = Exchanges()
        self._queue: FairQueue[Submitted] = FairQueue()
        self._in_statements = 0
        self._large_turns = LargeTurns(REST_FACTOR)
        # When the last batch of common exchanges was sent.
        self._batch_at = -BUSY_S
        self._rounds: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def close(self) -> None:
        """Finish all submitted exchanges, then close the connections."""
        while self._rounds or self._queue:
            self._large_turns.cut_short()
            self._dispatch(True)
            if self._rounds:
                await asyncio.wait(self._rounds)  # which does not cancel them if it is cancelled
        if self._timer is not None:
            self._timer.cancel()
        for connection in self._free:
            await connection.close()

    async def exchange(self, request: Request, scope: Scope) -> Answer:
        """Report and claim.

        Raise `SessionLost` if the session has ended, `TransportFailed` if the database does not
        answer (repeat it), `Refused` if there is no point in repeating.
        """
        return await answered(partial(self.submit, exchange_request(request, scope)))

    def forget(self, scope: Scope) -> None:
        """Draw the order of campaigns again at the next claim in this scope."""
        self._exchanges.forget(scope)

    def drawn_at(self, scope: Scope) -> float:
        """Return when claims in this scope last drew an order of campaigns, on the loop's clock."""
        return self._exchanges.drawn_at(scope)

    @property
    def campaign_cache(self) -> CampaignCache:
        """What this process knows of the terms of campaigns."""
        return self._exchanges.campaign_cache

    @property
    def waiting(self) -> int:
        """How many exchanges wait for a statement."""
        return len(self._queue)

    @property
    def waiting_apart(self) -> int:
        """How many large exchanges wait for a statement."""
        return self._queue.large

    @property
    def under_way(self) -> int:
        """How many exchanges wait for a statement or are in one."""
        return len(self._queue) + self._in_statements

    def submit(self, exchange: ExchangeRequest, callback: Callback) -> Submitted:
        """Report and claim; `callback` gets what `exchange` returns or raises.

        The callback is called while a whole batch is answered. Futures instead of callbacks would
        cost a twentieth of a gateway's CPU time.
        """
        submitted = Submitted(exchange, callback)
        self.put(submitted)
        return submitted

    def put(self, submitted: Submitted) -> None:
        """Report and claim; see `submit`."""
        loop = asyncio.get_running_loop()
        if self._queue.put(submitted, loop.time()):
            # After everything that is ready to run now, so that exchanges that arrive together
            # share a batch.
            loop.call_soon(self._dispatch, False)

    def _dispatch(self, late: bool) -> None:
        """Send batches on the free connections that pay off. late: send at least one batch."""
        if late:
            self._timer = None
        loop = asyncio.get_running_loop()
        self._dispatch_apart(loop.time())
        connections = self._connections - self._large_turns.under_way
        busy = connections - len(self._free)
        while self._queue.common and self._free:
            total = self.under_way
            worth = min(connections, max(1, total // WORTH_A_CONNECTION))
            if busy >= worth and not late:
                break
            taken = self._queue.take(min(MOST_IN_BATCH, -(-total // max(1, worth))), loop.time())
            if not taken:
                break
            self._batch_at = loop.time()
            self._start_round(taken)
            busy += 1
            late = False
        waits = self._queue.common or self._queue.large
        if waits and self._free and self._timer is None:
            self._timer = loop.call_later(MOST_DELAY_S, self._dispatch, True)

    def _dispatch_apart(self, now: float) -> None:
        """Send the next large exchange, if one is due and a connection is free."""
        if self._large_turns.under_way or not self._free:
            return
        if self._is_busy(now) and self._large_turns.wait_s(now):
            return
        submitted = self._queue.take_large(now)
        if submitted is not None:
            self._large_turns.begin(now)
            self._start_round([submitted], apart=True)

    def _is_busy(self, now: float) -> bool:
        """Return whether others ask for something too."""
        return bool(self._queue.common) or now - self._batch_at < BUSY_S

    def _start_round(self, taken: list[Submitted], *, apart: bool = False) -> None:
        self._in_statements += len(taken)
        steps = self._round(self._free.pop(), taken, apart=apart)
        round_ = asyncio.get_running_loop().create_task(steps)
        self._rounds.add(round_)
        round_.add_done_callback(self._rounds.discard)

    async def _round(
        self, connection: AsyncConnection, taken: list[Submitted], *, apart: bool
    ) -> None:
        """Run one batch on a connection, then let the queue go on."""
        loop = asyncio.get_running_loop()
        try:
            if apart and (taken[0].parts is not None or self._is_busy(loop.time())):
                await self._answer_part(connection, taken[0])
            else:
                await self._answer(connection, taken)
        except BaseException as error:
            # Whatever it is, nobody may wait for an answer that will not come.
            _fail(taken, TransportFailed(f"the exchange was broken off: {error!r}"))
            raise
        finally:
            now = loop.time()
            if apart:
                self._large_turns.end(now)
            self._in_statements -= len(taken)
            if apart and taken[0].callback is not None:
                self._queue.put_back(taken[0])  # its next part
            else:
                self._queue.done(taken, now)
            self._free.append(connection)
            if self._queue:
                # First let those that just got their answers submit their next exchanges.
                loop.call_soon(self._dispatch, False)

    async def _answer_part(self, connection: AsyncConnection, submitted: Submitted) -> None:
        """Run the next part of a large exchange; resolve it after the last, or if one fails."""
        if submitted.parts is None:
            submitted.parts = Parts(submitted.exchange)
        outcomes: list[Answer | Exception] = []
        await self._answer(connection, [Submitted(submitted.parts.next(), outcomes.append)])
        (outcome,) = outcomes
        whole = submitted.parts.answered(outcome) if isinstance(outcome, Answer) else outcome
        if whole is not None:
            submitted.resolve(whole)

    async def _answer(self, connection: AsyncConnection, batch: list[Submitted]) -> None:
        """Run a batch and resolve its exchanges.

        If one of them is at fault, the others are repeated, and keep their verdicts.
        """
        verdicts: Verdicts = {}
        timelines: set[int] = set()

        async def run(some: list[Submitted]) -> None:
            exchanges = [submitted.exchange for submitted in some]
            answers = await self._run_exchanges(connection, exchanges, verdicts, timelines)
            timeline = min(timelines, default=0)
            for submitted, answer in zip(some, answers, strict=True):
                if isinstance(answer, Answer):
                    answer.timeline = timeline
                submitted.resolve(answer)

        await in_halves(batch, run, self._refuse, _is_of_one)

    def _refuse(self, batch: list[Submitted], error: Exception) -> None:
        if isinstance(error, TransportFailed):
            _fail(batch, error)
            return
        # A batch that fails is expensive: this session's next exchange is sent alone.
        self._queue.set_apart(batch[0].exchange.session, asyncio.get_running_loop().time())
        if isinstance(error, (RecursionError, ValueError)):  # from decoding
            log.warning("an answer cannot be decoded: %r", error)
            error = AnswerUnreadable("an answer cannot be decoded")
        elif not isinstance(error, (Refused, SessionLost)):
            log.error("an exchange failed", exc_info=error)
            error = Refused(f"a defect of the queue: {error!r}")
        _fail(batch, error)

    async def _run_exchanges(
        self,
        connection: AsyncConnection,
        exchanges: list[ExchangeRequest],
        verdicts: Verdicts,
        timelines: set[int],
    ) -> list[Answer | SessionLost]:
        steps = self._exchanges.steps(exchanges, verdicts)
        with as_transport_errors():
            try:
                query = next(steps)
                while True:
                    try:
                        rows = await connection.rows(query.name, **query.values)
                    except Exception as error:  # noqa: BLE001  # raised again, or the steps go on
                        query = steps.throw(error)
                        continue
                    timelines.add(connection.timeline)
                    query = steps.send(rows)
            except StopIteration as end:
                answers: list[Answer | SessionLost] = end.value
                return answers
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
                await connection.check_installed()  # rows of another release may differ
                raise


async def answered(submit: Callable[[Callback], Submitted]) -> Answer:
    """Submit an exchange with a callback; wait for the answer, or abandon it if nobody waits."""
    answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    submitted = submit(partial(resolve, answer))
    try:
        return await answer
    finally:
        submitted.abandon()


def _is_of_one(error: Exception) -> bool:
    return not isinstance(error, TransportFailed)


def _fail(batch: list[Submitted], error: Exception) -> None:
    for submitted in batch:
        submitted.resolve(error)
