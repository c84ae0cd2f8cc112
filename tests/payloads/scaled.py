"""Payload code that needs an input of its campaign, and has a large result now and then."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from taskq_agent import input_path

#: Above what a report carries.
LARGE_BYTES = 300_000


@functools.cache
def factor() -> int:
    """Return the number in the input."""
    return int(input_path("factor").read_text())


def run(payload: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """Multiply the number by that of the input."""
    result: dict[str, Any] = {"product": payload["n"] * factor()}
    if payload["n"] % shared["large_each"] == 0:
        result["filler"] = "x" * LARGE_BYTES
    return result
