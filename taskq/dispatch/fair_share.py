"""Which campaign an agent claims in.

The queue draws an order in which to try the campaigns that an agent can serve (`servable`: a
lottery in which the campaigns that run less than their share win more often). It holds for a
second; then it is drawn anew. So an agent beside a thousand open campaigns asks no more often than
one beside a single campaign, and its next claim most often goes where its last report went.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

FRESH_S: Final = 1.0
#: Claims that are gathered are spread over the campaigns in groups of this size.
GROUP: Final = 8
#: Exchanges gathered into one statement at most; beyond, it takes longer without costing less each.
MOST_IN_BATCH: Final = 256
#: Campaigns drawn: enough for that many groups.
MOST_CAMPAIGNS: Final = MOST_IN_BATCH // GROUP
#: Lifetimes are told apart by the fourth part of an octave, so that few agents need a draw of
#: their own: a campaign whose time limit is within a fifth of the lifetime may be left out.
_STEPS_PER_OCTAVE: Final = 4
#: ... and below a sixteenth of a second and beyond a year not at all: a client that tells another
#: lifetime each time has some hundred draws made, not one each time.
_OCTAVES: Final = (-4, 26)

#: Campaigns with their revisions; `taskq_agent.protocol.MAX_WITHOUT` at most, fewer than are drawn.
Without: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """What an agent serves: the campaigns at and below a path that require no more than it offers.

    lifetime_s: leave out campaigns whose time limit is longer; None: none. without: campaigns that
    are left out as long as they have this revision: the agent cannot run them.
    """

    path: str
    offers: tuple[str, ...] = ()
    lifetime_s: float | None = None
    without: Without = ()

    def rounded(self) -> Scope:
        """Return the same with a lifetime that others have too, never a longer one."""
        if self.lifetime_s is None:
            return self
        least, most = _OCTAVES
        if self.lifetime_s < 2.0**least:
            return replace(self, lifetime_s=0.0)
        octaves = min(math.log2(self.lifetime_s), most)
        steps = math.floor(octaves * _STEPS_PER_OCTAVE)
        return replace(self, lifetime_s=2.0 ** (steps / _STEPS_PER_OCTAVE))

    def drawn(self) -> Scope:
        """Return that for which an order of campaigns is drawn: all who leave some out share it."""
        scope = self.rounded()
        return replace(scope, without=()) if scope.without else scope


@dataclass(slots=True)
class CampaignOrder:
    """One draw: the campaigns to try, in order. Empty ones are struck out as that turns out.

    desires: how much each lacks of its share of the running tasks; where many claims are made
    within one draw, they are divided by these. revisions: of the campaigns, when it was drawn.
    """

    drawn_at: float = float("-inf")
    campaigns: list[int] = field(default_factory=list)
    desires: list[float] = field(default_factory=list)
    revisions: list[int] = field(default_factory=list)
    _current: int = 0
    _left: int = 0

    def fresh(self, now: float, fresh_s: float = FRESH_S) -> bool:
        """Say whether the draw still holds, for one that holds for so many seconds."""
        return now - self.drawn_at < fresh_s

    def draw(self, rows: Iterable[Mapping[str, Any]], now: float) -> None:
        """Take a new order, as `servable` has told it."""
        rows = list(rows)
        self.drawn_at = now
        self.campaigns = [row["campaign_id"] for row in rows]
        self.desires = [row["desire"] for row in rows]
        self.revisions = [row["revision"] for row in rows]
        self._current, self._left = (self.campaigns or [0])[0], GROUP

    def excluding(self, without: Without) -> tuple[list[int], list[float]]:
        """Return the campaigns to try, in order, and their desires, but those to be left out."""
        if not without:
            return self.campaigns, self.desires
        drawn = zip(self.campaigns, self.desires, self.revisions, strict=True)
        kept = [(one, desire) for one, desire, revision in drawn if (one, revision) not in without]
        return [one for one, _ in kept], [desire for _, desire in kept]

    def next(self, without: Without = ()) -> int | None:
        """Return a campaign for one more claim of this draw, as `spread` does for many.

        None: all are to be left out.
        """
        if without:
            campaigns, desires = self.excluding(without)
            if len(campaigns) < len(self.campaigns):
                chosen = random.choices(campaigns, desires) if campaigns else [None]  # noqa: S311
                return chosen[0]
        if not self._left:
            self._current = random.choices(self.campaigns, self.desires)[0]  # noqa: S311
            self._left = GROUP
        self._left -= 1
        return self._current

    def spread(self, claims: int, without: Without = ()) -> list[int]:
        """Return a campaign for each of so many claims; empty if there is none to try.

        Few claims go to the first one, more are drawn in groups.
        """
        campaigns, desires = self.excluding(without)
        if not campaigns:
            return []
        groups = claims // GROUP
        if groups < 2 or len(campaigns) == 1:  # noqa: PLR2004  # nothing to divide
            return campaigns[:1] * claims
        drawn = sorted(random.choices(campaigns, desires, k=groups))  # noqa: S311
        return [drawn[number * groups // claims] for number in range(claims)]

    def strike(self, campaign: int) -> None:
        """Leave a campaign out that has turned out to have nothing for such an agent."""
        if campaign in self.campaigns:
            place = self.campaigns.index(campaign)
            del self.campaigns[place], self.desires[place], self.revisions[place]
