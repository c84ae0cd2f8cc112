"""Levels of the lists of a front as its refiller knows them, and what to lease next.

Pure: times are seconds on any clock that only goes forward. A rank is a negated priority, so the
least goes first; the rank of a list is the largest rank of its entries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from taskq.front.demand import Demand

#: Tasks leased in one statement; with fewer, each costs more.
MOST_CHUNK: Final = 1_000
#: Bytes of entries leased in one statement, and in a list.
_CHUNK_BYTES: Final = 4 << 20
_LIST_BYTES: Final = 64 << 20
#: Campaigns with a list, and campaigns asked for that may get one.
MOST_LISTS: Final = 1_000
#: The rank of entries whose rank is not known: nothing overtakes them.
_UNKNOWN_RANK: Final = -32_768


class Lease(NamedTuple):
    """The next lease: up to `most` tasks. ahead: only of a lower rank than this; None: of any."""

    campaign: int
    most: int
    ahead: int | None


@dataclass(frozen=True, slots=True)
class _Batch:
    """Entries that were pushed together, or what is left of them."""

    entries: int
    rank: int
    pushed_at: float


class Level:
    """The level of one campaign's list.

    servable: tasks may be leased, and the last lease found some. overtaken: some waiting tasks go
    before some in the list.
    """

    def __init__(self, fresh_s: float, now: float) -> None:
        self.demand = Demand(fresh_s, now)
        self.length = 0
        self.servable = False
        self.overtaken = False
        self._entry_bytes = 1.0
        self._batches: deque[_Batch] = deque()
        self._filling = False

    @property
    def rank(self) -> int:
        """The largest rank in the list."""
        return max((batch.rank for batch in self._batches), default=_UNKNOWN_RANK)

    @property
    def oldest_at(self) -> float | None:
        """The time at which the oldest entry was pushed; None if the list is empty."""
        return min((batch.pushed_at for batch in self._batches), default=None)

    def put(
        self, entries: int, rank: int, now: float, *, size: int = 0, first: bool = False
    ) -> None:
        """Note a push. size: bytes of the entries in all. first: they go before all others."""
        self._entry_bytes = max(1.0, self._entry_bytes / 2, size / entries)
        batch = _Batch(entries, rank, now)
        if first:
            self._batches.appendleft(batch)
        else:
            self._batches.append(batch)
        self.length += entries

    def seen(self, length: int, now: float) -> bool:
        """Note the length found by a survey; return False if that exceeds what was pushed."""
        gone = self.length - length
        if gone < 0:
            return False
        self.demand.seen(gone, now, emptied=length == 0)
        self.length = length
        while gone:
            batch = self._batches.popleft()
            if batch.entries > gone:
                self._batches.appendleft(replace(batch, entries=batch.entries - gone))
            gone = max(0, gone - batch.entries)
        return True

    def clear(self) -> None:
        """Note that the list was emptied."""
        self._batches.clear()
        self.length = 0
        self.overtaken = self._filling = False

    def chunk(self, missing: int) -> int:
        """Return how many of the missing entries to lease in one statement."""
        return min(missing, MOST_CHUNK, max(1, int(_CHUNK_BYTES / self._entry_bytes)))

    def low_water(self, now: float) -> int:
        """Return the length below which the list has to be filled up."""
        # Small steps, since claims may have to wait during a long statement; with smaller ones the
        # database would be at work nearly always.
        return self._target(now) * 7 // 8

    def missing(self, now: float) -> int:
        """Return how many entries to add, none until the list is low or overtaken."""
        target = self._target(now)
        if self.overtaken:
            rank = self.rank
            before = sum(batch.entries for batch in self._batches if batch.rank < rank)
            return max(0, max(target, 1) - before)
        if self.length <= self.low_water(now):
            self._filling = True
        if self.length >= target:
            self._filling = False
        return target - self.length if self._filling and self.servable else 0

    def _target(self, now: float) -> int:
        return min(self.demand.target(now), int(_LIST_BYTES / self._entry_bytes))


class Levels:
    """The levels of all lists. fresh_s: seconds for which an entry may stay in a list."""

    def __init__(self, fresh_s: float) -> None:
        self._fresh_s = fresh_s
        self._levels: dict[int, Level] = {}
        self._asked_for: set[int] = set()

    def __getitem__(self, campaign: int) -> Level:
        """Return the level of a campaign that has a list."""
        return self._levels[campaign]

    def __contains__(self, campaign: int) -> bool:
        return campaign in self._levels

    def campaigns(self) -> list[int]:
        """Return all campaigns with a list, empty lists included."""
        return list(self._levels)

    def inherit(self, campaign: int, length: int, now: float) -> None:
        """Take over a list that another refiller has filled; the age of its entries is unknown."""
        level = self._levels.setdefault(campaign, Level(self._fresh_s, now))
        level.servable = True
        level.demand.wanted(now)
        if length:
            level.put(length, _UNKNOWN_RANK, now - self._fresh_s / 2)

    def wanted(self, campaigns: Iterable[int], now: float) -> None:
        """Note the campaigns whose lists were found empty by claims."""
        for campaign in campaigns:
            if campaign in self._levels:
                self._levels[campaign].demand.wanted(now)
                if not self._levels[campaign].servable:
                    self._asked_for.add(campaign)
            elif len(self._levels) + len(self._asked_for) < MOST_LISTS:
                self._asked_for.add(campaign)

    def doubtful(self) -> list[int]:
        """Return the campaigns that were asked for and may or may not have tasks to lease."""
        return list(self._asked_for)

    def servable(self, campaigns: Collection[int], now: float) -> None:
        """Note which of the doubtful campaigns have tasks to lease."""
        for campaign in self._asked_for.intersection(campaigns):
            if campaign not in self._levels:
                self._levels[campaign] = Level(self._fresh_s, now)
                self._levels[campaign].demand.wanted(now)
            self._levels[campaign].servable = True
        self._asked_for.clear()

    def next(self, now: float) -> Lease | None:
        """Return the next lease, for the list that would be empty first; None if none is needed."""
        urgent: tuple[float, int, Level, int] | None = None
        for campaign, level in self._levels.items():
            missing = level.missing(now)
            if missing:
                lasts_s = level.length / level.demand.rate if level.demand.rate else 0.0
                if urgent is None or lasts_s < urgent[0]:
                    urgent = lasts_s, campaign, level, missing
        if urgent is None:
            return None
        _, campaign, level, missing = urgent
        return Lease(campaign, level.chunk(missing), level.rank if level.overtaken else None)

    def old(self, now: float) -> list[int]:
        """Return the campaigns whose lists have entries older than `fresh_s`."""
        return [
            campaign
            for campaign, level in self._levels.items()
            if level.oldest_at is not None and now - level.oldest_at > self._fresh_s
        ]

    def overtaken(self, campaigns: Collection[int]) -> None:
        """Note the campaigns with waiting tasks that go before some in their lists."""
        for campaign, level in self._levels.items():
            level.overtaken = level.length > 0 and campaign in campaigns

    def as_record(self) -> list[tuple[int, int, int]]:
        """Return (campaign, entries, rank) of each list that holds some."""
        return [
            (campaign, level.length, level.rank)
            for campaign, level in self._levels.items()
            if level.length
        ]

    def clear(self) -> None:
        """Note that all lists were emptied; keep the demand."""
        for level in self._levels.values():
            level.clear()

    def forget(self, now: float) -> list[int]:
        """Drop the empty lists that nobody asks for; return their campaigns."""
        unused = [
            campaign
            for campaign, level in self._levels.items()
            if not level.length and not level.demand.lasts(now)
        ]
        for campaign in unused:
            del self._levels[campaign]
        return unused
