"""Log of an agent: one line per event on standard error, timestamps in UTC."""

from __future__ import annotations

import logging
import sys
import time
from typing import Callable

from taskq_agent.text import clean


def _without_controls(line: str) -> str:
    return " ".join(clean(line).splitlines())


def log_to_stderr(
    *, verbose: bool, quiet: bool, shown: Callable[[str], str] = _without_controls
) -> None:
    """Log to standard error from now on: INFO; with `verbose` DEBUG, with `quiet` WARNING.

    shown: turns a message into one line without anything that a terminal could obey. Tracebacks
    keep their lines.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(shown))
    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    logging.basicConfig(level=level, handlers=[handler], force=True)


class _Formatter(logging.Formatter):
    converter = staticmethod(time.gmtime)

    def __init__(self, shown: Callable[[str], str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
        self._shown = shown

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        return self._shown(super().formatMessage(record))
