"""Run times by campaign, which decide what can still end if a campaign has no time limit."""

from __future__ import annotations

from collections import deque
from typing import Deque, Dict, List, Tuple

_KEPT_RUNS = 20
_FEWEST_RUNS = 3
_KEPT_CAMPAIGNS = 1_000


class CampaignRuns:
    """The latest run times of each campaign without a time limit, as this agent saw them.

    The longest of twenty is the estimate of how long a task may last: about the 95 % quantile.
    """

    def __init__(self) -> None:
        self._runs: Dict[int, Tuple[int, Deque[float]]] = {}

    def learn(self, campaign: int, revision: int, run_s: float) -> None:
        """Add the run time of an attempt that succeeded."""
        known = self._runs.pop(campaign, None)
        if known is None or known[0] != revision:  # a changed campaign runs something else
            known = (revision, deque(maxlen=_KEPT_RUNS))
        known[1].append(run_s)
        self._runs[campaign] = known
        if len(self._runs) > _KEPT_CAMPAIGNS:
            del self._runs[next(iter(self._runs))]

    def suppose(self, campaign: int, revision: int, run_s: float) -> None:
        """Assume this run time for attempts, unless one of this revision is known."""
        known = self._runs.get(campaign)
        if known is None or known[0] != revision:
            for _ in range(_FEWEST_RUNS):
                self.learn(campaign, revision, run_s)

    def longest_s(self, campaign: int, revision: int) -> float:
        """Return how long a task may last; 0 while too few runs are known."""
        known = self._runs.get(campaign)
        if known is None or known[0] != revision or len(known[1]) < _FEWEST_RUNS:
            return 0.0
        return max(known[1])

    def above(self, limit_s: float) -> List[Tuple[int, int]]:
        """Return the (campaign, revision) pairs whose tasks may last longer."""
        return [
            (campaign, revision)
            for campaign, (revision, runs) in self._runs.items()
            if len(runs) >= _FEWEST_RUNS and max(runs) > limit_s
        ]
