"""Seeding with the best results of a campaign that runs: progress, patience, and the outcome."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import click

from taskq.model.errors import LoginRefused, OutputFailed, Unavailable
from taskq.model.words import counted, duration
from taskq.results.feeder import Fed, Feeder
from taskq_cli.display.chunks import chunk_display
from taskq_cli.display.output import write_record
from taskq_cli.display.text import one_line
from taskq_cli.early_exits import resumable

AGAIN_S: Final = 2.0


def feed(output: str, feeder: Feeder, source: str, target: str) -> None:
    """Feed a campaign until the first stage is through, and write what has come of it."""
    began = time.monotonic()
    with resumable(), chunk_display(f"feeding {target} from {source}") as show:

        def shown(fed: Fed) -> None:
            total = fed.done + fed.unfinished
            paused = f"; {one_line(fed.paused[0])} is not open" if fed.paused else ""
            show(fed.done, total, f"{fed.chosen:,} of {fed.ranked:,} chosen so far{paused}")

        while (fed := _fed(feeder, shown)) is None:
            time.sleep(AGAIN_S)
    record = {
        "path": target,
        **{name: getattr(fed, name) for name in ("done", "ranked", "left_out", "chosen")},
        **{name: getattr(fed, name) for name in ("cancelled", "begun", "some_begun")},
    }
    write_record(output, record, _summary(fed, source, target, time.monotonic() - began))


def _fed(feeder: Feeder, shown: Callable[[Fed], None]) -> Fed | None:
    """Feed; return None, and say so, if the server went away."""
    try:
        return feeder.run(shown)
    except Unavailable as error:
        if isinstance(error, (LoginRefused, OutputFailed)):
            raise
        click.echo(f"{one_line(str(error))}; trying again", err=True)
        return None


def _summary(fed: Fed, source: str, target: str, took_s: float) -> str:
    parts = [f"{source} is through: {target} has its best {fed.chosen:,} of {fed.ranked:,}"]
    if fed.left_out:
        parts.append(f"{counted(fed.left_out, 'result')} left out, without the value or the group")
    if fed.cancelled:
        parts.append(f"{counted(fed.cancelled, 'task')} cancelled, no longer among them")
    if fed.begun:
        some = ", ".join(map(one_line, fed.some_begun))
        more = ", ..." if fed.begun > len(fed.some_begun) else ""
        parts.append(f"{fed.begun:,} no longer among them had begun: {some}{more}")
    return f"{'; '.join(parts)}. Took {duration(took_s)}."
