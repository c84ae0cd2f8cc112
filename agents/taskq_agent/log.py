"""The log of an agent: a line per event on standard error, instants in UTC."""

from __future__ import annotations

import logging
import sys
import time

from taskq_agent.text import clean


def log_to_stderr(*, verbose: bool, quiet: bool) -> None:
    """Log from now on: what happens, every detail, or what needs attention."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ"))
    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    logging.basicConfig(level=level, handlers=[handler], force=True)


class _Formatter(logging.Formatter):
    """One line per message, with nothing in it that a terminal could obey."""

    converter = staticmethod(time.gmtime)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        return " ".join(clean(super().formatMessage(record)).splitlines())
