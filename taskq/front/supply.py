"""What a gateway serves of each campaign: what it has in hand, and who waits for more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from taskq.front.buffer import Hand
from taskq_agent.protocol import MAX_CLAIM, Task

Tell: TypeAlias = Callable[[list[Task]], None]


class Claim:
    """A claim that waits; tells: who asked, and who asked again."""

    __slots__ = ("lease", "session", "tells", "want")

    def __init__(self, session: int, lease: str, want: int, tell: Tell) -> None:
        self.session = session
        self.lease = lease
        self.want = want
        self.tells = [tell]


class Served:
    """One campaign. claims: in the order in which they came."""

    __slots__ = ("claims", "hand")

    def __init__(self, campaign: int, now: float) -> None:
        self.hand = Hand(campaign, now)
        self.claims: deque[Claim] = deque()

    def missing(self) -> int:
        """Return how many entries should be popped now."""
        if self.hand.popping or not (self.claims or self.hand.is_low()):
            return 0
        wanted = sum(claim.want for claim in self.claims)
        return min(MAX_CLAIM, wanted + max(0, self.hand.target - len(self.hand)))

    def is_idle(self, since: float) -> bool:
        """Tell whether nobody has claimed since then, or waits."""
        return self.hand.claimed_at < since and not (self.hand.popping or self.claims)
