"""Agents as processes that write a log."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.command_line import CommandLine


@contextmanager
def agent_process(
    dsn: str, name: str, log: Path, *options: object, path: str = "/c", **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """Start an agent; kill it if it is still there at the end."""
    words = ["agent", "run", "--campaign", path, "--name", name, *options]
    with (
        log.open("wb") as output,
        CommandLine(dsn).process(
            *words, environment=environment, stdout=output, stderr=output
        ) as process,
    ):
        yield process
