"""Reads the values of results, which may come from an agent that nobody should trust.

A result is data: reading it runs no code of anybody's classes. An object that has no form as data
is a pickle, and whatever a pickle names may run. So a pickle is read if the caller says so, or if
an agent of this user has reported it to this user's own server; see `own_results`.
"""

from __future__ import annotations

import datetime as dt
import importlib
import io
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from types import ModuleType
from typing import Any, Final, TypeAlias

from taskq.compute.raised import defined, exception_class, exception_of
from taskq.db.access import Queries
from taskq.model.errors import ResultNotTrusted, UsageError
from taskq.model.given import names
from taskq_agent import arrays, objects, typed
from taskq_agent.text import clean

#: Values of `trust`: True for anything that agents send, or classes, modules and names of modules.
Trust: TypeAlias = bool | Iterable[type | ModuleType | str]
#: Whether an agent of this user has reported a result: by campaign, task, and attempt if known.
IsOwn: TypeAlias = Callable[[int, int, int | None], bool]

_NEVER_WHOLE: Final = sys.stdlib_module_names | {"taskq", "taskq_agent", "taskq_cli"}
#: Packages in which values of a package are kept.
_NEEDED: Final = {"pandas": ("pyarrow",), "sklearn": ("scipy",)}
#: Functions made for pickles whose names do not begin with an underscore.
_PUBLIC: Final = {
    *(("pyarrow.lib", "py_buffer"), ("pyarrow.lib", "type_for_alias")),
    ("taskq_agent.objects", "rebuilt"),
}
#: What any pickle that is read may name: classes of plain values.
_VALUES: Final = {
    "builtins": (
        *("bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list"),
        *("object", "range", "set", "slice", "str", "tuple"),
    ),
    "collections": ("Counter", "OrderedDict", "defaultdict", "deque"),
    "datetime": tuple(name for name, value in vars(dt).items() if isinstance(value, type)),
    "decimal": ("Decimal",),
    "fractions": ("Fraction",),
    **dict.fromkeys(
        ("pathlib", "pathlib._local"), ("PosixPath", "PurePosixPath", "PureWindowsPath")
    ),
    "uuid": ("UUID",),
    "zoneinfo": ("ZoneInfo",),
}
_NUMPY: Final = "numpy"
#: What pickles of NumPy's values name, apart from classes of values. NumPy as a whole can write
#: files and, in some releases, run programs; and its arrays are within values of anybody's classes.
_OF_NUMPY: Final = {
    "numpy._core": ("_ufunc_reconstruct",),
    "numpy._core.multiarray": ("_reconstruct", "scalar"),
    "numpy._core.numeric": ("_frombuffer",),
    "numpy.ma.core": ("_mareconstruct", "MaskedArray"),
    "numpy.ma": ("MaskedArray",),
    "numpy.random._pickle": ("__bit_generator_ctor", "__generator_ctor", "__randomstate_ctor"),
    "numpy.random.bit_generator": ("SeedSequence", "__pyx_unpickle_SeedSequence"),
    **{
        f"numpy.random.{module}": (name,)
        for module, name in (
            *(("_mt19937", "MT19937"), ("_pcg64", "PCG64"), ("_philox", "Philox")),
            *(("_sfc64", "SFC64"), ("_generator", "Generator"), ("mtrand", "RandomState")),
        )
    },
    "numpy": ("matrix", "ndarray", "poly1d", "recarray"),
    "numpy.rec": ("recarray",),
}
_MOST_NAME_CHARS: Final = 200


def own_results(database: Queries, *, embedded: bool) -> IsOwn:
    """Return what says which results agents of this user have reported to this user's own server.

    Those have a connection of their own, as `local_agents` and `taskq agent run` do. What came by a
    gateway has the token of its session; another login could report in the name of any session, so
    nothing counts as this user's own where another login has a role. embedded: whether the server
    is this user's own; on any other one there are none.
    """
    if not embedded:
        return _nobodys
    return lambda campaign, task, attempt: bool(
        database.value("is_own_result", campaign=campaign, task=task, attempt=attempt)
    )


def _nobodys(*_: int | None) -> bool:
    return False


class ResultReader:
    """Reads results with the classes that a caller trusts; raises `UsageError` for others.

    is_own: whether a pickle is read without `trust`. by_value: whether agents were asked for
    pickles; for functions by name they make none. homes: modules of functions that the caller
    calls; objects of classes that these define are read as data.
    """

    def __init__(
        self,
        trust: Trust = (),
        *,
        is_own: IsOwn = _nobodys,
        by_value: bool = True,
        homes: Iterable[str] = (),
    ) -> None:
        self._is_own = is_own
        self._by_value = by_value
        self._all = trust is True
        self._classes: set[type] = set()
        self._packages: set[str] = set()
        for trusted in () if isinstance(trust, bool) else names("trusted classes", trust):
            if isinstance(trusted, type):
                self._classes.add(trusted)
            else:
                package = _package(trusted.__name__ if isinstance(trusted, ModuleType) else trusted)
                self._packages |= {package, *_NEEDED.get(package, ())}
        self.homes = {"__main__", *homes}

    def decoded(
        self,
        result: Mapping[str, Any] | None,
        campaign: int = 0,
        task: int = 0,
        attempt: int | None = None,
    ) -> Any:
        """Return the value of a stored result; raise `ResultNotTrusted` if it needs more trust.

        The others say where it was stored; see `IsOwn`.
        """

        @cache
        def trusts_all() -> bool:
            return self._all or self._is_own(campaign, task, attempt)

        find = partial(self._class, trusts_all)
        unpickle = partial(self._unpickled, trusts_all)
        try:
            read = objects.ObjectReader(find, unpickle, partial(_error, find))
            return typed.decode_result(result, read)
        except ValueError as error:  # no agent of taskq has stored it
            raise ResultNotTrusted(
                f"a result cannot be read: {error}. Agents of this release write no such result: "
                "withdraw it, to have it computed again (`taskq retry CAMPAIGN --key KEY --status "
                "done`)"
            ) from error

    def find(self, module: str, path: str) -> type:
        """Return the class of an object in data; raise `ResultNotTrusted` if it is not trusted."""
        return self._class(lambda: self._all, module, path)

    def _class(self, trusts_all: Callable[[], bool], module: str, path: str) -> type:
        is_known = module in self.homes or self._in_trusted(module)
        if not is_known and trusts_all():
            importlib.import_module(module)
        found = defined(module, path)
        if found is not None and (is_known or found in self._classes or trusts_all()):
            return found
        raise self._unknown(module, path) if is_known else _not_trusted(module, path)

    def _unknown(self, module: str, path: str) -> ResultNotTrusted:
        full = clean(f"{module}.{path}")[:_MOST_NAME_CHARS]
        return ResultNotTrusted(
            f"a result is of the class {full}, which this program does not have: import {module}, "
            "and define the class at its top level",
            full,
        )

    def _unpickled(self, trusts_all: Callable[[], bool], parts: list[Any]) -> Any:
        """Return the object of a pickle and its buffers: Base64, or views of a blob."""
        if not self._by_value:
            raise ResultNotTrusted(
                "a result is pickled, but agents never pickle results of functions that are called "
                "by name: it is not read"
            )
        name, data, *buffers = parts
        module, _, path = str(name).partition(":")
        if trusts_all():
            find = _any
        elif self._classes or self._packages:
            find = self._named
        else:
            raise _not_trusted(module, path)
        try:
            file = io.BytesIO(arrays.bytes_of(data))
            return _Unpickler(file, find, map(_writable, map(arrays.bytes_of, buffers))).load()
        except (ResultNotTrusted, ModuleNotFoundError):
            raise
        except Exception as error:  # bytes from outside
            raise ResultNotTrusted(f"a pickled result cannot be read here: {error}") from error

    def _named(self, module: str, name: str) -> Any:
        """Return what a pickle names, if the caller has named it, or its package."""
        if module.partition(".")[0] == _NUMPY and defined(module, name) not in self._classes:
            return _of_numpy(module, name)
        if self._in_trusted(module):
            importlib.import_module(module)
        found: Any = defined(module, name)
        if found is not None and (found in self._classes or name in _VALUES.get(module, ())):
            return found
        if (error := exception_class(module, name)) is not None:
            return error
        found = vars(sys.modules.get(module, object)).get(name) if found is None else found
        is_function = callable(found) and not isinstance(found, type)
        home = getattr(found if callable(found) else type(found), "__module__", None)
        if (not is_function or name[:1] == "_" or (module, name) in _PUBLIC) and (
            (module, name) in _PUBLIC or self._in_trusted(str(home))
        ):
            return found
        raise _not_trusted(module, name)

    def _in_trusted(self, module: str) -> bool:
        return any(
            module == package or module.startswith(f"{package}.") for package in self._packages
        )


class _Unpickler(pickle.Unpickler):
    """Python's own reader; `find` returns what a pickle names."""

    def __init__(
        self, file: io.BytesIO, find: Callable[[str, str], Any], buffers: Iterable[memoryview]
    ) -> None:
        super().__init__(file, buffers=buffers)
        self._find = find

    def find_class(self, module: str, name: str) -> Any:
        """Return what a pickle names."""
        return self._find(module, name)

    def persistent_load(self, reference: Any) -> Any:
        """Return a class of `__main__`, which agents refer to by name."""
        return self._find("__main__", str(reference[1]))


def _of_numpy(module: str, name: str) -> Any:
    """Return what a pickle of values of NumPy names; no other module of it is imported."""
    numpy = importlib.import_module(_NUMPY)
    if name in _OF_NUMPY.get(re.sub(r"^numpy\.core\b", "numpy._core", module), ()):
        return getattr(importlib.import_module(module), name)
    found = vars(sys.modules.get(module, object)).get(name)
    if isinstance(found, numpy.ufunc):
        return found
    if isinstance(found, type) and issubclass(found, (numpy.generic, numpy.dtype)):
        return found
    raise _not_trusted(module, name)


def _any(module: str, name: str) -> Any:
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _writable(buffer: Any) -> memoryview:
    view = memoryview(buffer)
    return memoryview(bytearray(view)) if view.readonly else view


def _error(find: objects.FindClass, record: Any) -> BaseException:
    error = exception_of(record, find) if isinstance(record, Mapping) else None
    if error is None:
        kind = clean(str(record.get("class") if isinstance(record, Mapping) else record))
        raise ResultNotTrusted(
            f"a result is the exception {kind[:_MOST_NAME_CHARS]}, which this program does not "
            "have, or which is not made of data: import its module, or return its text"
        )
    return error


def _package(name: str) -> str:
    if name.partition(".")[0] in _NEVER_WHOLE:
        raise UsageError(
            f"trust=[{name!r}]: whole modules of Python and of taskq cannot be trusted, since they "
            "start programs and write files: name classes in them"
        )
    return name


def _not_trusted(module: str, name: str) -> ResultNotTrusted:
    name, full = (clean(text)[:_MOST_NAME_CHARS] for text in (name, f"{module}.{name}"))
    package = clean(module.partition(".")[0])[:_MOST_NAME_CHARS]
    if module == "__main__":
        how = f"Make it a dataclass or return its fields; or use trust=[{name}]"
    elif package in _NEVER_WHOLE or package == _NUMPY:
        how = "Return plain data; or name the class in trust="
    else:
        how = f'Return its data; or use trust=["{package}"], or the class itself,'
    return ResultNotTrusted(
        f"a result needs {full}, and to read it could run what an agent has sent. {how} if you "
        "trust all agents that serve the campaign",
        full,
    )
