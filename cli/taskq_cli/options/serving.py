"""Options of commands that run for long: the log, and the Redis that holds the front."""

from __future__ import annotations

import logging
from importlib.util import find_spec
from typing import Final

import click
from click.core import ParameterSource

from taskq.front.address import FrontAddress
from taskq.model.errors import ExtraMissing, UsageError
from taskq_agent import log
from taskq_cli.display.text import one_line
from taskq_cli.options.shared import together

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


ENVIRONMENT: Final = "TASKQ_REDIS"
_NEEDED: Final = ("redis", "msgspec")


def _address(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> FrontAddress | None:
    if not value:
        return None
    for module in _NEEDED:
        if find_spec(module) is None:
            raise ExtraMissing(f"--redis needs {module}", "front")
    address = FrontAddress.parsed(value)
    source = context.get_parameter_source(parameter.name or "")
    if address.has_password and source is ParameterSource.COMMANDLINE:
        raise UsageError(
            "--redis holds a password, which all users of the machine could read; leave it out and "
            f"give the address in the environment, as {ENVIRONMENT}"
        )
    return address


#: Adds `--redis`; the command gets `front`, a `FrontAddress` or None.
front_option: Final = click.option(
    "--redis",
    "front",
    metavar="URL",
    envvar=ENVIRONMENT,
    callback=_address,
    help="Redis or Valkey for tasks leased ahead, as redis://host:6379/0 or rediss://... One "
    f"with a password goes into {ENVIRONMENT} only. [default: {ENVIRONMENT}, else none]",
)
