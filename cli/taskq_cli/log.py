"""Logging of commands that run for long: one line per event on standard error."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import click

from taskq_agent import log
from taskq_cli.text import one_line

Command = TypeVar("Command", bound=Callable[..., Any])


def verbosity_options(command: Command) -> Command:
    """Add `--verbose` and `--quiet`."""
    command = click.option("--quiet", "-q", is_flag=True, help="Log warnings and errors only.")(
        command
    )
    return click.option("--verbose", "-v", is_flag=True, help="Log every detail.")(command)


def log_to_stderr(*, verbose: bool, quiet: bool) -> None:
    """Log to standard error as agents do, in lines that a terminal cannot obey."""
    log.log_to_stderr(verbose=verbose, quiet=quiet, shown=one_line)
    if not verbose:
        # Each connection that it tries in vain is worth a line to psycopg; what fails is said once.
        logging.getLogger("psycopg").setLevel(logging.ERROR)
