"""A function that agents are to call: by name, or by value."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from taskq.compute.fingerprint import fingerprint, named_object
from taskq.model.errors import UsageError

_NOT_IN_A_PATH: Final = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Function:
    """A function with its name for people, and the digest of what it does.

    target: where agents import it from, as module:function; None if it goes by value.
    """

    function: Callable[..., Any]
    name: str
    target: str | None
    fingerprint: str

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Function:
        """Return the function for a callable; raise `UsageError` if it cannot be called."""
        if not callable(function):
            raise UsageError(f"{function!r:.80} is no function")
        module = getattr(function, "__module__", None)
        qualname = getattr(function, "__qualname__", type(function).__qualname__)
        name = qualname.rpartition(".<locals>.")[2]
        named = (
            module not in {None, "__main__"}
            and all(map(str.isidentifier, f"{module}.{qualname}".split(".")))
            and named_object(module, qualname) is function
        )
        return cls(function, name, f"{module}:{qualname}" if named else None, fingerprint(function))

    @property
    def default_path(self) -> str:
        """The campaign path for single calls, different for functions that do different things."""
        name = _NOT_IN_A_PATH.sub("-", self.name).strip("-_") or "function"
        return f"/calls/{name[:60]}-{self.fingerprint[:12]}"


def python_version() -> str:
    """Return the version of Python whose code a pickle holds, such as 3.11."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"
