"""Who has to do with a front, one step at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from taskq.db.connections import Database, Row
from taskq.front.address import FrontAddress
from taskq.front.buffer import Buffer, Replay
from taskq.front.entries import Entry, FrontState, open_entry
from taskq.front.lists import pop
from taskq.front.redis import Argument, FrontDown, RedisLink
from taskq.front.refiller import Refiller
from taskq_agent.protocol import Task

#: The lists are looked at in each turn.
_BETWEEN_TURNS_S: Final = 1.0

T = TypeVar("T")


class Stage(asyncio.SelectorEventLoop):
    """A loop on which time can be made to pass; nothing moves there unless the test says so."""

    ahead_s = 0.0

    def time(self) -> float:
        """Return the seconds of this stage."""
        return super().time() + self.ahead_s

    def play(self, scene: Awaitable[T]) -> T:
        """Run to the end."""
        return self.run_until_complete(scene)


class UnsureLink(RedisLink):
    """A link that loses an answer on demand, and on which waiting takes no time."""

    def __init__(self, address: FrontAddress, stage: Stage) -> None:
        super().__init__(address, answer_s=20.0)
        self._stage = stage
        self.losing = False

    async def run(self, name: str, keys: Sequence[bytes], args: Sequence[Argument]) -> Any:
        """Run a script, of which nobody may learn."""
        answer = await super().run(name, keys, args)
        if self.losing:
            self.losing = False
            await self.close()
            raise FrontDown("the answer got lost")
        return answer

    async def wait(self, key: bytes, seconds: float) -> bool:
        """Let the time pass, and take what is there."""
        self._stage.ahead_s += seconds
        return await super().wait(key, 0.001)


class Statement(NamedTuple):
    """A statement that a refiller has run; state: the front as it knew it, if it is at work."""

    name: str
    values: dict[str, Any]
    rows: list[Row]
    state: FrontState | None


class SteppedRefiller(Refiller):
    """A refiller that takes a turn on demand, and leases little in each.

    seen: gets its statements. at_gate: whether it stands between a lease and the push, where it can
    be held and ended.
    """

    def __init__(
        self,
        database: Database,
        address: FrontAddress,
        stage: Stage,
        seen: Callable[[Statement], None],
    ) -> None:
        super().__init__(database, address)
        self._stage = stage
        self._seen = seen
        self._link = self.link = UnsureLink(address, stage)
        self._most = 1
        self._gate = asyncio.Event()
        self._arrived = asyncio.Event()
        self._turning: asyncio.Task[None] | None = None
        self.defects: list[Exception] = []

    @property
    def at_gate(self) -> bool:
        """Whether a turn is under way."""
        return self._turning is not None

    async def step(self, most: int, *, hold: bool) -> None:
        """Take a turn, in which to lease so much at most; hold: not to the end."""
        assert self._turning is None
        self._stage.ahead_s += _BETWEEN_TURNS_S
        self._most = most
        self._ending.clear()
        self._arrived.clear()
        if hold:
            self._gate.clear()
        else:
            self._gate.set()
        self._turning = asyncio.create_task(self._work())
        arriving = asyncio.create_task(self._arrived.wait())
        await asyncio.wait({self._turning, arriving}, return_when=asyncio.FIRST_COMPLETED)
        arriving.cancel()
        if not hold or self._turning.done():
            await self.go_on()

    async def go_on(self) -> None:
        """Take the turn to its end."""
        turning, self._turning = self._turning, None
        self._gate.set()
        if turning is not None:
            await turning

    async def crash(self) -> None:
        """Be gone, with all that was in hand."""
        if self._turning is not None:
            self._turning.cancel()
            await asyncio.wait({self._turning})
        await self._link.close()
        await self._connection.close()

    async def _turn(self) -> None:
        try:
            await super()._turn()
        finally:
            self._ending.set()

    async def _pause(self, seconds: float) -> None:
        self._stage.ahead_s += seconds

    async def _back_off_from(self, error: Exception) -> None:
        if not isinstance(error, FrontDown):  # nothing but the front is broken here
            self.defects.append(error)
        await super()._back_off_from(error)

    async def _rows(self, name: str, /, **values: Any) -> list[Row]:
        leasing = name == "lease_ahead"
        if leasing:
            values["most"] = min(values["most"], self._most)
            self._ending.set()  # one lease is enough for a turn
            await self._connection.close()  # a hint would leave out what waits again for a while
        rows = await super()._rows(name, **values)
        state = self._filler.lists.state if self._filler else None
        self._seen(Statement(name, values, rows, state))
        if leasing:
            self._arrived.set()
            await self._gate.wait()
        return rows


class GatewayDouble:
    """Serves claims out of the lists, and of nothing else, as a `Pool` does for many at a time."""

    def __init__(self, database: Database, address: FrontAddress, stage: Stage) -> None:
        self._database = database
        self.link = UnsureLink(address, stage)
        self.stale = self.forged = 0
        self.state = self._read()
        self.crash()

    def look(self) -> None:
        """Learn what the front is now; nothing in hand is of an older epoch."""
        self.state = self._read()

    def crash(self) -> None:
        """Forget all that was in hand."""
        self._buffers: dict[int, Buffer] = {}
        self._repeats = Replay()

    async def claim(
        self, session: int, lease: str, want: int, campaign: int, *, late_s: float = 0.0
    ) -> list[Task]:
        """Return tasks, none if the front has none, or fails."""
        now = time.monotonic() + late_s
        known = self._repeats.get(session, lease, now)
        if known is not None:
            again = [open_entry(raw, self.state) for raw in known]
            return [value.task for value in again if value is not None]
        buffer = self._buffers.setdefault(campaign, Buffer(campaign, now))
        if not buffer:
            buffer.put(await self._popped(campaign, want + 1))
        share = buffer.claim(want, now, self._opened)
        if share:
            self._repeats.put(session, lease, share)
        return [entry.task for entry in share]

    def in_hand(self) -> list[Task]:
        """Let go of what is in hand, to give it back."""
        entries = [raw for buffer in self._buffers.values() for raw in buffer.emptied()]
        opened = [open_entry(raw, self.state) for raw in entries]
        return [value.task for value in opened if value is not None]

    async def _popped(self, campaign: int, count: int) -> list[bytes]:
        try:
            popped = await pop(self.link, self.state, [(campaign, count)])
        except FrontDown:
            return []
        if popped is None:
            self.look()
            return []
        return popped[0].entries

    def _opened(self, raw: bytes, campaign: int, now: float) -> Entry | None:
        entry = open_entry(raw, self.state)
        if entry is None or entry.task.campaign != campaign:
            self.forged += 1
            return None
        if entry.until <= now:
            self.stale += 1
            return None
        return entry

    def _read(self) -> FrontState:
        return FrontState.from_row(self._database.row("front_state") or {}, time.monotonic())
