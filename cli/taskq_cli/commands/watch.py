"""`taskq watch`: follow a campaign until no task is unfinished."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Final, TypeAlias

import click

from taskq import Campaign, Client
from taskq.campaign.reading import last_due_s
from taskq.model.errors import Unavailable, UsageError
from taskq.model.views import Status
from taskq.model.words import counted, duration, instant, rate
from taskq_cli.display import render
from taskq_cli.display.output import write_record
from taskq_cli.display.overview import (
    PAUSED,
    Overview,
    counts,
    final,
    percent_final,
    read_overview,
    resume_commands,
    shown_state,
)
from taskq_cli.display.progress import RateMeter
from taskq_cli.display.text import one_line
from taskq_cli.early_exits import TasksFailed, TimedOut
from taskq_cli.invocation import Invocation
from taskq_cli.options.shared import (
    below_option,
    path_argument,
    seconds,
    shared_options,
    time_option,
)

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
            shown_state(status),
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


FRESH_S: Final = 30.0
"""Age in seconds after which the mean run time is read again."""
CAMPAIGNS: Final = 20
"""Most campaigns of a subtree that are read: those with most working tasks represent all."""
TREND_ENOUGH: Final = 10
"""Fewest tasks of the trend that tell more than the run times do."""


class EstimatedRate:
    """Estimate of the tasks that become final per second: as the trend has it, if enough ended.

    Otherwise it is the working tasks over the mean run time, which is Little's law (Operations
    Research 9(3), 1961). It reads a bounded number of points and attempts by key, at most once in
    `FRESH_S` seconds.
    """

    def __init__(self, client: Client, path: str, *, below: bool = True) -> None:
        self._client = client
        self._below = below
        self._path = path
        self._trend_per_s: float | None = None
        self._mean_s: float | None = None
        self._stale_at = 0.0

    def per_s(self, status: Status) -> float | None:
        """Return the rate; None if no task is working, or none has ended yet."""
        final, ended = status.done + status.failed, status.done + status.failures + status.losses
        if not status.working or not final:
            return None
        if time.monotonic() >= self._stale_at:
            pace = self._client.campaign(self._path).pace(status)
            self._trend_per_s = pace.per_s if pace and pace.ended >= TREND_ENOUGH else None
            self._mean_s = None if self._trend_per_s else self._read_mean_s(status)
            self._stale_at = time.monotonic() + FRESH_S
        if self._trend_per_s:
            return self._trend_per_s
        if not self._mean_s:
            return None
        # An attempt after which the task is retried makes no task final.
        return status.working / self._mean_s * min(1.0, final / max(1, ended))

    def _read_mean_s(self, status: Status) -> float | None:
        """Return the mean run time of an attempt, weighted by the campaigns' working tasks."""
        campaign = self._client.campaign(self._path)
        nodes = campaign.tree() if status.children and self._below else [status]
        busy = sorted((node for node in nodes if node.working), key=lambda node: -node.working)
        working, per_s = 0, 0.0
        for node in busy[:CAMPAIGNS]:
            usual_s = Campaign(self._client.queries, node.campaign_id, node.path).usual_run_s()
            if usual_s:
                working += node.working
                per_s += node.working / usual_s
        return working / per_s if per_s else None


ENOUGH: Final = 10
"""Fewest tasks within a minute from which a rate is measured and not estimated."""

Show: TypeAlias = Callable[[Progress], None]


@click.command()
@path_argument(default="/")
@time_option("--interval", least=0.1, most=3_600, default=2.0, text="Time between two samples.")
@click.option(
    "--timeout",
    "timeout_s",
    type=seconds(0),
    metavar="TIME",
    help="End with code 124 if tasks are unfinished after this time. [default: none]",
)
@below_option
@shared_options
def watch(
    invocation: Invocation, *, path: str, interval: float, timeout_s: float | None, below: bool
) -> None:
    """Follow PATH until no task there or below is unfinished.

    On a terminal the display redraws itself; elsewhere each sample is one line, in JSON with
    --output jsonl. The rate is that of the last minute. If fewer than ten tasks ended in it, the
    rate has a ~: it is that of the last hours, or an estimate from the working tasks and the run
    times of the latest attempts. The ETA is never before the last delayed task is due. A paused
    campaign has no ETA: the command says so and goes on, since you may resume the campaign. While
    the server is unavailable, the command waits. Ctrl-C ends only the watching.

    Exit codes:
      0    no task is unfinished, and none has failed
      1    no task is unfinished, and some have failed
      124  the timeout is over

    Example:
      taskq watch /demo --timeout 2h
    """
    if invocation.output == "json":
        raise UsageError("watch writes one record after the other: use --output jsonl")
    with invocation.client() as client, _display(invocation.output) as show:
        meter, estimate = RateMeter(), EstimatedRate(client, path, below=below)
        began = time.monotonic()
        ends_at = math.inf if timeout_s is None else began + timeout_s
        status = None
        while True:
            looked_at = time.monotonic()
            try:
                progress = _sample(client, path, meter, estimate, began, below=below)
            except Unavailable as error:
                click.echo(f"{one_line(str(error))}; trying again", err=True)
            else:
                show(progress)
                status = progress.overview.status
                if not status.unfinished:
                    break
            if time.monotonic() >= ends_at:
                break
            time.sleep(max(0.0, min(looked_at + interval, ends_at) - time.monotonic()))
    sys.stdout.flush()  # an error of the output comes before the verdict
    if status is None or status.unfinished:
        left = "unknown" if status is None else counted(status.unfinished, "unfinished task")
        raise TimedOut(f"{path} after {duration(timeout_s or 0)}: {left}.")
    if status.failed:
        raise TasksFailed(f"{counted(status.failed, 'task')} failed; see `taskq failures {path}`.")


def _sample(
    client: Client,
    path: str,
    meter: RateMeter,
    estimate: EstimatedRate,
    began: float,
    *,
    below: bool,
) -> Progress:
    overview = read_overview(client, path, below=below)
    status, now = overview.status, time.monotonic()
    meter.add(now, final(status))
    per_s, eta_s = meter.per_s(), meter.eta_s(status.unfinished)
    usual = estimate.per_s(status) if meter.counted() < ENOUGH else None
    if usual is not None:
        per_s, eta_s = usual, status.unfinished / usual
    due_s = None
    if below or not status.children:
        due_s = last_due_s(client.queries, status)
    if overview.closed_by and status.unfinished > status.working:
        eta_s = None
    elif eta_s is not None and due_s is not None:
        eta_s = max(eta_s, due_s)
    return Progress(
        overview=overview,
        children=client.campaign(path).child_statuses() if below and status.children else [],
        at=datetime.now(timezone.utc),
        elapsed_s=now - began,
        rate_per_s=per_s,
        eta_s=eta_s,
        by_history=usual is not None,
        last_due_s=due_s,
    )


@contextmanager
def _display(output: str) -> Iterator[Show]:
    if output == "table" and render.can_redraw(sys.stdout):
        with render.live(sys.stdout, keep=True) as show:
            yield lambda progress: show(progress.picture())
        return

    def line(progress: Progress) -> None:
        write_record(output, progress.record(), progress.line())
        sys.stdout.flush()

    yield line
