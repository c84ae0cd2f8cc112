"""Progress of a run, in a terminal and in a notebook, and as text and HTML."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from taskq.model.views import Status

REDRAW_S: Final = 0.2

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
def display(path: str, wanted: bool | None) -> Iterator[Show]:
    """Yield a function that shows counts; wanted: None means only in a notebook or terminal.

    If the block is interrupted, say that the tasks go on.
    """
    notebook = _notebook_display()
    if wanted is False or (wanted is None and notebook is None and not sys.stderr.isatty()):
        yield lambda _: None
        return
    shown: _Notebook | _Terminal = _Terminal(path) if notebook is None else _Notebook(notebook)
    try:
        yield shown.show
    except KeyboardInterrupt:
        shown.end()
        sys.stderr.write(
            f"Interrupted; the tasks of {path} go on: ask again for what comes, or cancel() them.\n"
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

    def __init__(self, path: str) -> None:
        # Its import takes a tenth of a second, and few programs need it.
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[counts]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(file=sys.stderr),
            refresh_per_second=5,
        )
        self._task = self._bar.add_task(path, total=None, counts="")
        self._bar.start()

    def show(self, status: Status | None) -> None:
        if status is not None:
            ended = status.total - status.unfinished
            self._bar.update(self._task, total=status.total, completed=ended, counts=text(status))

    def end(self) -> None:
        self._bar.stop()


def _notebook_display() -> Any:
    """Return the display function of the notebook that runs this; None outside a notebook."""
    python = sys.modules.get("IPython")
    shell = None if python is None else python.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    return sys.modules["IPython.display"].display
