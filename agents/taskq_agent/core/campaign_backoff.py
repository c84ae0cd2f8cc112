"""Which campaigns an agent leaves to others for a while, since they cannot be run where it is.

A campaign whose program is missing, or whose `prepare` fails, says nothing about other campaigns:
the agent goes on with these. It comes back to the one that it has refused after a pause that grows
each time, and then tries one task only; a task that runs, however it ends, makes all well again. A
change of the campaign, which raises its revision, may be the repair: the pause is for the old
revision only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable, Collection, Dict, Optional, Tuple

from taskq_agent.protocol import MAX_WITHOUT

#: The pause grows up to so many times the first one.
_MOST_GROWTH = 60.0
_JITTER = 0.25
_MOST_KEPT = 1_000


@dataclass
class _Refused:
    """A campaign that cannot be run here: in which revision, not before when, after which pause."""

    revision: int
    until: float
    pause_s: float


class CampaignBackoff:
    """The campaigns that were refused. first_s: for how long one is left out the first time."""

    def __init__(self, first_s: float, uniform: Callable[[], float]) -> None:
        self._first_s = first_s
        self._uniform = uniform
        self._refused: Dict[int, _Refused] = {}

    def __bool__(self) -> bool:
        return bool(self._refused)

    def refused(self, campaign: int, revision: int, begun: float, now: float) -> Optional[float]:
        """Learn that a campaign cannot be run; return for how long it is left out from now on.

        begun: when the attempt began. None: it is left out already; attempts that ran when the
        pause began do not make it longer.
        """
        known = self._refused.get(campaign)
        if known is None or known.revision != revision:
            pause_s = self._first_s
        elif begun < known.until:
            return None
        else:
            pause_s = min(2 * known.pause_s, _MOST_GROWTH * self._first_s)
        if known is None and len(self._refused) >= _MOST_KEPT:
            del self._refused[min(self._refused, key=lambda one: self._refused[one].until)]
        drawn_s = pause_s * (1 - _JITTER + 2 * _JITTER * self._uniform())
        self._refused[campaign] = _Refused(revision, now + drawn_s, pause_s)
        return drawn_s

    def ran(self, campaign: int) -> None:
        """Learn that a task of a campaign has run."""
        self._refused.pop(campaign, None)

    def excludes(
        self, campaign: int, revision: int, held_campaigns: Collection[int], now: float
    ) -> bool:
        """Tell whether no task of a campaign is to be begun; in_hand: of which there are some."""
        known = self._refused.get(campaign)
        if known is None or known.revision != revision:
            return False
        return now < known.until or campaign in held_campaigns

    def without(self, held_campaigns: Collection[int], now: float) -> Tuple[Tuple[int, int], ...]:
        """Return what a claim is to leave out: campaigns with their revisions, in order.

        Of too many, those that are left out longest.
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

    def next_at(self, now: float) -> float:
        """Return when the next of the pauses ends."""
        ends = [known.until for known in self._refused.values() if known.until > now]
        return min(ends, default=math.inf)
