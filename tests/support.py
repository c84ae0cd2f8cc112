"""What the tests of several parts use."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(
    predicate: Callable[[], object],
    *,
    timeout_s: float = 10.0,
    on_timeout: Callable[[], str] = lambda: "",
) -> None:
    """Poll until the predicate is true; fail with what `on_timeout` says after the timeout."""
    deadline = time.monotonic() + timeout_s
    while not predicate():
        if time.monotonic() > deadline:
            said = on_timeout()
            raise AssertionError(f"not within {timeout_s} s: {predicate} {said}")
        time.sleep(0.01)
