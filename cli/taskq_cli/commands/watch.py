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
from taskq.diagnosis.campaign_tree import parent, tree_now
from taskq.diagnosis.forecast import Forecast
from taskq.diagnosis.reasons import Explanation
from taskq.diagnosis.tables.campaigns import STATUS, state
from taskq.diagnosis.tree_readings import TreeReadings
from taskq.model.errors import Unavailable, UsageError
from taskq.model.views import Status
from taskq.model.words import counted, duration, instant, rate
from taskq_cli.display import render
from taskq_cli.display.output import fit, write_record
from taskq_cli.display.overview import (
    REASONS,
    Overview,
    counts,
    read_overview,
)
from taskq_cli.display.text import one_line
from taskq_cli.early_exits import TasksFailed, TimedOut
from taskq_cli.invocation import Invocation
from taskq_cli.options.shared import below_option, path_argument, shared_options
from taskq_cli.options.values import seconds, time_option

CHILDREN: Final = 10
#: How many times as long as reading an explanation takes it is kept.
_REST: Final = 20.0


@dataclass(frozen=True, slots=True)
class Progress:
    """State and forecast of a campaign at one instant.

    forecast: None without the campaigns below, unless there are none.
    """

    overview: Overview
    children: list[Status]
    at: datetime
    elapsed_s: float
    forecast: Forecast | None

    def record(self) -> dict[str, Any]:
        """Return the sample as a record for JSON."""
        found = self.forecast or Forecast()
        pace = {
            "at": self.at,
            "elapsed_s": round(self.elapsed_s, 3),
            "rate_per_s": found.per_s,
            "eta_s": found.eta_s if self.overview.status.unfinished else 0,
            "forecast": found.record(),
        }
        return pace | self.overview.record()

    def line(self) -> str:
        """Return the sample as one line of text."""
        status = self.overview.status
        parts = [
            instant(self.at),
            status.path,
            state(status),
            f"{status.final}/{status.total}",
            status.final_share,
            *(f"{name} {n}" for name, n in counts(status).items() if n),
            self._pace(),
            counted(self.overview.agents.agents, "agent"),
            *(
                "  ".join(
                    one_line(it) for it in (reason.text, *(f"$ {it}" for it in reason.commands))
                )
                for reason in self.overview.reasons[:REASONS]
            ),
        ]
        return "  ".join(filter(None, parts))

    def picture(self) -> render.Picture:
        """Return the sample as a picture for a terminal that can redraw."""
        overview = self.overview
        lines = [f"pace       {self._pace()}", *overview.lines()]
        below = self._children() if self.children else ()
        return render.campaign(overview.title(), counts(overview.status), lines, *below)

    def _pace(self) -> str:
        if not self.overview.status.unfinished:
            return f"finished; watched for {duration(self.elapsed_s)}"
        found = self.forecast or Forecast()
        about = "~" if found.pace is not None and found.pace.ended is None else ""
        text = "measuring" if found.per_s is None else f"{about}{rate(found.per_s)}"
        ends = found.text()
        return f"{text}, ETA {about}{ends}" if ends else text

    def _children(self) -> tuple[render.Picture, ...]:
        """Return a table of the campaigns below, unfinished ones first."""
        shown = sorted(self.children, key=lambda child: not child.unfinished)[:CHILDREN]
        more = len(self.children) - len(shown)
        rest = f"and {counted(more, 'campaign')} more: `taskq ls {self.overview.status.path}`"
        return ("", render.table(fit(STATUS, shown, sys.stdout)), *([rest] if more else []))


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
    --output jsonl. Rate and ETA are those of `taskq status`. If few tasks have ended, they have a
    ~: they are an estimate from the working tasks and the run times of the latest attempts. A
    paused campaign has no ETA: the command says so and waits, since you may resume the campaign.
    While the server is unavailable, the command waits. Ctrl-C ends only the watching.

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
        readings, began = TreeReadings(path), time.monotonic()
        explained = _Explained(client.campaign(path)) if below else None
        ends_at = math.inf if timeout_s is None else began + timeout_s
        status = None
        while True:
            looked_at = time.monotonic()
            try:
                progress = _sample(client, readings, began, explained)
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
    sys.stdout.flush()  # report an error of the output before the verdict
    if status is None or status.unfinished:
        left = "unknown" if status is None else counted(status.unfinished, "unfinished task")
        raise TimedOut(f"{path} after {duration(timeout_s or 0)}: {left}.")
    if status.failed:
        raise TasksFailed(f"{counted(status.failed, 'task')} failed; see `taskq failures {path}`.")


class _Explained:
    """The explanation of a campaign, which is read again after 20 times as long as reading took."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._read_at = -math.inf
        self._known: Explanation | None = None

    def now(self, unfinished: int) -> Explanation:
        """Return it. unfinished: tasks; the end is explained at once."""
        begun = time.monotonic()
        if self._known is None or begun >= self._read_at or not unfinished:
            self._known = self._campaign.explain()
            self._read_at = time.monotonic() + _REST * (time.monotonic() - begun)
        return self._known


def _sample(
    client: Client, readings: TreeReadings, began: float, explained: _Explained | None
) -> Progress:
    """Return a sample. explained: None: without the campaigns below."""
    path, explanation = readings.path, None
    nodes = None if explained is None else tree_now(readings, client.queries).nodes
    if explained is not None and nodes is not None:
        explanation = explained.now(nodes[path].status.unfinished)
    overview = read_overview(client, path, nodes, explanation)
    if nodes is None and not overview.status.children:
        nodes = tree_now(readings, client.queries).nodes
    return Progress(
        overview=overview,
        children=[node.status for name, node in (nodes or {}).items() if parent(name) == path],
        at=datetime.now(timezone.utc),
        elapsed_s=time.monotonic() - began,
        forecast=None if nodes is None else nodes[path].forecast,
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
