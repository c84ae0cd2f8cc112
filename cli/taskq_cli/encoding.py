"""Check that arguments of the command line are UTF-8; only file names may be other bytes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

import click

from taskq_agent.text import is_unicode

_SECRET: Final = frozenset({"dsn", "front"})  # may have a password in them


def utf_8_only(command: click.Command) -> None:
    """Make a command refuse values that are not UTF-8, except file names, before it runs.

    Python decodes each invalid byte to a lone surrogate, which PostgreSQL and JSON refuse.
    """
    for parameter in command.params:
        if not isinstance(parameter.type, click.Path):
            parameter.callback = _checked(parameter.callback)


def _checked(callback: Callable[..., Any] | None) -> Callable[..., Any]:
    def check(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        for word in value if isinstance(value, tuple) else (value,):
            if isinstance(word, str) and not is_unicode(word):
                shown = os.fsencode(word).decode("ascii", "backslashreplace")
                subject = "it" if parameter.name in _SECRET else f"'{shown}'"
                raise click.BadParameter(
                    f"{subject} is not UTF-8; only names of files may be otherwise.",
                    ctx=context,
                    param=parameter,
                )
        return value if callback is None else callback(context, parameter, value)

    return check
