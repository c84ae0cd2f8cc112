"""Logging of commands that run for long: one line per event on standard error."""

from __future__ import annotations

import logging
from typing import Final

import click

from taskq_agent import log
from taskq_cli.decorators import together
from taskq_cli.display.text import one_line

verbosity_options: Final = together(
    click.option("--verbose", "-v", is_flag=True, help="Log every detail."),
    click.option("--quiet", "-q", is_flag=True, help="Log warnings and errors only."),
)


def log_to_stderr(*, verbose: bool, quiet: bool) -> None:
    """Log to standard error as agents do, in lines that a terminal cannot obey."""
    log.log_to_stderr(verbose=verbose, quiet=quiet, shown=one_line)
    if not verbose:
        # Each connection that it tries in vain is worth a line to psycopg; what fails is said once.
        logging.getLogger("psycopg").setLevel(logging.ERROR)
