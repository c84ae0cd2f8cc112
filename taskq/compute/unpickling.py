"""Reads pickled results, which may come from an agent that nobody should trust.

A pickle names the functions that its reader calls. This reader knows data types of the standard
library and of NumPy, exceptions, and the classes of the caller's own `__main__`; other classes and
modules are named by the caller, or refused.
"""

from __future__ import annotations

import base64
import importlib
import io
import pickle
from collections.abc import Iterable
from enum import EnumMeta
from operator import attrgetter
from types import ModuleType
from typing import Any, Final, TypeAlias

from taskq.compute.fingerprint import named_object
from taskq.errors import ResultNotTrusted

#: What `trust` takes: True for whatever agents send, or classes, modules and names of modules.
Trust: TypeAlias = bool | Iterable[type | ModuleType | str]

_HARMLESS: Final = frozenset(
    {("builtins", name) for name in ("set", "frozenset", "bytearray", "complex", "range", "slice")}
    | {("collections", name) for name in ("OrderedDict", "deque", "Counter", "defaultdict")}
    | {("datetime", name) for name in ("datetime", "date", "time", "timedelta", "timezone")}
    | {("copyreg", "_reconstructor"), ("builtins", "object")}
    | {("decimal", "Decimal"), ("fractions", "Fraction"), ("uuid", "UUID"), ("uuid", "SafeUUID")}
    | {("pathlib", name) for name in ("PosixPath", "PurePosixPath", "Path", "PurePath")}
    | {("pathlib._local", name) for name in ("PosixPath", "PurePosixPath", "Path", "PurePath")}
    | {(f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")}
    | {(f"numpy.{core}.multiarray", "scalar") for core in ("core", "_core")}
    | {(f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")}
    | {("numpy", "ndarray"), ("numpy", "dtype")}
    | {("_operator", "or_")}  # of flags, by Python 3.11.0 to 3.11.3
)


class ResultReader:
    """Reads pickled results with the classes that a caller trusts.

    homes: modules of functions that the caller calls, whose classes are the caller's own as well.
    """

    def __init__(self, trust: Trust = ()) -> None:
        self._all = trust is True
        named = () if isinstance(trust, bool) else trust
        self._classes = {
            (one.__module__, one.__qualname__) for one in named if isinstance(one, type)
        }
        modules = {one for one in named if isinstance(one, str)}
        modules |= {one.__name__ for one in named if isinstance(one, ModuleType)}
        self._modules = modules
        self.homes = {"__main__"}

    def __call__(self, words: list[str]) -> Any:
        """Return the object of a result; raise `ResultNotTrusted` if it would need more."""
        try:
            data = base64.b64decode(words[0], validate=True)
            return _Reader(io.BytesIO(data), self).load()
        except ResultNotTrusted:
            raise
        except Exception as error:  # bytes from outside
            raise ResultNotTrusted(f"a pickled result cannot be read here: {error}") from error

    def find(self, module: str, name: str) -> Any:
        """Return what a pickle names, if it may be used."""
        if self._all or (module, name) in self._classes | _HARMLESS or self._in_trusted(module):
            return attrgetter(name)(importlib.import_module(module))
        if (module, name) == ("builtins", "getattr"):
            return _member
        found = named_object(module, name)
        if (
            isinstance(found, type)
            and (found.__module__, found.__qualname__) == (module, name)
            and (issubclass(found, BaseException) or module in self.homes)
        ):
            return found
        raise ResultNotTrusted(
            f"a result needs {module}.{name}, and what agents send may be anything: "
            f'if you trust those that serve this campaign, say trust=["{module}"]',
            f"{module}.{name}",
        )

    def _in_trusted(self, module: str) -> bool:
        return any(module == one or module.startswith(f"{one}.") for one in self._modules)


def _member(kind: Any, name: Any) -> Any:
    """Return a member of an enumeration, as Python 3.11.0 to 3.11.3 pickle it; nothing else."""
    if isinstance(kind, EnumMeta) and isinstance(name, str) and name in kind.__members__:
        return kind[name]
    raise ResultNotTrusted(
        "a result needs builtins.getattr of what is no enumeration: if you trust those that serve "
        'this campaign, say trust=["builtins"]',
        "builtins.getattr",
    )


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, rules: ResultReader) -> None:
        super().__init__(file)
        self._rules = rules

    def find_class(self, module: str, name: str) -> Any:
        return self._rules.find(module, name)

    def persistent_load(self, reference: Any) -> Any:
        """Return a class of `__main__`: this process's own, if it has one of that name."""
        _, name = reference
        found = named_object("__main__", name)
        if isinstance(found, type) and found.__qualname__ == name:
            return found
        raise ResultNotTrusted(f"a result is of the class {name}, which this program does not have")
