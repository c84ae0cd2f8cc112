"""Trends: a campaign's counts, a point a minute, farther apart with age; the rates between them.

The keeper records the points (`record_trends` in SQL); this module is pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Point:
    """The counts of a campaign and all below it at one instant.

    age_s: its age when it was read, by the database's clock. done, failed, unfinished, working:
    tasks. failures: attempts that failed or were lost since the campaign exists. agents: those that
    serve it, above or below.
    """

    at: datetime
    age_s: float
    done: int
    failed: int
    failures: int
    unfinished: int
    working: int
    agents: int

    @property
    def ended(self) -> int:
        """Tasks that are done or failed."""
        return self.done + self.failed


@dataclass(frozen=True, slots=True)
class Interval:
    """What happened between two points: tasks that ended and attempts that failed, per second."""

    begin: datetime
    end: datetime
    ended_per_s: float
    failures_per_s: float


def intervals(points: Sequence[Point]) -> list[Interval]:
    """Return the rates between points, oldest first.

    A campaign in which nothing changes gets no points. If nothing worked at one point, and tasks
    have ended by a much later one, they count as ended in the last part of the time between. That
    part is as long as the usual interval.
    """
    found: list[Interval] = []
    for index in range(1, len(points)):
        before, after = points[index - 1], points[index]
        begin = before.at
        if not before.working and after.ended > before.ended:
            step = _usual_step(points, index)
            begin = max(begin, after.at - step)
            if begin - before.at > step:
                found.append(Interval(before.at, begin, 0.0, 0.0))
            else:
                begin = before.at
        seconds = (after.at - begin).total_seconds()
        found.append(
            Interval(
                begin,
                after.at,
                max(after.ended - before.ended, 0) / seconds,
                max(after.failures - before.failures, 0) / seconds,
            )
        )
    return found


def _usual_step(points: Sequence[Point], index: int) -> timedelta:
    """Return the distance to the next point if something worked at this one, else a minute."""
    if points[index].working and index + 1 < len(points):
        return points[index + 1].at - points[index].at
    return timedelta(minutes=1)
