"""Options that define a campaign, shared by `campaign create` and `campaign change`.

The options of settings come from the declarations in `model.campaign_spec`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import click

from taskq import CampaignSpec, Handler, RetryPolicy
from taskq.ingest.sources.records import given_value
from taskq.model.errors import UsageError
from taskq.model.settings import settings
from taskq_cli.options.shared import setting_option, setting_value, together

_SETTINGS: Final = [
    setting
    for kind in (CampaignSpec, RetryPolicy)
    for setting in settings(kind).values()
    if setting.name != "path"
]

_OPTIONS: Final = (
    click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="[-- PROGRAM...]"),
    click.option(
        "--python",
        metavar="MODULE:FUNCTION",
        help="Execute tasks by a Python callable, in a long-lived child process.",
    ),
    click.option(
        "--prepare",
        metavar="MODULE:FUNCTION",
        help="With --python: called once in each child, before its first task.",
    ),
    click.option(
        "--process",
        is_flag=True,
        default=None,
        help="The program is long-lived and speaks JSON lines; otherwise each task starts one.",
    ),
    *(
        setting_option(setting, "those given replace all before, '' leaves none")
        for setting in _SETTINGS
    ),
    click.option(
        "--param",
        multiple=True,
        metavar="NAME=VALUE",
        help="A parameter that all tasks share: a number or text. May be repeated. Double quotes "
        "make a number text.",
    ),
)
_NAMES: Final = (
    *("program", "python", "prepare", "process", "param"),
    *(setting.name for setting in _SETTINGS),
)


class SpecOptions:
    """The options that were given, by the names of their parameters."""

    def __init__(self, parsed: Mapping[str, Any]) -> None:
        # 0 and --no-front count as given.
        self._given = {
            name: value for name, value in parsed.items() if value is not None and value != ()
        }

    def any_given(self) -> bool:
        """Return whether any option was given."""
        return bool(self._given)

    def applied(self, spec: CampaignSpec) -> CampaignSpec:
        """Return the spec changed by the options; raise `InvalidCampaign` if it is not valid."""
        given = self._given
        changes = {
            setting.name: setting_value(setting, given[setting.name])
            for setting in _SETTINGS
            if setting.name in given
        }
        retry = {name: changes.pop(name) for name in settings(RetryPolicy) if name in changes}
        return replace(
            spec,
            handler=self._handler() or spec.handler,
            retry=replace(spec.retry, **retry),
            params={**spec.params, **dict(map(_param, given.get("param", ())))},
            **changes,
        )

    def _handler(self) -> Handler | None:
        python, program = self._given.get("python"), self._given.get("program", ())
        process, prepare = self._given.get("process"), self._given.get("prepare")
        if prepare is not None and python is None:
            raise UsageError("--prepare needs --python")
        if python is not None:
            if program or process:
                raise UsageError("--python and a program exclude each other: choose one")
            return Handler("python", target=python, prepare=prepare)
        if program:
            return Handler("process" if process else "command", argv=program)
        if process:
            raise UsageError("--process needs a program with its arguments after --")
        return None


def spec_options(command: Callable[..., Any]) -> Any:
    """Add the options; the command gets them as `options`, a `SpecOptions`."""

    @functools.wraps(command)
    def collected(*args: Any, **kwargs: Any) -> Any:
        parsed = {name: kwargs.pop(name) for name in _NAMES}
        return command(*args, options=SpecOptions(parsed), **kwargs)

    return together(*_OPTIONS)(collected)


def _param(text: str) -> tuple[str, int | float | str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"--param {text!r} must read NAME=VALUE, such as exhaustiveness=8")
    return name, given_value(value)
