"""Functions that get many arguments at once, which tests give to the queue by name."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator


def squares(numbers: list[int], power: int = 2) -> list[int | ValueError]:
    """Return a value for each, or an exception where the last digit is 3."""
    return [ValueError(n) if n % 10 == 3 else n**power for n in numbers]


def sizes(numbers: list[int]) -> Iterator[int]:
    """Yield how many arguments came together."""
    for _ in numbers:
        yield len(numbers)


def deadly(numbers: list[int]) -> Iterator[int]:
    """Kill the process at 7."""
    for n in numbers:
        if n == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        yield n
