"""Forecasts: when the tasks of a campaign and all below it end, and which of them do not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from taskq.diagnosis import clauses
from taskq.diagnosis.reasons import verb
from taskq.model.run_ends import Span
from taskq.model.words import counted, duration

#: Tasks that must have ended for a measured rate; with fewer, the run times of attempts tell more.
ENOUGH: Final = 10
#: Seconds over which a rate must be measured at least.
LEAST_S: Final = 30.0
_MARGIN: Final = 1.96
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class EndRate:
    """A rate of tasks that end. ended: how many, within over_s seconds.

    Both are None if the rate is estimated from the tasks that run and the run times of attempts.
    """

    per_s: float
    ended: int | None = None
    over_s: float | None = None

    @property
    def over(self) -> str:
        """Where the rate comes from, in words."""
        return "by run times" if self.over_s is None else f"over {duration(self.over_s)}"


def measured(ended: int, over_s: float) -> EndRate | None:
    """Return the rate at which so many tasks ended; None if none did, or too soon to tell."""
    return EndRate(ended / over_s, ended, over_s) if ended > 0 and over_s >= LEAST_S else None


def span_of(tasks: int, pace: EndRate | None) -> Span | None:
    """Return the time in which so many tasks end at a rate; None if it is unknown.

    It assumes independent ends: the number in a window spreads by its root. An estimated rate
    counts as one of `ENOUGH` ends.
    """
    if pace is None or not pace.per_s:
        return None
    ended = pace.ended or ENOUGH
    spread = _MARGIN * math.sqrt(ended)
    s = tasks / pace.per_s
    high_s = s * ended / (ended - spread) if ended > spread else None
    return Span(s, s * ended / (ended + spread), high_s)


@dataclass(frozen=True, slots=True)
class Forecast:
    """When the unfinished tasks of a campaign and all below it end.

    pace: None if it is unknown. ending: tasks that will end if all goes on as it does, delayed ones
    included. span: until the last of them ends, except delayed ones that are due later; None if it
    is unknown or nothing runs. late: delayed tasks of campaigns whose last one is due after that,
    at `due_at`, in due_s seconds. paused: tasks that wait in campaigns that are not open. blocked:
    tasks that no agent can claim, by reason. seeding: whether tasks are being added: no end is
    known. slots: of the agents at work that serve it, which the span assumes to stay; None if the
    span follows from the pace alone.
    """

    pace: EndRate | None = None
    ending: int = 0
    span: Span | None = None
    late: int = 0
    due_at: datetime | None = None
    due_s: float | None = None
    paused: int = 0
    blocked: Mapping[str, int] | None = None
    seeding: bool = False
    slots: int | None = None

    @property
    def per_s(self) -> float | None:
        """Tasks that end per second; None if unknown."""
        return None if self.pace is None else self.pace.per_s

    @property
    def eta_s(self) -> float | None:
        """Seconds until all tasks have ended that will; None if unknown, or none will."""
        if self.seeding:
            return None
        if self.span is None:
            return self.due_s if self.late and self.late == self.ending else None
        return max(self.span.s, self.due_s or 0.0) if self.late else self.span.s

    @property
    def lasting(self) -> int:
        """Tasks that do not end unless somebody changes something."""
        return self.paused + sum((self.blocked or {}).values())

    def text(self) -> str:
        """Return it in words, such as `43 tasks in 7 min; 75 wait: no agent at work offers gpu`.

        Empty if nothing is known and nothing is in the way.
        """
        if self.seeding:
            return "unknown while tasks are added"
        parts = []
        soon = self.ending - self.late
        if self.span is not None and soon > 0:
            whole = not (self.lasting or self.late)
            stay = "" if self.slots is None else f" with {counted(self.slots, 'slot')} as now"
            tasks = "" if whole else f"{counted(soon, 'task')} in "
            parts.append(f"{tasks}{self.span}{stay}")
        blocked = sorted((self.blocked or {}).items(), key=lambda reason: (-reason[1], reason[0]))
        parts += [
            f"{number:,} {verb(number, 'waits', 'wait')}: {why}" for why, number in blocked[:_NAMED]
        ]
        if rest := sum(number for _, number in blocked[_NAMED:]):
            parts.append(f"{rest:,} {verb(rest, 'waits', 'wait')} for other reasons")
        if self.paused:
            parts.append(f"{self.paused:,} paused")
        if self.late and self.due_at is not None:
            parts.append(f"{self.late:,} delayed until {_clock(self.due_at, self.due_s or 0.0)}")
        return "; ".join(parts)

    def short(self) -> str:
        """Return it for a column: `7 min`, with `+` if not all tasks end; empty if unknown."""
        if self.seeding:
            return "seeding"
        if self.eta_s is None:
            return "waits" if self.blocked and not self.ending else ""
        return duration(self.eta_s) + ("+" if self.lasting else "")

    def record(self) -> dict[str, object]:
        """Return it for JSON."""
        pace, span = self.pace, self.span
        return {
            "per_s": self.per_s,
            "ended": pace and pace.ended,
            "over_s": pace and pace.over_s,
            "eta_s": self.eta_s,
            "eta_low_s": span and span.low_s,
            "eta_high_s": span and span.high_s,
            "ending": self.ending,
            "delayed_until": self.due_at if self.late else None,
            "paused": self.paused,
            "blocked": dict(self.blocked or {}),
            "seeding": self.seeding,
            "slots": self.slots,
        }


def _clock(at: datetime, in_s: float) -> str:
    """Return an instant within a day as `02:16Z`, others with the date."""
    return f"{at:%H:%MZ}" if in_s < timedelta(days=1).total_seconds() else f"{at:%Y-%m-%d %H:%MZ}"


@dataclass(frozen=True, slots=True)
class Standstill:
    """A campaign that is being seeded, or of which no agent at work can claim tasks.

    See `standstill` in SQL for the fields.
    """

    campaign_id: int
    seeding: bool
    has_handler: bool
    served: bool
    lacking: Sequence[str]

    @property
    def why(self) -> str:
        """Why no agent can claim; empty if one can."""
        if not self.has_handler:
            return clauses.no_handler("them")
        if not self.served:
            return clauses.unserved("them")
        return clauses.not_offered(self.lacking) if self.lacking else ""
