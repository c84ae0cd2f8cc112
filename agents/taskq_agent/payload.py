"""Functions for payload code in Python."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Optional


def input_path(name: str) -> Path:
    """Return the path of an input of the campaign on this node; the file must not be changed.

    FileNotFoundError if the campaign has no input of that name.
    """
    paths = json.loads(os.environ.get("TASKQ_INPUTS", "{}"))
    if name not in paths:
        raise FileNotFoundError(f"the campaign has no input {name!r}; it has {sorted(paths)}")
    return Path(paths[name])


def checkpoint_path() -> Optional[Path]:
    """Return the folder that is kept for the next attempt, with what the last one has left there.

    None: the campaign keeps no checkpoints.
    """
    return _folder("TASKQ_CHECKPOINT")


def output_path() -> Optional[Path]:
    """Return the folder whose files are stored with the result of the task, if it succeeds.

    None: the campaign keeps no output files.
    """
    return _folder("TASKQ_OUT")


def _folder(variable: str) -> Optional[Path]:
    folder = os.environ.get(variable)
    return None if folder is None else Path(folder)
