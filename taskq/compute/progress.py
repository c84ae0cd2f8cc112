"""Progress of runs in a terminal and in a notebook, and as text and HTML."""

from __future__ import annotations

import html
import importlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from taskq.model.errors import TaskqError, Unavailable
from taskq.model.views import Status
from taskq.model.words import beginning, counted

if TYPE_CHECKING:
    from taskq.campaign.campaign import Campaign

REDRAW_S: Final = 0.2
#: Seconds between the looks of a live view; up to the second while nothing changes.
REDRAW_LIVE_S: Final = 1.0
REDRAW_SELDOM_S: Final = 10.0
#: Seconds between two looks at when a run ends.
FORECAST_S: Final = 10.0
#: Most runs and causes of failures that are shown, and most characters of a cause.
MOST_RUNS: Final = 20
MOST_CAUSES: Final = 3
MOST_CAUSE_CHARS: Final = 200

_COLOURS: Final = {
    "done": "#2e7d32",
    "failed": "#c62828",
    "cancelled": "#8e24aa",
    "working": "#f9a825",
    "delayed": "#0097a7",
    "waiting": "#bdbdbd",
}


#: Shows a campaign's counts while somebody waits.
Show: TypeAlias = Callable[[Status | None], None]


@contextmanager
def display(campaign: Campaign, wanted: bool | None) -> Iterator[Show]:
    """Yield a function that shows counts; wanted: None means only in a notebook or terminal.

    If the block is interrupted, say that the tasks go on.
    """
    notebook = _notebook_display()
    if wanted is False or (wanted is None and notebook is None and not sys.stderr.isatty()):
        yield lambda _: None
        return
    path = campaign.path
    shown: _Notebook | _Terminal = _Terminal(campaign) if notebook is None else _Notebook(notebook)
    try:
        yield shown.show
    except KeyboardInterrupt:
        shown.end()
        sys.stderr.write(
            f"Interrupted; the tasks of {path} continue: call again for their results, or "
            "cancel() them.\n"
        )
        raise
    finally:
        shown.end()


def text(status: Status) -> str:
    """Return counts in words."""
    counts = {name: getattr(status, name) for name in _COLOURS if name != "done"}
    rest = "".join(f", {count:,} {name}" for name, count in counts.items() if count)
    state = "" if status.state == "open" else f", {status.state}"
    return f"{status.done:,} of {status.total:,} done{rest}{state}"


def as_html(path: str, status: Status) -> str:
    """Return counts as HTML: a bar with a part for each status, and the counts in words."""
    parts = "".join(
        f'<div style="width:{100 * getattr(status, name) / status.total:.2f}%;background:{colour}"'
        f' title="{getattr(status, name):,} {name}"></div>'
        for name, colour in _COLOURS.items()
        if status.total and getattr(status, name)
    )
    return (
        '<div style="font-family:sans-serif;font-size:13px;max-width:40em">'
        f"<b>{html.escape(path)}</b> {html.escape(text(status))}"
        '<div style="display:flex;height:10px;background:#eee;border-radius:3px;overflow:hidden">'
        f"{parts}</div></div>"
    )


def runs_html(runs: Callable[[], list[Status]], title: str) -> str:
    """Return a bar for the counts of each run, at most `MOST_RUNS`, as HTML; see `Client.runs`."""
    try:
        found = runs()
    except TaskqError as error:  # such as a token that is not for all campaigns
        return f"{html.escape(title)}<br>{html.escape(str(error))}"
    bars = "".join(as_html(status.path, status) for status in found[:MOST_RUNS])
    more = f"<br>and {len(found) - MOST_RUNS:,} more runs" if len(found) > MOST_RUNS else ""
    return f"{html.escape(title)}: {counted(len(found), 'run')}{bars}{more}"


def view_html(campaign: Campaign, status: Status) -> str:
    """Return counts, pace and the commonest failures of a campaign as HTML."""
    lines = []
    if status.paused_why:
        lines.append(f"paused: {status.paused_why}")
    forecast = campaign.forecast() if status.unfinished else None
    if forecast is not None and forecast.eta_s is not None:
        lines.append(f"ends in {forecast.text()}")
    if status.failures:
        for cause in campaign.failure_causes(MOST_CAUSES, below=False):
            text = beginning(f"{cause.error_class}: {cause.cause}", MOST_CAUSE_CHARS)
            where = f"{counted(cause.attempts, 'attempt')} on {counted(cause.hosts, 'host')}"
            lines.append(f"{where} failed: {text}")
    more = "".join(f"<div>{html.escape(line)}</div>" for line in lines)
    return as_html(campaign.path, status).removesuffix("</div>") + f"{more}</div>"


class LiveView:
    """The view of a run in a notebook, redrawn by a thread until all calls have ended."""

    _shown: ClassVar[dict[str, LiveView]] = {}

    def __init__(
        self,
        campaign: Campaign,
        text: str,
        cancel: Callable[[], int],
        is_closed: Callable[[], bool],
    ) -> None:
        """text: for front ends without HTML. is_closed: whether the queue is closed here."""
        self._campaign = campaign
        self._is_closed = is_closed
        self._text = text
        self._cancel = cancel
        self._ended = threading.Event()

    def show(self) -> None:
        """Show the view, instead of an earlier one; raise `NotImplementedError` elsewhere.

        With ipywidgets it has a button that cancels the calls. IPython takes the error as an order
        to show the object otherwise.
        """
        display = _notebook_display()
        if display is None:
            raise NotImplementedError
        if (earlier := self._shown.pop(self._campaign.path, None)) is not None:
            earlier.end()
        self._shown[self._campaign.path] = self
        picture, unfinished = self._picture()
        handle = display(picture, raw=True, display_id=True)
        if unfinished:
            button = self._button()
            if button is not None:
                display(button)
            redraw = partial(self._redraw, handle, button)
            threading.Thread(target=redraw, name="taskq-view", daemon=True).start()

    def end(self) -> None:
        """Stop redrawing."""
        self._ended.set()

    def _picture(self) -> tuple[dict[str, str], int]:
        status = self._campaign.status(below=False)
        shown = view_html(self._campaign, status)
        return {"text/html": shown, "text/plain": self._text}, status.unfinished

    def _button(self) -> Any:
        try:
            widgets = importlib.import_module("ipywidgets")
        except ImportError:
            return None
        button = widgets.Button(description="Cancel", tooltip="Cancel the calls that are left")
        button.on_click(lambda _: self._cancel())
        return button

    def _redraw(self, handle: Any, button: Any) -> None:
        pause_s, unfinished, before = REDRAW_LIVE_S, 1, ""
        while unfinished and not self._ended.wait(pause_s):
            try:
                picture, unfinished = self._picture()
            except Unavailable:
                if self._is_closed():
                    break
                pause_s = REDRAW_SELDOM_S
                continue
            except TaskqError:  # such as a campaign that was removed
                break
            pause_s = (
                REDRAW_LIVE_S
                if picture["text/html"] != before
                else min(REDRAW_SELDOM_S, pause_s * 1.5)
            )
            if picture["text/html"] != before:
                before = picture["text/html"]
                handle.update(picture, raw=True)
        if button is not None:
            button.close()


class _Notebook:
    """A bar below the cell, redrawn in place."""

    def __init__(self, show: Any) -> None:
        self._show = show
        self._handle: Any = None
        self._drawn_at = 0.0
        self._last: Status | None = None

    def show(self, status: Status | None) -> None:
        self._last = status
        if status is not None and time.monotonic() - self._drawn_at >= REDRAW_S:
            self._draw(status)

    def end(self) -> None:
        if self._last is not None:
            self._draw(self._last)

    def _draw(self, status: Status) -> None:
        self._drawn_at = time.monotonic()
        picture = {"text/html": as_html(status.path, status), "text/plain": text(status)}
        if self._handle is None:
            self._handle = self._show(picture, raw=True, display_id=True)
        else:
            self._handle.update(picture, raw=True)


class _Terminal:
    """A bar on standard error."""

    def __init__(self, campaign: Campaign) -> None:
        # Its import takes a tenth of a second, and few programs need it.
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[counts]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.fields[ends]}", markup=False),
            console=Console(file=sys.stderr),
            refresh_per_second=5,
        )
        self._campaign = campaign
        self._look_at = time.monotonic() + REDRAW_LIVE_S
        self._task = self._bar.add_task(campaign.path, total=None, counts="", ends="")
        self._bar.start()

    def show(self, status: Status | None) -> None:
        if status is not None:
            ended = status.total - status.unfinished
            self._bar.update(self._task, total=status.total, completed=ended, counts=text(status))
            if time.monotonic() >= self._look_at and status.unfinished:
                self._look_at = time.monotonic() + FORECAST_S
                self._bar.update(self._task, ends=self._ends())

    def end(self) -> None:
        self._bar.stop()

    def _ends(self) -> str:
        """Return when it ends, as all views say it; empty if that is unknown."""
        try:
            short = self._campaign.forecast().short()
        except TaskqError:  # the waiting itself reports it
            return ""
        return f"ends in {short}" if short[:1].isdigit() else short


def _notebook_display() -> Any:
    """Return the display function of the notebook that runs this; None outside a notebook."""
    python = sys.modules.get("IPython")
    shell = None if python is None else python.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    return sys.modules["IPython.display"].display
