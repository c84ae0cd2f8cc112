"""Reports accepted recently, to be sent again after a failover of the database.

A standby may take over before it has received the last commits, and a replaced server may come back
without what its successor has accepted: those acknowledged reports are lost. Each server has
another timeline. A report is sent again to a server whose timeline has not accepted it yet; if it
was not lost, it is a duplicate there.

Time counts from answer to answer, so that an outage, however long, expires nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Dict, FrozenSet, List, Optional, Tuple

from taskq_agent.core.reports import fence
from taskq_agent.protocol import Held, Report

KEPT_S = 60.0
MOST_REPORTS = 1_000
MOST_BYTES = 4 << 20


@dataclass(frozen=True)
class _Accepted:
    """A report, and the timelines that have accepted it. under_way: it is being sent again."""

    report: Report
    size: int
    timelines: FrozenSet[int]
    at: float
    under_way: bool = False


class FailoverReplay:
    """The reports accepted in the last minute before the last answer, oldest first.

    Bounded by number and bytes: the oldest are dropped first. timeline: of the last answer that
    named one; 0 if none has.
    """

    def __init__(self) -> None:
        self.timeline = 0
        self._kept: Dict[Held, _Accepted] = {}
        self._bytes = 0

    def keep(self, report: Report, size: int, timeline: int, now: float) -> None:
        """Keep a report of `size` bytes that a server of this timeline has accepted."""
        if timeline:
            before = self._drop(fence(report))
            timelines = frozenset({timeline}) | (before.timelines if before else frozenset())
            self._kept[fence(report)] = _Accepted(report, size, timelines, now)
            self._bytes += size
            while len(self._kept) > MOST_REPORTS or self._bytes > MOST_BYTES:
                self._drop(next(iter(self._kept)))

    def saw_timeline(self, timeline: int, now: float) -> List[Tuple[Report, int]]:
        """Note the timeline of an answer; return the reports to send again, with their sizes.

        A gateway may still have a connection to the former server, so timelines may alternate for a
        while: no report goes to the same timeline again and again.
        """
        if not timeline:
            return []
        self.timeline = timeline
        again = []
        for held, one in list(self._kept.items()):
            if timeline not in one.timelines and not one.under_way:
                self._kept[held] = replace(one, at=now, under_way=True)
                again.append((one.report, one.size))
            elif now - one.at > KEPT_S:
                self._drop(held)
        return again

    def _drop(self, held: Held) -> Optional[_Accepted]:
        accepted = self._kept.pop(held, None)
        if accepted is not None:
            self._bytes -= accepted.size
        return accepted
