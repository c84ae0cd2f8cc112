"""Payload code that notes each execution in a file outside the database."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def run(payload: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """Append task and agent to the diary, in one write; the result is twice the number.

    It comes once there is the file `begin`, if one is named.
    """
    line = f"{payload['n']} {os.environ['DIARY_AGENT']}\n".encode()
    diary = os.open(shared["diary"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(diary, line)
    finally:
        os.close(diary)
    while "begin" in shared and not Path(shared["begin"]).exists():
        time.sleep(0.01)
    return {"twice": 2 * payload["n"]}
