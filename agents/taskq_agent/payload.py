"""Functions for payload code in Python."""

from __future__ import annotations

import json
import os
from pathlib import Path


def input_path(name: str) -> Path:
    """Return the path of an input of the campaign on this node; the file must not be changed.

    FileNotFoundError if the campaign has no input of that name.
    """
    paths = json.loads(os.environ.get("TASKQ_INPUTS", "{}"))
    if name not in paths:
        raise FileNotFoundError(f"the campaign has no input {name!r}; it has {sorted(paths)}")
    return Path(paths[name])
