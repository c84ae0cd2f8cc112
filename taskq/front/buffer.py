"""What a gateway has popped ahead of claims, so that most of them wait for nothing at all.

Without it each claim would wait for Redis, and each pop cost the gateway as much as several claims.
It holds what is claimed here in some hundredths of a second, and what is left when claims stop is
given back soon: other gateways may need it, and a pause or a higher priority must not wait for it.

Entries are opened one by one as they are handed out: to open all that one pop has brought would
keep everybody else waiting for a millisecond.

Pure: times are monotonic seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from taskq.front.entries import Entry
from taskq_agent.protocol import MAX_CLAIM, Task

#: A hand holds what is claimed in so many seconds ...
AHEAD_S: Final = 0.04
#: ... at most so many entries; and is given back when nobody has claimed for so long.
MOST: Final = 512
KEEP_S: Final = 0.25
#: Over which the rate of claims is learned.
_LEARN_S: Final = 0.1


#: Returns an entry of a campaign if it is genuine and not too old.
Open: TypeAlias = Callable[[bytes, int, float], "Entry | None"]


class Buffer:
    """The entries of one campaign, in the order in which they are to be handed out."""

    __slots__ = (
        "_campaign",
        "_claimed",
        "_entries",
        "_low",
        "_rate",
        "_since",
        "claimed_at",
        "popping",
        "target",
    )

    def __init__(self, campaign: int, now: float) -> None:
        self._campaign = campaign
        self._entries: deque[bytes] = deque()
        self._rate = 0.0
        self._claimed = self._low = 0
        self._since = self.claimed_at = now
        #: How many to hold.
        self.target = 0
        #: Whether more is on its way.
        self.popping = False

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, entries: Iterable[bytes]) -> None:
        """Take entries in, whatever they are."""
        self._entries.extend(entries)

    def claim(self, want: int, now: float, opened: Open) -> list[Entry]:
        """Hand out as many as are there and good, up to `want`."""
        self._claimed += want
        self.claimed_at = now
        taken: list[Entry] = []
        entries = self._entries
        while entries and len(taken) < want:
            one = opened(entries.popleft(), self._campaign, now)
            if one is not None:
                taken.append(one)
        return taken

    def is_low(self) -> bool:
        """Tell whether more should be on its way: a third is gone."""
        return len(self._entries) < self._low and not self.popping

    def learn(self, now: float) -> None:
        """Take in how much was claimed since the last time."""
        passed_s = now - self._since
        if passed_s >= _LEARN_S:
            self._rate = (self._rate + self._claimed / passed_s) / 2
            self._claimed, self._since = 0, now
            self.target = min(MOST, int(self._rate * AHEAD_S))
            self._low = self.target * 2 // 3

    def emptied(self) -> list[bytes]:
        """Let go of all."""
        entries = list(self._entries)
        self._entries.clear()
        return entries


Callback: TypeAlias = Callable[[list[Task]], None]


class Claim:
    """A claim that waits; callbacks: who asked, and who asked again."""

    __slots__ = ("callbacks", "lease", "session", "want")

    def __init__(self, session: int, lease: str, want: int, callback: Callback) -> None:
        self.session = session
        self.lease = lease
        self.want = want
        self.callbacks = [callback]


class CampaignBuffer:
    """One campaign. claims: in the order in which they came."""

    __slots__ = ("buffer", "claims")

    def __init__(self, campaign: int, now: float) -> None:
        self.buffer = Buffer(campaign, now)
        self.claims: deque[Claim] = deque()

    def missing(self) -> int:
        """Return how many entries should be popped now."""
        if self.buffer.popping or not (self.claims or self.buffer.is_low()):
            return 0
        wanted = sum(claim.want for claim in self.claims)
        return min(MAX_CLAIM, wanted + max(0, self.buffer.target - len(self.buffer)))

    def is_idle(self, since: float) -> bool:
        """Tell whether nobody has claimed since then, or waits."""
        return self.buffer.claimed_at < since and not (self.buffer.popping or self.claims)
