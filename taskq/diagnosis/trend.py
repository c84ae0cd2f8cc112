"""Trends: a campaign's counts, a point a minute, farther apart with age; its rate and its end.

The keeper records the points (`record_trends` in SQL); this module is pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from taskq.model.words import duration

#: Seconds over which a rate is taken: the shortest window in which enough tasks ended.
WINDOWS_S: Final = (600.0, 3_600.0, 6 * 3_600.0, 24 * 3_600.0)
ENOUGH: Final = 100
_MARGIN: Final = 1.96


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
class CampaignPace:
    """A rate, and the time to the end at this rate.

    ended: tasks that ended within over_s seconds. eta_s: seconds until none is unfinished.
    eta_low_s, eta_high_s: its 95 % interval, for chance alone; high is None if too few ended.
    """

    ended: int
    over_s: float
    per_s: float
    eta_s: float
    eta_low_s: float
    eta_high_s: float | None

    def not_before(self, due_s: float | None) -> CampaignPace:
        """Return the pace, ending no sooner than in `due_s` seconds; None if no task is delayed."""
        if due_s is None or due_s <= self.eta_low_s:
            return self
        high_s = self.eta_high_s
        return replace(
            self,
            eta_s=max(self.eta_s, due_s),
            eta_low_s=due_s,
            eta_high_s=None if high_s is None else max(high_s, due_s),
        )

    def eta(self) -> str:
        """Return the time to the end, with its uncertainty, in words."""
        high = self.eta_high_s
        if high is not None and high - self.eta_low_s < 0.1 * self.eta_s:
            return duration(self.eta_s)
        until = "more" if high is None else duration(high)
        return f"{duration(self.eta_s)} ({duration(self.eta_low_s)} to {until})"


def make_pace(ended: int, over_s: float, unfinished: int) -> CampaignPace | None:
    """Return the pace at which so many tasks ended; None if no task ended or no time passed.

    It assumes independent ends: the number in a window spreads by its root.
    """
    if ended <= 0 or over_s <= 0:
        return None
    spread = _MARGIN * math.sqrt(ended)
    eta_s = unfinished * over_s / ended
    return CampaignPace(
        ended=ended,
        over_s=over_s,
        per_s=ended / over_s,
        eta_s=eta_s,
        eta_low_s=unfinished * over_s / (ended + spread),
        eta_high_s=unfinished * over_s / (ended - spread) if ended > spread else None,
    )


def recent_pace(points: Sequence[Point], ended: int, unfinished: int) -> CampaignPace | None:
    """Return the pace until now, over the shortest time in which enough tasks ended.

    points: the latest of the trend, just read, oldest first. ended, unfinished: tasks now. None if
    nothing ended within a day.
    """
    found = None
    for window_s in WINDOWS_S:
        before = [one for one in points if one.age_s >= window_s]
        base = before[-1] if before else next(iter(points), None)
        if base is None:
            return None
        # If the point is long before the window, nothing moved in between.
        over_s = min(base.age_s, 1.5 * window_s)
        found = make_pace(ended - base.ended, over_s, unfinished) or found
        if not before or (found is not None and found.ended >= ENOUGH):
            break
    return found


@dataclass(frozen=True, slots=True)
class Interval:
    """What happened between two points: tasks that ended and attempts that failed, per second."""

    begin: datetime
    end: datetime
    ended_per_s: float
    failures_per_s: float


def intervals(points: Sequence[Point]) -> list[Interval]:
    """Return the rates between points, oldest first.

    A campaign that does not move gets no points. So tasks that ended between a point at which
    nothing worked and a much later one, ended in the last part of that time, which is taken to be
    as long as the usual interval.
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
