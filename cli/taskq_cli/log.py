"""Logging of commands that run for long: one line per event on standard error."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from taskq_cli.text import one_line

Command = TypeVar("Command", bound=Callable[..., Any])


def verbosity_options(command: Command) -> Command:
    """Add `--verbose` and `--quiet`."""
    command = click.option("--quiet", "-q", is_flag=True, help="Log warnings and errors only.")(
        command
    )
    return click.option("--verbose", "-v", is_flag=True, help="Log every detail.")(command)


def log_to_stderr(*, verbose: bool, quiet: bool) -> None:
    """Log to standard error: at level INFO, with `verbose` DEBUG, with `quiet` WARNING."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ"))
    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    logging.basicConfig(level=level, handlers=[handler], force=True)
    if not verbose:
        # Each connection that it tries in vain is worth a line to psycopg; what fails is said once.
        logging.getLogger("psycopg").setLevel(logging.ERROR)


class _Formatter(logging.Formatter):
    """Instants in UTC; nothing in a message that a terminal could obey. Tracebacks keep lines."""

    converter = staticmethod(time.gmtime)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        return one_line(super().formatMessage(record))
