"""Sorting of more lines than fit into memory: sorted runs in temporary files, then merged."""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from typing import IO, Final

#: Lines sorted in memory at a time.
RUN_LINES: Final = 200_000


class LineSorter:
    """Takes lines without line breaks, and returns them in order; `close` frees the disk."""

    def __init__(self, run_lines: int = RUN_LINES) -> None:
        self._run_lines = run_lines
        self._lines: list[str] = []
        self._runs: list[IO[str]] = []

    def close(self) -> None:
        """Remove the temporary files."""
        for run in self._runs:
            run.close()

    def add(self, line: str) -> None:
        """Take a line."""
        self._lines.append(f"{line}\n")
        if len(self._lines) < self._run_lines:
            return
        run = tempfile.TemporaryFile("w+", encoding="ascii", prefix="taskq-sort-")  # noqa: SIM115  # until exit
        run.writelines(sorted(self._lines))
        run.seek(0)
        self._runs.append(run)
        self._lines = []

    def sorted(self) -> Iterator[str]:
        """Yield all lines in order, once."""
        for line in heapq.merge(*self._runs, sorted(self._lines)):
            yield line[:-1]


def sort_key(number: Decimal) -> str:
    """Return hexadecimal digits that sort exactly as the numbers do."""
    sign, digits, _ = number.as_tuple()
    whole = bytes(digits).rstrip(b"\0")
    if not whole:
        return "80"
    # The exponent of the first digit, the digits plus 1, and an end that sorts before any digit.
    body = (number.adjusted() + 2**31).to_bytes(4, "big") + bytes(one + 1 for one in whole) + b"\0"
    return f"40{bytes(255 - one for one in body).hex()}" if sign else f"c0{body.hex()}"
