"""Reports that were accepted recently, to be sent again after a failover of the database.

A standby may take over that had not yet received the last commits: what these acknowledged is lost.
The standby has a higher timeline; then the reports that servers of lower timelines accepted are
sent again. A report that was not lost is a duplicate.

Time counts from answer to answer, so that an outage, however long, expires nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Tuple

from taskq_agent.core.reports import fence
from taskq_agent.protocol import Held, Report

KEPT_S = 60.0
MOST_REPORTS = 1_000
MOST_BYTES = 4 << 20


@dataclass(frozen=True)
class _Accepted:
    report: Report
    size: int
    timeline: int
    at: float


class FailoverReplay:
    """The reports that were accepted in the last minute before the last answer, oldest first.

    Bounded by number and bytes: the oldest are dropped first. timeline: the highest that was seen;
    0: none yet.
    """

    def __init__(self) -> None:
        self.timeline = 0
        self._kept: Dict[Held, _Accepted] = {}
        self._bytes = 0

    def keep(self, report: Report, size: int, timeline: int, now: float) -> None:
        """Keep a report of `size` bytes that a server of this timeline has accepted."""
        if timeline:
            self._drop(fence(report))
            self._kept[fence(report)] = _Accepted(report, size, timeline, now)
            self._bytes += size
            while len(self._kept) > MOST_REPORTS or self._bytes > MOST_BYTES:
                self._drop(next(iter(self._kept)))

    def saw_timeline(self, timeline: int, now: float) -> List[Tuple[Report, int]]:
        """Record the timeline of an answer; return the reports to send again, with their sizes.

        Only a rise of the timeline counts: a gateway may have a connection left to the former
        server.
        """
        self.timeline = max(self.timeline, timeline)
        again = [one for one in self._kept.values() if one.timeline < self.timeline]
        if timeline == self.timeline:
            old = [one for one in self._kept.values() if now - one.at > KEPT_S]
            for one in again + old:
                self._drop(fence(one.report))
            return [(one.report, one.size) for one in again]
        return []

    def _drop(self, held: Held) -> None:
        accepted = self._kept.pop(held, None)
        if accepted is not None:
            self._bytes -= accepted.size
