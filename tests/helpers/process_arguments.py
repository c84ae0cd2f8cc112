"""Command lines of processes, as all users of a host can see them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.meanwhile import meanwhile, repeated


def command_lines() -> set[str]:
    """Return the command lines of all living processes, their arguments separated by spaces."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            found.add(line.replace(b"\0", b" ").decode(errors="replace").strip())
    return found


@contextmanager
def watched_command_lines() -> Iterator[set[str]]:
    """Collect the command lines that appear until the block ends."""
    seen: set[str] = set()
    with meanwhile(repeated(lambda: seen.update(command_lines()), 0.001)):
        yield seen
