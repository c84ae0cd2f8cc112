"""Many sessions' beats, few statements: those that arrive within three seconds share one.

A beat may take its time: it must be there long before a lease has run out, and what it is answered
(leases that are void, a drain) is not urgent. So beats are gathered for much longer than exchanges,
and what 20,000 agents say costs the database one statement every three seconds.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from taskq.db.connections import Database, Row
from taskq.dispatch.closing import Closing
from taskq.dispatch.exchange import told_as_transport
from taskq.errors import UsageError
from taskq_agent.errors import Refused, SessionLost, TransportFailed
from taskq_agent.protocol import Heartbeat, HeartbeatAnswer, Held, Orders, Trouble
from taskq_agent.text import clean

#: Attempts and claims that one beat may name. An agent has a few for each of its slots.
MOST_NAMED: Final = 10_000

_LEASE: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_MOST_CLASS_CHARS: Final = 200
_MOST_BIGINT: Final = 2**63 - 1
_MOST_INTEGER: Final = 2**31 - 1


def outcome(row: Row | None, timeline: int) -> HeartbeatAnswer | SessionLost:
    """Return what a session is told, by a server of this timeline; None: nothing in particular."""
    if row is None:
        return HeartbeatAnswer(timeline=timeline)
    if row["ended"]:
        return SessionLost("the session has ended")
    stop = tuple(Held(campaign, task, lease) for campaign, task, lease in row["stop"] or ())
    return HeartbeatAnswer(stop, Orders(drain=row["drain"]), timeline, row["suspect"] or "")


def encoded(beat: Heartbeat) -> str:
    """Return a beat as `beat()` takes it; raise `Refused` at what would fail there."""
    numbers = itertools.chain(
        [beat.session, beat.timeline],
        *((held.campaign, held.task) for held in beat.held),
        (one.campaign for one in beat.tally),
    )
    for number in numbers:
        if type(number) is not int or not 0 <= number <= _MOST_BIGINT:
            raise Refused(f"{number!r:.80} is no number of a session, campaign, task or timeline")
    for number in itertools.chain(*((one.done, one.failed) for one in beat.tally)):
        if type(number) is not int or not 0 <= number <= _MOST_INTEGER:
            raise Refused(f"{number!r:.80} is no number of attempts")
    if len(beat.held) + len(beat.pending) > MOST_NAMED:
        raise Refused(f"a beat names {MOST_NAMED} attempts and claims at most")
    _check_leases(held.lease for held in beat.held)
    _check_leases(beat.pending)
    if beat.drawn:
        _check_leases([beat.drawn])
    return json.dumps(
        {
            "session": beat.session,
            "held": [(held.campaign, held.task, held.lease) for held in beat.held],
            "pending": beat.pending,
            "drawn": beat.drawn or None,
            "timeline": beat.timeline,
            **({} if beat.trouble is None else {"trouble": _storable(beat.trouble)}),
            **(
                {"tally": [(one.campaign, one.done, one.failed) for one in beat.tally]}
                if beat.tally
                else {}
            ),
        },
        separators=(",", ":"),
    )


def _storable(trouble: Trouble) -> dict[str, Any]:
    """Return what is kept of it; whatever an agent says fits."""
    return {
        "failures": trouble.failures,
        "error_class": clean(trouble.error_class)[:_MOST_CLASS_CHARS],
        "try_in_s": trouble.try_in_s,
    }


def _check_leases(leases: Iterable[str]) -> None:
    for lease in leases:
        if not _LEASE.fullmatch(lease):
            raise Refused(f"{lease!r:.80} is no lease id; `LeaseIds` draws them")


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
    answers: list[asyncio.Future[HeartbeatAnswer]]

    def settle(self, outcome: HeartbeatAnswer | Exception) -> None:
        for answer in self.answers:
            if answer.done():
                continue
            if isinstance(outcome, Exception):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)


class HeartbeatBatcher(Closing):
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
        self._line = database.dedicated_async_connection()
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

    async def beat(self, beat: Heartbeat) -> HeartbeatAnswer:
        """Keep a session alive, and square what it holds.

        Of two beats of a session that wait, the later one is sent, and both get its answer. Raise
        `SessionLost` if the session has ended, `TransportFailed` if the database does not answer
        (repeat it), `Refused` if there is no point in repeating.
        """
        text = encoded(beat)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[HeartbeatAnswer] = loop.create_future()
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
