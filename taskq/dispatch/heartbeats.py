"""Many sessions' beats, few statements: those that arrive within three seconds share one.

A beat may take its time: it must be there long before a lease has run out, and what it is answered
(leases that are void, a drain) is not urgent. So beats are gathered for much longer than exchanges,
and what 20,000 agents say costs the database one statement every three seconds.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from dataclasses import dataclass
from typing import Final

from taskq.db.connections import Database, Row
from taskq.dispatch.beats import encoded, outcome
from taskq.dispatch.closing import Closing
from taskq.dispatch.exchange import told_as_transport
from taskq.errors import UsageError
from taskq_agent.errors import Refused, TransportFailed
from taskq_agent.protocol import Beat, BeatAnswer

log = logging.getLogger(__name__)

GATHER_S: Final = 3.0
#: Beats in a statement at most, which takes some 20 ms then.
MOST_BEATS: Final = 2_000
#: ... and characters, unless a single one has more.
MOST_CHARS: Final = 4_000_000
#: A beat that names more than this goes by itself, after those of all others; the next such one
#: after so many times what that has taken.
LARGE_NAMED: Final = 1_000
REST: Final = 3.0
#: Seconds that a statement may take. What hangs for longer is told to agents, who try again.
ANSWER_S: Final = 20.0


@dataclass(slots=True)
class _Waiting:
    """The newest beat of a session, and all who wait for an answer.

    large: whether it names so much that it is dear.
    """

    session: int
    text: str
    large: bool
    answers: list[asyncio.Future[BeatAnswer]]

    def settle(self, outcome: BeatAnswer | Exception) -> None:
        for answer in self.answers:
            if answer.done():
                continue
            if isinstance(outcome, Exception):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)


class Beats(Closing):
    """Gathers the beats of one asyncio loop; use it as an asynchronous context manager.

    A beat is answered after its statement has committed, and may be repeated as it is.
    """

    def __init__(
        self,
        database: Database,
        gather_s: float = GATHER_S,
        *,
        most: int = MOST_BEATS,
        answer_s: float = ANSWER_S,
    ) -> None:
        """Open nothing yet.

        gather_s: for how long a beat waits for others; most: beats in a statement; answer_s: for
        how long a statement may take.
        """
        self._line = database.async_line()
        self._gather_s = gather_s
        self._most = most
        self._answer_s = answer_s
        self._waiting: dict[int, _Waiting] = {}
        self._due: asyncio.TimerHandle | None = None
        self._round: asyncio.Task[None] | None = None
        # For how long large ones still wait when one has been sent.
        self._rest_s = 0.0

    @property
    def timeline(self) -> int:
        """Of the server that has answered last; see `Line`."""
        return self._line.timeline

    @property
    def waiting(self) -> int:
        """How many sessions' beats wait for a statement."""
        return len(self._waiting)

    async def close(self) -> None:
        """Send what waits, at once, and close the connection."""
        while self._round is not None or self._waiting:
            self._go()
            if self._round is not None:
                await asyncio.wait([self._round])  # which does not cancel it if it is cancelled
        await self._line.close()

    async def beat(self, beat: Beat) -> BeatAnswer:
        """Keep a session alive, and square what it holds.

        Of two beats of a session that wait, the later one is sent, and both get its answer. Raise
        `SessionLost` if the session has ended, `TransportFailed` if the database does not answer
        (repeat it), `Refused` if there is no point in repeating.
        """
        text = encoded(beat)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[BeatAnswer] = loop.create_future()
        waiting = self._waiting.get(beat.session)
        large = len(beat.held) > LARGE_NAMED
        if waiting is None:
            self._waiting[beat.session] = _Waiting(beat.session, text, large, [answer])
        else:
            waiting.text, waiting.large = text, large
            waiting.answers.append(answer)
        if self._round is None:
            if len(self._waiting) >= self._most:
                self._go()
            elif self._due is None:
                self._due = loop.call_later(self._gather_s, self._go)
        return await answer

    def _go(self) -> None:
        """Send what waits, unless a statement is on its way: then it follows that one."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if self._round is None and self._waiting:
            self._round = asyncio.get_running_loop().create_task(self._send())
            self._round.add_done_callback(self._sent)

    def _sent(self, round_: asyncio.Task[None]) -> None:
        self._round = None
        if not round_.cancelled() and (error := round_.exception()) is not None:
            log.error("beats were broken off", exc_info=error)
        if len(self._waiting) >= self._most:
            self._go()
        elif self._waiting and self._due is None:
            delay_s = self._gather_s
            if all(one.large for one in self._waiting.values()):
                delay_s = min(delay_s, self._rest_s)
            self._due = asyncio.get_running_loop().call_later(delay_s, self._go)

    def _taken(self) -> list[_Waiting]:
        """Take what goes into one statement; what nobody waits for any more need not be said."""
        some: list[_Waiting] = []
        size = 0
        common = (one for one in self._waiting.values() if not one.large)
        # If there is nothing but large ones, one of them.
        for one in list(itertools.islice(common, self._most)) or [*self._waiting.values()][:1]:
            size += len(one.text)
            if some and size > MOST_CHARS:
                break
            some.append(one)
        for one in some:
            del self._waiting[one.session]
        return [one for one in some if not all(answer.done() for answer in one.answers)]

    async def _send(self) -> None:
        some = self._taken()
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            if some:
                await self._answer(some)
            is_large = any(one.large for one in some)
            self._rest_s = REST * (loop.time() - began) if is_large else 0.0
        except BaseException as error:
            # Whatever it is, nobody waits for an answer that will not come.
            for one in some:
                one.settle(TransportFailed(f"the beat was broken off: {error!r}"))
            raise

    async def _answer(self, some: list[_Waiting]) -> None:
        """Send some beats in one statement; if one of them is at fault, let it not harm others."""
        try:
            rows = await self._told(some)
        except TransportFailed as error:
            for one in some:
                one.settle(error)
        except Refused as error:
            if len(some) > 1 and isinstance(error.__cause__, UsageError):
                half = len(some) // 2
                await self._answer(some[:half])
                await self._answer(some[half:])
                return
            log.error("beats of %d sessions were refused: %s", len(some), error)  # noqa: TRY400 - it is no defect here
            for one in some:
                one.settle(error)
        else:
            told = {row["session_id"]: row for row in rows}
            for one in some:
                one.settle(outcome(told.get(one.session), self._line.timeline))

    async def _told(self, some: list[_Waiting]) -> list[Row]:
        beats = f"[{','.join(one.text for one in some)}]"
        with told_as_transport():
            try:
                return await asyncio.wait_for(
                    self._line.rows("beat", beats=beats), timeout=self._answer_s
                )
            except asyncio.TimeoutError:
                raise TransportFailed(
                    f"the database has not answered a beat in {self._answer_s:g} s; try again"
                ) from None
