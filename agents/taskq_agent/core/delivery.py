"""Delivery of reports to the queue, including reports that the queue refuses.

All reports that fit go into one exchange. If the queue refuses the exchange, one report may be the
cause and must not keep the others back: they are sent one at a time, without a claim. A report that
is refused alone is replaced by a substitute, which reports just the refusal and can certainly be
stored. If the substitute is refused too, the report is given up: its attempt is no longer held, and
the task goes to another agent.

A report may also be lost on the way each time, although heartbeats come through: a proxy limits
bodies, or a filter dislikes a word. That decides nothing. Such reports are found in the same way,
one at a time, and later exchanges are at most half as large. A report that does not come through
alone is withheld: it stays in the spool, the others and new claims go on, and it is tried again
alone after a pause that doubles up to ten minutes. With too many of them the agent claims no more,
since it could only pile up results.

Nothing leaves the spool before the queue has answered an exchange again. So no result is lost if
the queue refuses every request, since rights were revoked or its functions have another release.

Accepted reports are kept for a minute and sent again if another server has taken over since. A
standby may take over before it has received the last commits, and a replaced server may come back
without what its successor has accepted: those acknowledged reports are lost. Each server has
another timeline. A report is sent again to a server whose timeline has not accepted it yet; if it
was not lost, it is a duplicate there.

Time counts from answer to answer, so that an outage, however long, expires nothing.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import Callable, Dict, FrozenSet, Iterable, List, Optional, Tuple

from taskq_agent.backoff import Backoff
from taskq_agent.core.call_state import CallState
from taskq_agent.core.events import ForgetReports, Outbox, SpoolReport
from taskq_agent.core.held_tasks import HeldTasks
from taskq_agent.core.progress_log import ProgressLog
from taskq_agent.core.reports import fence, handed_back_report, line, refused_report
from taskq_agent.errors import Refused, TransportError
from taskq_agent.protocol import (
    ACCEPTED,
    DUPLICATE,
    Ack,
    Held,
    Report,
    Request,
    Trouble,
)
from taskq_agent.warning_words import REPORTS_WITHHELD

KEPT_S = 60.0
MOST_REPORTS = 1_000
MOST_BYTES = 4 << 20
#: With so many reports that do not come through, the agent claims no more.
MOST_WITHHELD = 16
_FIRST_TRY_S = 60.0
_LAST_TRY_S = 600.0


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
        again = []
        if timeline != self.timeline:
            self.timeline = timeline
            for held, accepted in self._kept.items():
                if timeline not in accepted.timelines and not accepted.under_way:
                    self._kept[held] = replace(accepted, at=now, under_way=True)
                    again.append((accepted.report, accepted.size))
        while self._kept and now - next(iter(self._kept.values())).at > KEPT_S:
            self._drop(next(iter(self._kept)))
        return again

    def _drop(self, held: Held) -> Optional[_Accepted]:
        accepted = self._kept.pop(held, None)
        if accepted is not None:
            self._bytes -= accepted.size
        return accepted


@dataclass(frozen=True)
class _Withheld:
    """A report that is lost on the way each time. at: when it is tried again."""

    why: str
    at: float
    backoff: Backoff


class Delivery:
    """Selects the next reports to send and handles their verdicts."""

    def __init__(
        self,
        held_tasks: HeldTasks,
        progress: ProgressLog,
        out: Outbox,
        uniform: Callable[[], float],
    ) -> None:
        self._held_tasks = held_tasks
        self._progress = progress
        self._out = out
        # Reports to send one at a time; the value is the substitute once a report was refused
        # alone.
        self._suspects: Dict[Held, Optional[Report]] = {}
        self._given_up: List[Held] = []
        self._withheld: Dict[Held, _Withheld] = {}
        self._uniform = uniform
        self._replay = FailoverReplay()

    @property
    def timeline(self) -> int:
        """The timeline of the server that answered last; 0 if no answer has named one."""
        return self._replay.timeline

    def with_warning(self, trouble: Optional[Trouble]) -> Optional[Trouble]:
        """Add the warning that reports are withheld, and what came instead of an answer."""
        whys = [*self._held_tasks.kept.values(), *(it.why for it in self._withheld.values())]
        if not whys:
            return trouble
        return replace(trouble or Trouble(), warnings=(REPORTS_WITHHELD,), cause=whys[-1])

    def leaves_room(self, now: float) -> bool:
        """Return whether the next exchange may have a claim."""
        waiting = len(self._withheld) + len(self._held_tasks.kept)
        return waiting < MOST_WITHHELD and not self.is_isolating(now)

    def is_isolating(self, now: float) -> bool:
        """Return whether reports go one at a time, each without a claim, to find a bad one."""
        return bool(self._suspects) or self._due(now) is not None

    def next_try_at(self) -> float:
        """Return when a withheld report is tried again; infinity if none is."""
        return min((withheld.at for withheld in self._withheld.values()), default=math.inf)

    def hasten(self, now: float) -> None:
        """Try the withheld reports once more: little time is left."""
        for held, withheld in self._withheld.items():
            self._withheld[held] = replace(withheld, at=now)

    def undelivered(self) -> int:
        """Return the number of reports without a verdict."""
        return len(self._held_tasks.reports) + len(self._given_up)

    def next_reports(self, now: float) -> Tuple[Report, ...]:
        """Return the reports for the next exchange."""
        if self._suspects:
            held, substitute = next(iter(self._suspects.items()))
            return (substitute or self._held_tasks.reports[held][0],)
        due = self._due(now)
        if due is not None:
            return (self._held_tasks.reports[due][0],)
        return self._held_tasks.first_reports(without={**self._withheld, **self._held_tasks.kept})

    def stored(self, held: Held, refusal: Optional[str]) -> None:
        """Send a report whose result is at the queue; hand its task back if it never will be."""
        if self._held_tasks.kept.pop(held, None) is not None and refusal is not None:
            self._out.log(logging.WARNING, "task %d is handed back: %s", held.task, refusal)
            self._suspects[held] = handed_back_report(self._held_tasks.reports[held][0], refusal)

    def is_over(self, *, closed: bool) -> bool:
        """Return whether nothing is left for this agent to say. closed: its session has ended."""
        reports, kept = self._held_tasks.reports, self._held_tasks.kept
        return reports.keys() <= kept.keys() if reports else closed

    def _due(self, now: float) -> Optional[Held]:
        return next((held for held, withheld in self._withheld.items() if now >= withheld.at), None)

    def saw_timeline(self, timeline: int, now: float) -> None:
        """Note the timeline of an answer, 0 if unknown; after a failover, send reports again."""
        again = self._replay.saw_timeline(timeline, now)
        for report, size in again:
            self._held_tasks.reports[fence(report)] = report, size
            self._out.add(SpoolReport(fence(report), line(report)))
        if again:
            text = "another server has taken over: %d reports are sent again"
            self._out.log(logging.WARNING, text, len(again))

    def answered(self, acks: Iterable[Ack], timeline: int, now: float) -> None:
        """Handle the verdicts of an exchange that a server of this timeline answered."""
        forgotten, self._given_up = self._given_up, []
        for held in forgotten:
            self._progress.dropped()
            self._out.log(logging.ERROR, "the report on task %d is dropped", held.task)
        for ack in acks:
            held = fence(ack)
            report, size = self._held_tasks.reports.pop(held, (None, 0))
            if report is None:
                continue
            if ack.verdict in (ACCEPTED, DUPLICATE) and not self._suspects.get(held):
                self._replay.keep(report, size, timeline, now)
            if self._withheld.pop(held, None):
                self._out.log(logging.INFO, "the report on task %d has come through", held.task)
            forgotten.append(held)
            self._progress.acknowledged(ack)
            if self._suspects.pop(held, None) and held not in self._held_tasks.inherited:
                self._progress.replaced(report)
        if forgotten:
            self._out.add(ForgetReports(tuple(forgotten)))

    def is_stuck(self, request: Request, calls: CallState, now: float) -> bool:
        """Return whether the request that has failed is lost on the way for what it holds."""
        known = any(fence(report) in self._withheld for report in request.reports)
        alone = self.is_isolating(now) and not request.want
        return calls.is_stuck(now, alone=alone, known=known)

    def lost(self, request: Request, error: TransportError, now: float) -> None:
        """Handle an exchange with reports that is lost on the way for what it holds."""
        held = fence(request.reports[0])
        if request.want or len(request.reports) > 1:
            self._suspects = {fence(report): None for report in request.reports}
            self._held_tasks.were_too_large(request.reports)
            text = "an exchange does not come through, sending its %d reports one at a time: %s"
            self._out.log(logging.WARNING, text, len(request.reports), error)
            return
        self._suspects.pop(held, None)
        known = self._withheld.pop(held, None)
        backoff = known.backoff if known else Backoff(_FIRST_TRY_S, _LAST_TRY_S, self._uniform)
        self._withheld[held] = _Withheld(str(error), now + backoff.draw(), backoff)
        text = "the report on task %d does not come through; it is kept and tried again: %s"
        self._out.log(logging.DEBUG if known else logging.WARNING, text, held.task, error)

    def refused(self, request: Request, error: Refused) -> None:
        """Handle the refusal of an exchange with reports."""
        held = fence(request.reports[0])
        self._withheld.pop(held, None)
        if request.want or len(request.reports) > 1:
            self._suspects = {fence(report): None for report in request.reports}
            text = "the queue refuses an exchange, sending its %d reports one at a time: %s"
            self._out.log(logging.WARNING, text, len(request.reports), error)
        elif self._suspects.get(held) is None:
            self._suspects[held] = refused_report(request.reports[0], str(error))
            text = "the queue refuses the report on task %d, reporting a failure instead: %s"
            self._out.log(logging.WARNING, text, held.task, error)
        else:
            del self._suspects[held], self._held_tasks.reports[held]
            self._given_up.append(held)
            text = "the queue refuses any report on task %d: %s"
            self._out.log(logging.ERROR, text, held.task, error)
