"""Settings of libraries that hold for all calls of a process, and that a call may change."""

from __future__ import annotations

import sys
from typing import Any, Callable, NamedTuple


class LibrarySetting(NamedTuple):
    """A setting of a library that holds for all its users. usual: before anybody has set it."""

    name: str
    module: str
    usual: Any
    read: Callable[[Any], Any]
    put_back: Callable[[Any, Any], object]

    def value(self) -> Any:
        """Return the present value; the usual one if the library is not in use, or is broken."""
        module = sys.modules.get(self.module)
        try:
            return self.usual if module is None else self.read(module)
        except Exception:  # noqa: BLE001 - payload code may have changed it
            return self.usual


def _decimal(module: Any) -> Any:
    context = module.getcontext()
    return context.prec, context.rounding


def _set_decimal(module: Any, was: Any) -> None:
    context = module.getcontext()
    context.prec, context.rounding = was


SETTINGS = (
    LibrarySetting(
        "the time limit of sockets",
        "socket",
        None,
        lambda it: it.getdefaulttimeout(),
        lambda it, was: it.setdefaulttimeout(was),
    ),
    LibrarySetting(
        "how multiprocessing starts processes",
        "multiprocessing",
        None,
        lambda it: it.get_start_method(allow_none=True),
        lambda it, was: it.set_start_method(was, force=True),
    ),
    LibrarySetting(
        "the context of decimal", "decimal", (28, "ROUND_HALF_EVEN"), _decimal, _set_decimal
    ),
    LibrarySetting(
        "the level of all logs",
        "logging",
        0,
        lambda it: it.root.manager.disable,
        lambda it, was: it.disable(was),
    ),
    LibrarySetting(
        "the errors of numpy",
        "numpy",
        {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"},
        lambda it: it.geterr(),
        lambda it, was: it.seterr(**was),
    ),
)
