"""Payload code whose result says which parameters it was given."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def run(payload: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameter `grid`: note the start in a file, and wait for one that lets it end."""
    folder, grid = Path(shared["folder"]), shared["grid"]
    (folder / f"begun-{grid}-{payload['n']}").touch()
    while not (folder / f"go-{grid}").exists():
        time.sleep(0.01)
    return {"grid": grid}
