"""Backoff of an agent: between retries, and from campaigns that it cannot run.

`CampaignBackoff`: a campaign whose program is missing, or whose `prepare` fails, says nothing about
other campaigns: the agent goes on with those. It returns to the refused campaign after a pause that
doubles each time, and then tries one task only. A task that runs, however it ends, removes the
campaign from the backoff. A change of the campaign raises its revision and may be the repair, so
the pause applies to the old revision only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable, Collection, Dict, Optional, Set, Tuple

from taskq_agent.protocol import MAX_WITHOUT

#: The longest pause, as a multiple of the first one.
_MOST_GROWTH = 60.0
JITTER = 0.25
_MOST_KEPT = 1_000


@dataclass
class _Refused:
    """A refused campaign: its revision, the begin and the end of the pause, and its length."""

    revision: int
    since: float
    until: float
    pause_s: float


class CampaignBackoff:
    """The refused campaigns. first_s: the length of the first pause, in seconds."""

    def __init__(self, first_s: float, uniform: Callable[[], float]) -> None:
        self._first_s = first_s
        self._uniform = uniform
        self._refused: Dict[int, _Refused] = {}

    def __bool__(self) -> bool:
        return bool(self._refused)

    def refused(self, campaign: int, revision: int, begun: float, now: float) -> Optional[float]:
        """Note that a campaign cannot run here; return for how many seconds it is left out.

        begun: when the attempt began. Returns None if the campaign is left out already: attempts
        that ran when the pause began do not make it longer, and those of an earlier revision do not
        end it.
        """
        known = self._refused.get(campaign)
        if known is not None and revision < known.revision and begun < known.since:
            return None
        if known is None or known.revision != revision:
            pause_s = self._first_s
        elif begun < known.until:
            return None
        else:
            pause_s = min(2 * known.pause_s, _MOST_GROWTH * self._first_s)
        if known is None and len(self._refused) >= _MOST_KEPT:
            del self._refused[min(self._refused, key=lambda other: self._refused[other].until)]
        drawn_s = pause_s * (1 - JITTER + 2 * JITTER * self._uniform())
        self._refused[campaign] = _Refused(revision, now, now + drawn_s, pause_s)
        return drawn_s

    def ran(self, campaign: int) -> None:
        """Note that a task of a campaign has run: the campaign is no longer left out."""
        self._refused.pop(campaign, None)

    def excludes(
        self, campaign: int, revision: int, held_campaigns: Collection[int], now: float
    ) -> bool:
        """Return whether no task of a campaign may begin now.

        held_campaigns: the campaigns of the held tasks. After the pause the agent tries one task at
        a time.
        """
        known = self._refused.get(campaign)
        if known is None or known.revision != revision:
            return False
        return now < known.until or campaign in held_campaigns

    def without(self, held_campaigns: Collection[int], now: float) -> Tuple[Tuple[int, int], ...]:
        """Return the (campaign, revision) pairs that a claim must leave out, sorted.

        If there are more than `MAX_WITHOUT`, those with the longest remaining pause.
        """
        excluded = [
            (known.until, campaign, known.revision)
            for campaign, known in self._refused.items()
            if self.excludes(campaign, known.revision, held_campaigns, now)
        ]
        excluded.sort(reverse=True)
        return tuple(
            sorted((campaign, revision) for _, campaign, revision in excluded[:MAX_WITHOUT])
        )

    def paused(self, now: float) -> Set[int]:
        """Return the campaigns whose pause is under way, of any number."""
        return {campaign for campaign, known in self._refused.items() if now < known.until}

    def next_at(self, now: float) -> float:
        """Return when the next pause ends; infinity if none is under way."""
        ends = [known.until for known in self._refused.values() if known.until > now]
        return min(ends, default=math.inf)


class Backoff:
    """Draws waiting times: each between `first_s` and a ceiling that doubles up to `last_s`.

    The draw is random over nearly the whole range, so that agents that failed together do not retry
    together ("full jitter": M. Brooker, Exponential Backoff And Jitter, 2015).
    """

    def __init__(self, first_s: float, last_s: float, uniform: Callable[[], float]) -> None:
        self._first_s = first_s
        self._last_s = last_s
        self._uniform = uniform
        self._ceiling_s = first_s

    def reset(self) -> None:
        """Reset the ceiling to the shortest time."""
        self._ceiling_s = self._first_s

    def draw(self) -> float:
        """Return the next waiting time in seconds."""
        self._ceiling_s = min(self._last_s, 2 * self._ceiling_s)
        return self._first_s + self._uniform() * (self._ceiling_s - self._first_s)
