"""Functions for payload code in Python."""

from __future__ import annotations

import json
import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Optional, Sequence

from taskq_agent.paths import is_dir
from taskq_agent.scratch import OUTPUT_FOLDER

_LINE_CHARS = 200

#: The folders of the tasks whose payloads a function has got together, in their order.
together: Sequence[str] = ()


def input_path(name: str) -> Path:
    """Return the path of a campaign's input on this node; the file must not be changed.

    FileNotFoundError if the campaign has no input of that name.
    """
    paths = json.loads(os.environ.get("TASKQ_INPUTS", "{}"))
    if name not in paths:
        raise FileNotFoundError(f"the campaign has no input {name!r}; it has {sorted(paths)}")
    return Path(paths[name])


def checkpoint_path() -> Optional[Path]:
    """Return the folder that is kept for the next attempt, with what the last one left there.

    None if the campaign keeps no checkpoints.
    """
    return _folder("TASKQ_CHECKPOINT")


def output_path(position: Optional[int] = None) -> Optional[Path]:
    """Return the folder whose files are stored with the result of the task, if it succeeds.

    None if the campaign keeps no output files. position: that of the payload in the list, from 0
    on, in a function that gets many; ValueError if it is left out there.
    """
    if not together:
        return _folder("TASKQ_OUT")
    if position is None:
        raise ValueError("this function gets many payloads: say whose folder, output_path(0)")
    folder = Path(together[position], OUTPUT_FOLDER)
    return folder if is_dir(folder) else None


def progress(fraction: Optional[float], note: str = "") -> None:
    """Report the progress of this attempt to people who watch the task; cheap, never an error.

    fraction: the finished part, 0 to 1; None if unknown. note: for people, a line of 120 characters
    at most. The last call counts; the agent's next heartbeat sends it.
    """
    path = os.environ.get("TASKQ_PROGRESS")
    if path is None:  # called by hand
        return
    known = None if fraction is None or math.isnan(fraction) else min(max(fraction, 0.0), 1.0)
    with suppress(OSError):
        text = " ".join(["-" if known is None else str(float(known)), *note.split()])
        Path(path).write_text(f"{text[:_LINE_CHARS]}\n", encoding="utf-8", errors="replace")


def _folder(variable: str) -> Optional[Path]:
    folder = os.environ.get(variable)
    return None if folder is None else Path(folder)
