"""Operations on the lists of a front: survey, push, withdraw and pop, by scripts in Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from taskq.dispatch.exchange_request import Fence
from taskq.front.entries import FrontState, Keys, open_entry
from taskq.front.redis import Argument, FrontDown, RedisLink

#: Bytes of entries in one push, so that it ends within its time limit.
PUSH_BYTES: Final = 1 << 20
#: Calls after which `withdraw` gives up on a list that never gets empty.
_MOST_CALLS: Final = 1_000
_MOST_BEGINNINGS: Final = 5


class Survey(NamedTuple):
    """The lengths of the lists asked about, and the campaigns whose lists were found empty."""

    lengths: list[int]
    wanted: list[int]


class Lists:
    """The lists of one epoch. All methods raise `FrontDown`, also if an answer cannot be read.

    Where None or False means that Redis has another epoch, nothing was changed.
    """

    def __init__(self, link: RedisLink, state: FrontState) -> None:
        self.state = state
        self._link = link
        self._keys: Keys = state.keys

    @property
    def connected(self) -> bool:
        """Whether the connection is open; if so after an error, the server has done nothing."""
        return self._link.connected

    async def survey(self, campaigns: Sequence[int]) -> Survey | None:
        """Measure the lists; None if Redis has another epoch, or a key has a wrong type."""
        keys = [self._keys.state, self._keys.wanted, self._keys.wake]
        keys += map(self._keys.tasks, campaigns)
        answer = await self._link.run("survey", keys, [self.state.epoch])
        if answer is None:
            return None
        try:
            lengths, wanted = answer
            found = Survey([*map(int, lengths)], [*map(int, wanted)])
        except (TypeError, ValueError):
            raise _senseless(answer) from None
        if len(found.lengths) != len(campaigns):
            raise _senseless(answer)
        return found

    async def known(self) -> list[int]:
        """Return the campaigns that have lists, even if another refiller has filled them."""
        answer = await self._link.run("contents", [self._keys.state], ())
        try:
            _, marks, _ = answer
            return [*map(int, marks[::2])]
        except (TypeError, ValueError):
            raise _senseless(answer) from None

    async def push(
        self, campaign: int, low_water: int, entries: Sequence[bytes], *, first: bool = False
    ) -> bool:
        """Add entries in the order of their pops; return False if Redis has another epoch.

        first: before all others. See `push_chunks` for how many to add in one call.
        """
        keys = [self._keys.state, self._keys.tasks(campaign)]
        side = "left" if first else "right"
        words: list[Argument] = [self.state.epoch, campaign, low_water, side]
        words += entries
        return await self._link.run("push", keys, words) is not None

    async def withdraw(self, campaign: int) -> AsyncIterator[list[Fence]]:
        """Take all entries out of a list; yield the fences of the genuine ones in batches."""
        for _ in range(_MOST_CALLS):
            answer = await self._link.run("withdraw", [self._keys.tasks(campaign)], ())
            try:
                entries, left = answer
            except (TypeError, ValueError):
                raise _senseless(answer) from None
            yield self.fences(entries)
            if not left:
                break

    async def withdrawn(self, campaign: int) -> list[Fence]:
        """Take all entries out of a list before `begin`; return the fences of the genuine ones."""
        withdrawn: list[Fence] = []
        with suppress(FrontDown):  # if the key is not a list, `begin` removes it; else it fails too
            async for fences in self.withdraw(campaign):
                withdrawn += fences
        return withdrawn

    def fences(self, entries: Iterable[bytes]) -> list[Fence]:
        """Return the fences of the genuine entries among these."""
        opened = (open_entry(raw, self.state) for raw in entries)
        return [
            Fence(entry.task.campaign, entry.task.task, entry.task.lease)
            for entry in opened
            if entry is not None
        ]

    async def forget(self, campaigns: Sequence[int]) -> None:
        """Remove the low-water marks of empty lists."""
        keys = [self._keys.state, *map(self._keys.tasks, campaigns)]
        await self._link.run("forget", keys, [self.state.epoch, *campaigns])

    async def wait(self, seconds: float) -> None:
        """Wait until a gateway signals that a list runs low, `seconds` at most."""
        await self._link.wait(self._keys.wake, seconds)

    async def begin(self) -> None:
        """Empty all lists, and set the epoch in Redis to this one."""
        campaigns: list[int] = []
        for _ in range(_MOST_BEGINNINGS):
            keys = [self._keys.state, self._keys.wanted, self._keys.wake]
            keys += map(self._keys.tasks, campaigns)
            missing = await self._link.run("begin", keys, [self.state.epoch, *campaigns])
            if not missing:
                return
            campaigns += map(int, missing)
        raise FrontDown("another process keeps writing to the front while it is emptied")


def push_chunks(entries: Iterable[bytes]) -> list[list[bytes]]:
    """Divide entries, 1000 at most, into chunks that can each be pushed within the time limit."""
    made: list[list[bytes]] = []
    room = 0
    for entry in entries:
        if room < len(entry):
            made.append([])
            room = PUSH_BYTES
        made[-1].append(entry)
        room -= len(entry)
    return made


def _senseless(answer: Any) -> FrontDown:
    return FrontDown(f"the front does not answer as it should: {answer!r:.200}")


class Popped(NamedTuple):
    """The entries popped from one list, not verified. left: entries still in the list."""

    entries: list[bytes]
    left: int


async def pop(
    link: RedisLink, state: FrontState, counts: Sequence[tuple[int, int]]
) -> list[Popped] | None:
    """Pop entries from the lists of some campaigns, and signal the refiller if a list runs low.

    counts: campaigns, each with the most entries to pop; 0 only asks for the length. Return one
    answer for each campaign, in order; None if Redis has another epoch. Raise `FrontDown`; tasks
    popped in that case, if any, wait again after the pool's deadline.
    """
    keys = [state.keys.state, state.keys.wanted, state.keys.wake]
    args: list[Argument] = [state.epoch]
    for campaign, count in counts:
        keys.append(state.keys.tasks(campaign))
        args += (campaign, count)
    answer = await link.run("pop", keys, args)
    if answer is None:
        return None
    answers = _listed(answer, len(counts))
    return [_popped(part, count) for part, (_, count) in zip(answers, counts, strict=True)]


def _popped(answer: Any, count: int) -> Popped:
    entries, left = _listed(answer, 2)
    if type(left) is not int or type(entries) is not list or len(entries) > count:
        raise _senseless(answer)
    return Popped(entries, left)


def _listed(answer: Any, length: int) -> list[Any]:
    if type(answer) is not list or len(answer) != length:
        raise _senseless(answer)
    return answer
