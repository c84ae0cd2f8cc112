"""Heartbeats: encoded for the server-side functions, and sent together.

A heartbeat is not urgent: it must arrive long before a lease runs out, and its answer (leases that
are no longer valid, a drain) may be late. Heartbeats that arrive within three seconds therefore
share a statement, and 20,000 agents cost the database one statement every three seconds.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from taskq.db.catalogue import array
from taskq.db.connections import Database, Row
from taskq.dispatch.endings import Closing, resolve
from taskq.dispatch.fair_queue import LargeTurns
from taskq.dispatch.halves import in_halves
from taskq.dispatch.transport_errors import as_transport_errors
from taskq.model.errors import UsageError
from taskq_agent.campaign_news import CampaignBan
from taskq_agent.errors import Refused, SessionLost, TransportFailed
from taskq_agent.held_claims import LeftOfClaim
from taskq_agent.json_limits import has_nul_escape
from taskq_agent.protocol import Heartbeat, HeartbeatAnswer, Held, Orders
from taskq_agent.task_messages import FollowingAnswer, UpdatingHeartbeat
from taskq_agent.text import is_unicode
from taskq_agent.wire import check, dumps, members

log = logging.getLogger(__name__)

#: Seconds for which heartbeats wait for others.
BATCH_S: Final = 3.0
#: Heartbeats in a statement at most, which then takes about 20 ms.
MOST_BEATS: Final = 2_000
#: Characters in a statement at most, unless a single heartbeat has more.
MOST_CHARS: Final = 4_000_000
#: A heartbeat that names more than this is large: it is sent alone, after all others.
LARGE_NAMED: Final = 1_000
#: The rest after a large heartbeat, in durations of its statement. If it names several times
#: `LARGE_NAMED`, the rest is as many times longer; see `LargeTurns`. So a node with many slots
#: hardly waits, and one that names as many as it may seldom keeps others waiting.
REST_FACTOR: Final = 3.0
#: Seconds that a statement may take. After that the agents get `TransportFailed` and try again.
ANSWER_S: Final = 20.0
#: What `draining` returns if no session is to drain, which is nearly always so.
NOBODY: Final = array(())


def draining(rows: Iterable[Row | None]) -> str:
    """Return the draining sessions in rows of `beat()`, in the form that `drain_reasons` takes."""
    return array(row["session_id"] for row in rows if row is not None and row["drain"])


def outcome(
    row: Row | None, timeline: int, why: str = "", stamp: str = ""
) -> HeartbeatAnswer | SessionLost:
    """Return the answer in a row of `beat()`; None if it says nothing about the session.

    why: the reason to drain, if `drain_reasons` gives one. stamp: that of the database now.
    """
    if row is None:
        return HeartbeatAnswer(timeline=timeline, stamp=stamp)
    if row["ended"]:
        return SessionLost("the session has ended")
    stop = tuple(Held(campaign, task, lease) for campaign, task, lease in row["stop"] or ())
    orders = Orders(drain=row["drain"], why=why)
    left = tuple(
        LeftOfClaim(campaign, lease, tuple(tasks)) for campaign, lease, tasks in row["kept"] or ()
    )
    banned = campaign_bans(row["banned"])
    answer = HeartbeatAnswer(stop, orders, timeline, row["suspect"] or "", left, banned, stamp)
    if not row["follow"]:
        return answer
    follow = tuple(Held(campaign, task, lease) for campaign, task, lease in row["follow"])
    return FollowingAnswer(**vars(answer), follow=follow)


def campaign_bans(found: list[dict[str, str]] | None) -> tuple[CampaignBan, ...]:
    """Return the bans that a session is noted with, as `session_bans()` returns them."""
    return tuple(CampaignBan(**ban) for ban in found or ())


def later_stamps(shown: Iterable[str], stamp: str) -> list[str]:
    """Return the stamps that agents have shown and that look later than the database's own."""
    return [it for it in shown if it > stamp]


def log_set_back(rows: Sequence[Row]) -> None:
    """Log that the stamps of agents have shown that the database was set back, if they have."""
    if rows[0]["gone_s"] is not None:
        log.error(
            "up to %.0f s of acknowledged work are gone, as agents show: the database was set back;"
            " `taskq explain` says what to do",
            rows[0]["gone_s"],
        )


def encoded(heartbeat: Heartbeat) -> str:
    """Return a heartbeat as JSON for `beat()`; raise `Refused` if no database can store it.

    Its limits are not checked here, which would take as long as the rest: `beat()` refuses what it
    cannot read. Heartbeats that share a statement are checked first, see `HeartbeatBatcher`.
    """
    if isinstance(heartbeat, UpdatingHeartbeat):
        heartbeat = replace(heartbeat, updates=())
    return _written(replace(heartbeat, stamp="") if heartbeat.stamp else heartbeat)


def encoded_updates(heartbeat: Heartbeat) -> str:
    """Return the updates of a heartbeat as elements of the array for `note_updates()`.

    Empty if it has none, which is nearly always so.
    """
    if not isinstance(heartbeat, UpdatingHeartbeat):
        return ""
    session = {"session": heartbeat.session}
    return ",".join(_written(session | members(update)) for update in heartbeat.updates)


def _written(message: Any) -> str:
    try:
        text = dumps(message)
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused(f"a heartbeat cannot be written as JSON: {error}") from error
    if not is_unicode(text) or has_nul_escape(text):
        raise Refused("NUL or half a surrogate pair in a heartbeat, which no database can store")
    return text


@dataclass(slots=True)
class _Waiting:
    """The newest heartbeat of a session, and the futures of all calls that wait for its answer.

    named: how many attempts it names. updates: of its attempts, as `encoded_updates` returns them.
    stamp: the latest of the session.
    """

    session: int
    text: str
    named: int
    updates: str
    stamp: str
    answers: list[asyncio.Future[HeartbeatAnswer]]

    @property
    def large(self) -> bool:
        return self.named > LARGE_NAMED

    def resolve(self, outcome: HeartbeatAnswer | Exception) -> None:
        for answer in self.answers:
            resolve(answer, outcome)


def _is_of_one(error: Exception) -> bool:
    return isinstance(error, Refused) and isinstance(error.__cause__, UsageError)


class HeartbeatBatcher(Closing):
    """Batches the heartbeats of one asyncio loop; use it as an asynchronous context manager.

    A heartbeat is answered after its statement has committed, and is idempotent.
    """

    def __init__(
        self,
        database: Database,
        batch_s: float = BATCH_S,
        *,
        most: int = MOST_BEATS,
    ) -> None:
        """Open nothing yet.

        batch_s: seconds for which a heartbeat waits for others. most: heartbeats in a statement.
        """
        self._connection = database.dedicated_async_connection()
        self._batch_s = batch_s
        self._most = most
        self._waiting: dict[int, _Waiting] = {}
        self._due: asyncio.TimerHandle | None = None
        self._round: asyncio.Task[None] | None = None
        self._large_turns = LargeTurns(REST_FACTOR)

    @property
    def waiting(self) -> int:
        """How many sessions' heartbeats wait for a statement."""
        return len(self._waiting)

    async def close(self) -> None:
        """Send the waiting heartbeats without delay, then close the connection."""
        while self._round is not None or self._waiting:
            self._large_turns.cut_short()
            self._dispatch()
            if self._round is not None:
                await asyncio.wait([self._round])  # which does not cancel it if it is cancelled
        await self._connection.close()

    async def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        """Renew a session, and compare what it holds with what the database knows.

        If two heartbeats of a session wait, the later one is sent, and both get its answer. Raise
        `SessionLost` if the session has ended, `TransportFailed` if the database does not answer
        (repeat it), `Refused` if there is no point in repeating.
        """
        try:
            check(heartbeat)
        except ValueError as error:
            raise Refused(str(error)) from error
        text, updates = encoded(heartbeat), encoded_updates(heartbeat)
        named = len(heartbeat.held) + len(heartbeat.claims)
        return await self.send(heartbeat.session, text, named, updates, heartbeat.stamp)

    async def send(
        self, session: int, text: str, named: int, updates: str = "", stamp: str = ""
    ) -> HeartbeatAnswer:
        """Send a checked and encoded heartbeat; see `heartbeat`.

        named: how many attempts it names. updates: its updates, as `encoded_updates` returns them.
        stamp: what the agent shows.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[HeartbeatAnswer] = loop.create_future()
        waiting = self._waiting.get(session)
        if waiting is None:
            self._waiting[session] = _Waiting(session, text, named, updates, stamp, [answer])
        else:
            waiting.text, waiting.named, waiting.updates = text, named, updates
            waiting.stamp = max(waiting.stamp, stamp)
            waiting.answers.append(answer)
        if self._round is None:
            if len(self._waiting) >= self._most:
                self._dispatch()
            elif self._due is None:
                self._due = loop.call_later(self._batch_s, self._dispatch)
        return await answer

    def _dispatch(self) -> None:
        """Send the waiting heartbeats; if a statement is under way, after that one."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if self._round is None and self._waiting:
            self._round = asyncio.get_running_loop().create_task(self._send())
            self._round.add_done_callback(self._sent)

    def _sent(self, round_: asyncio.Task[None]) -> None:
        self._round = None
        if not round_.cancelled() and (error := round_.exception()) is not None:
            log.error("heartbeats were broken off", exc_info=error)
        common = sum(not beat.large for beat in self._waiting.values())
        if common >= self._most:
            self._dispatch()
        elif self._waiting and self._due is None:
            loop = asyncio.get_running_loop()
            delay_s = self._batch_s
            if not common:
                delay_s = min(delay_s, self._large_turns.wait_s(loop.time()))
            self._due = loop.call_later(delay_s, self._dispatch)

    def _next_batch(self) -> list[_Waiting]:
        """Take the next batch, without the heartbeats whose answers nobody waits for."""
        batch: list[_Waiting] = []
        size = 0
        common = (beat for beat in self._waiting.values() if not beat.large)
        taken = list(itertools.islice(common, self._most))
        # If only large ones wait, take one of them.
        if not taken and not self._large_turns.wait_s(asyncio.get_running_loop().time()):
            taken = [*self._waiting.values()][:1]
        for beat in taken:
            size += len(beat.text) + len(beat.updates)
            if batch and size > MOST_CHARS:
                break
            batch.append(beat)
        for beat in batch:
            del self._waiting[beat.session]
        return [beat for beat in batch if not all(answer.done() for answer in beat.answers)]

    async def _send(self) -> None:
        batch = self._next_batch()
        loop = asyncio.get_running_loop()
        large = bool(batch) and batch[0].large
        try:
            if large:
                self._large_turns.begin(loop.time())
            if batch:
                await in_halves(batch, self._answer, self._refuse, _is_of_one)
        except BaseException as error:
            # Whatever it is, nobody may wait for an answer that will not come.
            for beat in batch:
                beat.resolve(TransportFailed(f"the heartbeat was broken off: {error!r}"))
            raise
        finally:
            if large:
                self._large_turns.end(loop.time(), batch[0].named / LARGE_NAMED)

    async def _answer(self, batch: list[_Waiting]) -> None:
        """Send a batch in one statement."""
        rows, reasons, stamp = await self._run_statement(batch)
        rows_by_session = {row["session_id"]: row for row in rows}
        for beat in batch:
            row, why = rows_by_session.get(beat.session), reasons.get(beat.session, "")
            beat.resolve(outcome(row, self._connection.timeline, why, stamp))

    @staticmethod
    def _refuse(batch: list[_Waiting], error: Exception) -> None:
        if isinstance(error, Refused):
            log.error("heartbeats of %d sessions were refused: %s", len(batch), error)
        elif not isinstance(error, TransportFailed):
            raise error
        for beat in batch:
            beat.resolve(error)

    async def _run_statement(self, batch: list[_Waiting]) -> tuple[list[Row], dict[int, str], str]:
        """Return the rows of `beat()`, why sessions among them are to drain, and a new stamp."""
        heartbeats = f"[{','.join(beat.text for beat in batch)}]"
        updates = ",".join(beat.updates for beat in batch if beat.updates)
        with as_transport_errors():
            try:
                stamps = [beat.stamp for beat in batch]
                return await asyncio.wait_for(self._renew(heartbeats, updates, stamps), ANSWER_S)
            except asyncio.TimeoutError:
                raise TransportFailed(
                    f"the database has not answered a heartbeat in {ANSWER_S:g} s; try again"
                ) from None

    async def _renew(
        self, heartbeats: str, updates: str, stamps: Sequence[str]
    ) -> tuple[list[Row], dict[int, str], str]:
        rows = await self._connection.rows("beat", beats=heartbeats)
        stamp = str((await self._connection.rows("stamp"))[0]["stamp"])
        if later := later_stamps(stamps, stamp):
            log_set_back(await self._connection.rows("note_stamps", stamps=later))
        if updates:
            await self._connection.rows("note_updates", updates=f"[{updates}]")
        if (sessions := draining(rows)) == NOBODY:
            return rows, {}, stamp
        reasons = await self._connection.rows("drain_reasons", sessions=sessions)
        return rows, {row["session_id"]: row["why"] for row in reasons}, stamp


def timeline_of(heartbeat: asyncio.Task[HeartbeatAnswer]) -> int:
    """Return the timeline of the server that answered a heartbeat, 0 if none has yet."""
    answered = heartbeat.done() and not heartbeat.cancelled() and heartbeat.exception() is None
    return heartbeat.result().timeline if answered else 0


def ends_wait(heartbeat: asyncio.Task[HeartbeatAnswer]) -> bool:
    """Return whether a heartbeat has found that its session has ended or has to drain."""
    error = heartbeat.exception()
    if error is None:
        return heartbeat.result().orders.drain
    return isinstance(error, SessionLost)
