"""Many agents, few statements: exchanges that arrive together share one (group commit).

A statement of the queue costs far more to set up than one task more or less costs in it, and one
commit waits for the disk once, for however many tasks. So exchanges that arrive while a statement
is under way are gathered, and go together when it has been answered; one that finds none under way
goes at once. Where there are many, several statements are under way, on connections of their own;
and nobody waits for longer than 10 ms while a connection is free. What is dear by itself goes apart
from all others, see `batching`, and takes a part of one connection's time while others ask.

The technique is the group commit of databases (DeWitt et al., Implementation techniques for main
memory database systems, 1984).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from taskq.db.connections import AsyncConnection, Database
from taskq.dispatch.campaign_cache import CampaignCache
from taskq.dispatch.closing import Closing
from taskq.dispatch.exchange import Asked, Exchanges, Verdicts, asked, told_as_transport
from taskq.dispatch.fair_queue import FairQueue
from taskq.dispatch.fair_share import MOST_GATHERED, Scope
from taskq_agent.errors import Refused, SessionLost, TransportFailed
from taskq_agent.protocol import Answer, Request

log = logging.getLogger(__name__)

LINES: Final = 4
#: A further connection is used for so many exchanges: two half as large cost more than one.
WORTH_A_LINE: Final = 32
#: ... or when the statements on their way take longer than this: one of them may hang.
PATIENCE_S: Final = 0.01
#: After a large exchange the next one waits for so many times what that has taken, unless nobody
#: else asks for anything.
REST: Final = 5.0


@dataclass(slots=True)
class Submitted:
    """An exchange on its way. tell: takes the answer or an error, once; None when that is over.

    part: an exchange that is a part of this one.
    """

    asked: Asked
    tell: Callable[[Answer | Exception], None] | None
    part: Submitted | None = None

    def give_up(self) -> None:
        """Tell nobody; what has not begun is left."""
        self.tell = None
        if self.part is not None:
            self.part.give_up()

    def settle(self, outcome: Answer | Exception) -> None:
        """Tell how it ended, unless that is known or nobody waits for it any more."""
        # Let go of it first: who is told most often refers to this, and a circle of thousands a
        # second is work for the collector of garbage.
        tell, self.tell = self.tell, None
        if tell is not None:
            try:
                tell(outcome)
            except Exception:
                # The others who share the statement must not suffer from it.
                log.exception("an answer could not be told")


class Batcher(Closing):
    """Gathers the exchanges of one asyncio loop; use it as an asynchronous context manager.

    An exchange is answered after its statement has committed, as in `DirectTransport.exchange`,
    and may be repeated in the same way. What one exchange does wrong is told to that one only.
    """

    def __init__(
        self, database: Database, *, lines: int = LINES, most: int = MOST_GATHERED
    ) -> None:
        """lines: connections at most, opened when first needed; most: exchanges in a statement."""
        self._free = [database.dedicated_async_connection() for _ in range(lines)]
        self._lines = lines
        self._most = most
        self._exchanges = Exchanges()
        self._batches: FairQueue[Submitted] = FairQueue()
        self._speaking = 0
        # A large exchange is under way; the next one goes then at the earliest.
        self._is_apart = False
        self._apart_at = 0.0
        self._rounds: set[asyncio.Task[None]] = set()
        self._late: asyncio.TimerHandle | None = None
        #: The highest of the servers that have answered; see `Line`.
        self.timeline = 0

    async def close(self) -> None:
        """Finish what was asked and close the connections."""
        while self._rounds or self._batches:
            self._go(True)
            if self._rounds:
                await asyncio.wait(self._rounds)  # which does not cancel them if it is cancelled
        if self._late is not None:
            self._late.cancel()
        for line in self._free:
            await line.close()

    async def exchange(self, request: Request, serving: Scope) -> Answer:
        """Report and claim.

        Raise `SessionLost` if the session has ended, `TransportFailed` if the database does not
        answer (repeat it), `Refused` if there is no point in repeating.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        submitted = self.submit(asked(request, serving), partial(settle, answer))
        try:
            return await answer
        finally:
            submitted.give_up()

    def forget(self, serving: Scope) -> None:
        """Look anew what can be claimed in a serving, at the next claim."""
        self._exchanges.forget(serving)

    @property
    def described(self) -> CampaignCache:
        """What is known of campaigns."""
        return self._exchanges.described

    @property
    def waiting(self) -> int:
        """How many exchanges wait for a statement."""
        return len(self._batches)

    @property
    def waiting_apart(self) -> int:
        """How many of them are large."""
        return self._batches.large

    @property
    def under_way(self) -> int:
        """How many exchanges wait for a statement or are in one."""
        return len(self._batches) + self._speaking

    def submit(self, exchange: Asked, tell: Callable[[Answer | Exception], None]) -> Submitted:
        """Report and claim; `tell` gets what `exchange` returns or raises.

        It is called from the round that answers many: futures would cost a twentieth of all that
        a gateway does.
        """
        submitted = Submitted(exchange, tell)
        self.put(submitted)
        return submitted

    def put(self, submitted: Submitted) -> None:
        """Report and claim; see `submit`."""
        loop = asyncio.get_running_loop()
        if self._batches.put(submitted, loop.time()):
            # After all that is ready to run now: exchanges that arrive together go together.
            loop.call_soon(self._go, False)

    def _go(self, late: bool) -> None:
        """Put what waits on free connections, as many of them as are worth it."""
        if late:
            self._late = None
        loop = asyncio.get_running_loop()
        self._go_apart(loop.time())
        lines = self._lines - self._is_apart
        busy = lines - len(self._free)
        while self._batches.common and self._free:
            total = self.under_way
            worth = min(lines, max(1, total // WORTH_A_LINE))
            if busy >= worth and not late:
                break
            taken = self._batches.take(min(self._most, -(-total // max(1, worth))), loop.time())
            if not taken:
                break
            self._begin(taken)
            busy += 1
            late = False
        waits = self._batches.common or self._batches.large
        if waits and self._free and self._late is None:
            self._late = loop.call_later(PATIENCE_S, self._go, True)

    def _go_apart(self, now: float) -> None:
        """Put the next large exchange on a connection, if it is its turn."""
        others = self._batches.common or self._speaking
        if self._is_apart or not self._free or (others and now < self._apart_at):
            return
        one = self._batches.take_large(now)
        if one is not None:
            self._is_apart = True
            self._begin([one], apart=True)

    def _begin(self, taken: list[Submitted], *, apart: bool = False) -> None:
        self._speaking += len(taken)
        steps = self._round(self._free.pop(), taken, apart=apart)
        round_ = asyncio.get_running_loop().create_task(steps)
        self._rounds.add(round_)
        round_.add_done_callback(self._rounds.discard)

    async def _round(self, line: AsyncConnection, taken: list[Submitted], *, apart: bool) -> None:
        """Exchange for some on a connection, and go on with what waits."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            await self._answer(line, taken, {}, set())
        except BaseException as error:
            # Whatever it is, nobody waits for an answer that will not come.
            _fail(taken, TransportFailed(f"the exchange was broken off: {error!r}"))
            raise
        finally:
            now = loop.time()
            if apart:
                self._is_apart = False
                self._apart_at = now + REST * (now - began)
            self._speaking -= len(taken)
            self._batches.done(taken, now)
            self._free.append(line)
            if self._batches:
                # After those who have just been answered have said what they want next.
                loop.call_soon(self._go, False)

    async def _answer(
        self,
        line: AsyncConnection,
        gathered: list[Submitted],
        verdicts: Verdicts,
        timelines: set[int],
    ) -> None:
        """Exchange for some. timelines: of the servers that have given the verdicts."""
        try:
            exchanges = [one.asked for one in gathered]
            answers = await self._exchanged(line, exchanges, verdicts, timelines)
        except TransportFailed as error:
            _fail(gathered, error)
            return
        except Exception as error:
            if len(gathered) == 1:
                # A statement of many that fails is dear: the next one shall be this one's alone.
                now = asyncio.get_running_loop().time()
                self._batches.set_apart(gathered[0].asked.session, now)
                known = isinstance(error, (Refused, SessionLost))
                _fail(gathered, error if known else Refused(f"a defect of the queue: {error!r}"))
                if not known:
                    log.exception("an exchange failed")
                return
            # One of them is at fault; the others' may be repeated, and keep their verdicts.
            half = len(gathered) // 2
            for some in (gathered[:half], gathered[half:]):
                await self._answer(line, some, verdicts, timelines)
            return
        timeline = min(timelines, default=0)
        for one, answer in zip(gathered, answers, strict=True):
            if isinstance(answer, Answer):
                answer.timeline = timeline
            one.settle(answer)

    async def _exchanged(
        self, line: AsyncConnection, exchanges: list[Asked], verdicts: Verdicts, timelines: set[int]
    ) -> list[Answer | SessionLost]:
        steps = self._exchanges.steps(exchanges, verdicts)
        with told_as_transport():
            try:
                query = next(steps)
                while True:
                    rows = await line.rows(query.name, **query.values)
                    timelines.add(line.timeline)
                    self.timeline = max(self.timeline, line.timeline)
                    query = steps.send(rows)
            except StopIteration as end:
                answers: list[Answer | SessionLost] = end.value
                return answers


def settle(answer: asyncio.Future[Answer], outcome: Answer | Exception) -> None:
    """Give an outcome to a future, if it still waits for one."""
    if answer.done():
        return
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


def _fail(gathered: list[Submitted], error: Exception) -> None:
    for one in gathered:
        one.settle(error)
