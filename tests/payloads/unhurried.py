"""Payload code that notes each execution and takes its time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import diary  # type: ignore[import-not-found]  # found where agents search for payloads


def run(payload: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """Do as `diary.run`, and take `shared["takes_s"]` seconds more."""
    result: dict[str, Any] = diary.run(payload, shared)
    time.sleep(shared["takes_s"])
    return result
