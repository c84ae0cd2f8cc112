"""Log of an agent: one line per event on standard error, timestamps in UTC."""

from __future__ import annotations

import logging
import sys
import time

from taskq_agent.text import clean


def log_to_stderr(*, verbose: bool, quiet: bool) -> None:
    """Log to standard error from now on: INFO; with `verbose` DEBUG, with `quiet` WARNING."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ"))
    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    logging.basicConfig(level=level, handlers=[handler], force=True)


class _Formatter(logging.Formatter):
    """Writes one line per message, without control characters for a terminal."""

    converter = staticmethod(time.gmtime)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        return " ".join(clean(super().formatMessage(record)).splitlines())
