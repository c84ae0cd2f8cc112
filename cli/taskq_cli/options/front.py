"""Option `--redis` of the commands that use the front (Redis lists of tasks leased ahead)."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

import click
from click.core import ParameterSource

from taskq.front.address import FrontAddress
from taskq.model.errors import ExtraMissing, UsageError

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
