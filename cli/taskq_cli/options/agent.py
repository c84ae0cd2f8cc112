"""Options of `taskq agent run`: those of `taskq-agent run` that need no gateway, and the lease."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from taskq.dispatch.direct import LEASE_S
from taskq.model.errors import UsageError
from taskq.model.tags import check_offers
from taskq.model.version import VERSION
from taskq_agent import arguments
from taskq_agent.run_options import OPTIONS, Option, settings
from taskq_cli.decorators import together
from taskq_cli.shared import campaign_option, seconds


def agent_options(command: Callable[..., Any]) -> Any:
    """Add the options; the command gets `agent` and `runner`, the settings, and what is left."""

    @functools.wraps(command)
    def collected(*args: Any, **kwargs: Any) -> Any:
        names = ("campaign", *(option.name for option in OPTIONS if option.name != "self_test"))
        parsed = {name: kwargs.pop(name) for name in names}
        offers = check_offers(parsed["offers"])
        try:
            agent, runner = settings(parsed, offers=offers, release=VERSION)
        except ValueError as error:
            raise UsageError(str(error)) from None
        return command(*args, agent=agent, runner=runner, **kwargs)

    return together(_CAMPAIGN, *map(_as_click, OPTIONS), _LEASE)(collected)


def _as_click(option: Option) -> Callable[..., Any]:
    text = f"{option.help[0].upper()}{option.help[1:]}."
    if option.check is None:
        return click.option(option.flag, option.name, is_flag=True, help=text)
    return click.option(
        option.flag,
        option.name,
        type=_click_type(option.check),
        default=option.default,
        multiple=option.repeated,
        metavar=option.metavar,
        help=text,
    )


def _click_type(check: Callable[[str], Any]) -> Any:
    """Return a type for what an argument of the agent is checked by.

    Folders get the type by which Click completes them, and `utf_8_only` knows file names.
    """
    if check in {arguments.folder, arguments.existing_folder}:
        exists = check is arguments.existing_folder
        return click.Path(exists=exists, file_okay=False, resolve_path=True, path_type=Path)
    if check is int:
        return int

    def convert(value: Any) -> Any:
        try:
            return check(value) if isinstance(value, str) else value  # a default
        except argparse.ArgumentTypeError as error:
            raise click.BadParameter(f"{error}.") from None

    return convert


_CAMPAIGN: Final = campaign_option(required=True, help="Campaign to serve, with all below it.")
_LEASE: Final = click.option(
    "--lease",
    "lease_s",
    type=seconds(1, 86_400),
    default=LEASE_S,
    show_default=True,
    metavar="TIME",
    help="Time without a heartbeat after which its tasks are handed to other agents.",
)
