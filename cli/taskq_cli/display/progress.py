"""One sample of `taskq watch`, shown as a picture, a line or a record."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from taskq.model.views import Status
from taskq.model.words import counted, duration, instant, rate
from taskq_cli.display import render
from taskq_cli.display.counts import counts, final, percent_final, told_state
from taskq_cli.display.overview import PAUSED, Overview, resume_commands
from taskq_cli.display.text import one_line

CHILDREN: Final = 10


@dataclass(frozen=True, slots=True)
class Progress:
    """State and rate of a campaign at one instant.

    rate_per_s: tasks that become final per second. eta_s: seconds until no task is unfinished, at
    this rate and once the last delayed task is due; no rate counts while the campaign is paused.
    Both None if unknown. by_history: whether both are estimated from the run times of earlier
    attempts. last_due_s: seconds until the last delayed task is due; None: there is none, or it is
    unknown.
    """

    overview: Overview
    children: list[Status]
    at: datetime
    elapsed_s: float
    rate_per_s: float | None
    eta_s: float | None
    by_history: bool = False
    last_due_s: float | None = None

    def record(self) -> dict[str, Any]:
        """Return the sample as a record for JSON."""
        pace = {
            "at": self.at,
            "elapsed_s": round(self.elapsed_s, 3),
            "rate_per_s": self.rate_per_s,
            "eta_s": self.eta_s,
            "by_history": self.by_history,
            "last_due_s": self.last_due_s,
        }
        return pace | self.overview.record()

    def line(self) -> str:
        """Return the sample as one line of text."""
        status = self.overview.status
        parts = [
            instant(self.at),
            status.path,
            told_state(status),
            f"{final(status)}/{status.total}",
            percent_final(status),
            *(f"{name} {n}" for name, n in counts(status).items() if n),
            self._pace(),
            counted(len(self.overview.agents), "agent"),
            f"paused itself: {one_line(status.paused_why)}" if status.paused_why else "",
            *(f"{status.state} by {one}" for one in self.overview.closed_by if one != status.path),
            *(
                f"{one.path} paused itself until {resume_commands([one.path])}"
                for one in self.overview.paused_below[:PAUSED]
            ),
            self._resuming(),
        ]
        return "  ".join(filter(None, parts))

    def _resuming(self) -> str:
        """Return how what is paused goes on; nothing ends by itself before."""
        closed = self.overview.closed_by
        if not closed or not self.overview.status.unfinished:
            return ""
        return f"no tasks are handed out until {resume_commands(closed)}"

    def picture(self) -> render.Picture:
        """Return the sample as a picture, for a terminal that can redraw."""
        overview = self.overview
        lines = [f"pace       {self._pace()}", *overview.lines()]
        below = self._children() if self.children else ()
        return render.campaign(overview.title(), counts(overview.status), lines, *below)

    def _pace(self) -> str:
        if not self.overview.status.unfinished:
            return f"finished; watched for {duration(self.elapsed_s)}"
        about = "~" if self.by_history else ""
        if self.rate_per_s is None:
            text = "measuring"
        else:
            eta = "unknown" if self.eta_s is None else f"{about}{duration(self.eta_s)}"
            text = f"{about}{rate(self.rate_per_s)}, ETA {eta}"
        due_s = self.last_due_s
        if due_s is not None and due_s > 0 and (self.eta_s is None or self.eta_s <= due_s):
            text += f"; the last delayed task is due in {duration(due_s)}"
        return text

    def _children(self) -> tuple[render.Picture, ...]:
        """Return a table of the campaigns below, unfinished ones first."""
        shown = sorted(self.children, key=lambda one: not one.unfinished)[:CHILDREN]
        titles = ["campaign", "final", "tasks", "working", "failed"]
        rows = [
            [
                one.path,
                percent_final(one),
                f"{one.total:,}",
                f"{one.working:,}",
                f"{one.failed:,}",
            ]
            for one in shown
        ]
        more = len(self.children) - len(shown)
        rest = f"and {counted(more, 'campaign')} more: `taskq ls {self.overview.status.path}`"
        return ("", render.table(render.fit(titles, rows, sys.stdout)), *([rest] if more else []))
