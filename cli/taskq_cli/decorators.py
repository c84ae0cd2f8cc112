"""Decorators of commands, made of several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Decorator: TypeAlias = Callable[[Any], Any]


def together(*options: Decorator) -> Decorator:
    """Return a decorator that adds options, or arguments, in this order."""

    def decorated(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated
