"""Order of campaigns in which an agent claims.

PostgreSQL draws the order in which to try the campaigns of a scope (function `servable`: a lottery
in which the campaigns that run less than their share win more often). An order holds for a second;
then it is drawn again. An agent that serves a thousand open campaigns therefore asks no more often
than one that serves a single campaign, and its next claim usually goes where its last report went.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

#: Seconds for which an order of campaigns holds.
FRESH_S: Final = 1.0
#: The claims of a batch are spread over campaigns in groups of this size.
GROUP: Final = 8
#: Exchanges in one statement at most. A larger statement takes longer without costing less for
#: each.
MOST_IN_BATCH: Final = 256
#: Campaigns drawn: one for each group of a batch.
MOST_CAMPAIGNS: Final = MOST_IN_BATCH // GROUP
#: Lifetimes are rounded down to quarters of an octave, so that many agents share an order: a
#: campaign whose time limit is within a fifth of the lifetime may be left out.
_STEPS_PER_OCTAVE: Final = 4
#: Lifetimes below a sixteenth of a second or above a year count as the same (exponents of 2, in
#: seconds). A client that sends another lifetime each time causes about a hundred draws at most.
_OCTAVES: Final = (-4, 26)

#: Campaigns with their revisions: `taskq_agent.protocol.MAX_WITHOUT` at most, fewer than are drawn.
Without: TypeAlias = tuple[tuple[int, int], ...]


class Scope(NamedTuple):
    """The campaigns that a session serves: those at and below a path whose requirements it meets.

    offers: the session's tags. lifetime_s: campaigns with a longer time limit are left out; None
    means that none is. without: campaigns with revisions; each is left out while it has that
    revision, since the agent cannot run it.

    A key of several look-ups in each exchange; a dataclass would be hashed by code in Python.
    """

    path: str
    offers: tuple[str, ...] = ()
    lifetime_s: float | None = None
    without: Without = ()

    def rounded(self) -> Scope:
        """Return the scope with its lifetime rounded down, so that many agents have the same."""
        if self.lifetime_s is None:
            return self
        least, most = _OCTAVES
        lifetime_s = 0.0
        if self.lifetime_s >= 2.0**least:
            octaves = min(math.log2(self.lifetime_s), most)
            steps = math.floor(octaves * _STEPS_PER_OCTAVE)
            lifetime_s = 2.0 ** (steps / _STEPS_PER_OCTAVE)
        return Scope(self.path, self.offers, lifetime_s, self.without)

    def drawn(self) -> Scope:
        """Return the rounded scope without exclusions: the key of an order of campaigns."""
        scope = self.rounded()
        return Scope(scope.path, scope.offers, scope.lifetime_s) if scope.without else scope


@dataclass(slots=True)
class CampaignOrder:
    """One draw: the campaigns to try, in order. Campaigns found empty are struck out.

    desires: how much each campaign lacks of its share of the running tasks. If many claims use one
    draw, they are divided in this proportion. revisions: of the campaigns, at the time of the draw.
    """

    drawn_at: float = float("-inf")
    campaigns: list[int] = field(default_factory=list)
    desires: list[float] = field(default_factory=list)
    revisions: list[int] = field(default_factory=list)
    _current: int = 0
    _left: int = 0

    def fresh(self, now: float, fresh_s: float = FRESH_S) -> bool:
        """Return whether the draw is younger than `fresh_s`."""
        return now - self.drawn_at < fresh_s

    def draw(self, rows: Iterable[Mapping[str, Any]], now: float) -> None:
        """Replace the order with the rows of `servable`."""
        rows = list(rows)
        self.drawn_at = now
        self.campaigns = [row["campaign_id"] for row in rows]
        self.desires = [row["desire"] for row in rows]
        self.revisions = [row["revision"] for row in rows]
        self._current, self._left = (self.campaigns or [0])[0], GROUP

    def excluding(self, without: Without) -> tuple[list[int], list[float]]:
        """Return the campaigns to try, in order, and their desires, without the excluded ones."""
        if not without:
            return self.campaigns, self.desires
        drawn = zip(self.campaigns, self.desires, self.revisions, strict=True)
        kept = [
            (campaign, desire)
            for campaign, desire, revision in drawn
            if (campaign, revision) not in without
        ]
        return [campaign for campaign, _ in kept], [desire for _, desire in kept]

    def next(self, without: Without = ()) -> int | None:
        """Return a campaign for one more claim of this draw, as `spread` does for many.

        None if all are excluded.
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
        """Return a campaign for each of so many claims; empty if there is no campaign to try.

        Few claims all go to the first campaign; more are divided in groups of `GROUP`.
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
        """Remove a campaign that has no task for such an agent."""
        if campaign in self.campaigns:
            place = self.campaigns.index(campaign)
            del self.campaigns[place], self.desires[place], self.revisions[place]
