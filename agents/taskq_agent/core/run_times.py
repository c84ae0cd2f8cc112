"""Run times of tasks by campaign, and what can still end in a time."""

from __future__ import annotations

from collections import deque
from typing import Deque, Dict, List, Optional, Tuple

from taskq_agent.handlers.base import MOST_CALLS
from taskq_agent.protocol import MAX_CLAIM

_KEPT_RUNS = 20
_FEWEST_RUNS = 3
_KEPT_CAMPAIGNS = 1_000
_WEIGHT_OF_NEWEST = 0.2
_SHORTEST_RUN_S = 1e-6

#: If tasks take less time than this, the claim after one that found few tasks waits so long for
#: their reports. Sent at once it would mostly find nothing, and the reports would wait for its end.
QUICK_S = 0.01
#: A slot gets as many calls of a function at once as last for so many seconds.
AT_ONCE_S = 0.1


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


class RunTimes:
    """Estimates how long tasks run, so that very short ones can be claimed ahead."""

    def __init__(self, ahead_s: float) -> None:
        self._ahead_s = ahead_s
        self._run_s: Optional[float] = None

    def learn(self, run_s: float) -> None:
        """Add the run time of a task that succeeded to the moving average.

        Failures do not count: a node where everything fails at once must not hoard tasks.
        """
        if self._run_s is None:
            self._run_s = run_s
        else:
            self._run_s += _WEIGHT_OF_NEWEST * (run_s - self._run_s)

    def ahead(self, quick_slots: int) -> int:
        """Return how many tasks to hold in addition to the running ones.

        quick_slots: the number of slots that no long task occupies at this moment.
        """
        if self._run_s is None or self._run_s >= self._ahead_s / 2:
            return 0
        return min(MAX_CLAIM, int(quick_slots * self._ahead_s / max(self._run_s, _SHORTEST_RUN_S)))

    def are_quick(self) -> bool:
        """Return whether tasks end before another claim would be answered."""
        return self._run_s is not None and self._run_s < QUICK_S

    def at_once(self) -> int:
        """Return how many calls of a function last for `AT_ONCE_S` together."""
        if self._run_s is None or not self._ahead_s:
            return 1
        return min(MOST_CALLS, int(AT_ONCE_S / max(self._run_s, _SHORTEST_RUN_S)))
