"""Reads pickled results, which may come from an agent that nobody should trust.

The reader calls only functions that make plain data. It makes exceptions, and objects of classes
of the caller's own `__main__`, of data alone (`data_objects`). All other classes may run code of
their own: the caller must name them.
"""

from __future__ import annotations

import importlib
import io
import pathlib
import pickle
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta, timezone
from enum import EnumMeta, Flag
from types import FunctionType, ModuleType
from typing import Any, Final, TypeAlias

from taskq.compute import data_objects
from taskq.compute.pickle_steps import MOST_OF_KEY, PickleReading, Steps
from taskq.model.errors import ResultNotTrusted, UsageError
from taskq_agent import arrays, typed

#: Values of `trust`: True for anything that agents send, or classes, modules and names of modules.
Trust: TypeAlias = bool | Iterable[type | ModuleType | str]

_NEVER_WHOLE: Final = sys.stdlib_module_names | {"taskq", "taskq_agent", "taskq_cli"}
#: Packages in which values of a package are kept.
_NEEDED: Final = {"pandas": ("pyarrow",)}
#: Functions made for pickles whose names do not begin with an underscore.
_PUBLIC: Final = {("pyarrow.lib", "py_buffer"), ("pyarrow.lib", "type_for_alias")}
#: Classes of values that a pickle may hold or refer to.
_PLAIN: Final = {
    (kind.__module__, kind.__qualname__): kind
    for kind in (
        *(bool, bytearray, bytes, complex, dict, float, frozenset, int, list, object, range, set),
        *(slice, str, tuple, Counter, OrderedDict, defaultdict, deque, timezone),
        *(type(pathlib.Path()), pathlib.PurePosixPath, pathlib.PureWindowsPath),
    )
} | {("pathlib._local", name): getattr(pathlib, name) for name in ("PosixPath", "PurePosixPath")}


class ResultReader:
    """Reads pickled results with the classes that a caller trusts; raises `UsageError` for others.

    by_value: whether agents were asked for pickles; for functions by name they make none.
    homes: modules of functions that the caller calls; their classes count as the caller's own.
    """

    def __init__(self, trust: Trust = (), *, by_value: bool = True) -> None:
        self._by_value = by_value
        self._all = trust is True
        self._classes: set[type] = set()
        self._packages: set[str] = set()
        for one in () if isinstance(trust, bool) else trust:
            if isinstance(one, type):
                self._classes.add(one)
            else:
                package = _package(one.__name__ if isinstance(one, ModuleType) else one)
                self._packages |= {package, *_NEEDED.get(package, ())}
        self.homes = {"__main__"}

    def decoded(self, result: Mapping[str, Any] | None) -> Any:
        """Return the value of a stored result; raise `ResultNotTrusted` if it needs more trust."""
        steps = Steps()

        def unpickle(parts: list[Any]) -> Any:
            if not self._by_value:
                raise ResultNotTrusted(
                    "a result is pickled, but agents never pickle results of functions that are "
                    "called by name: it is not read"
                )
            return self._unpickled(parts, steps)

        try:
            return typed.decode_result(result, unpickle)
        except ValueError as error:  # no agent of taskq has stored it
            raise ResultNotTrusted(f"a result cannot be read: {error}") from error

    def _unpickled(self, parts: list[Any], steps: Steps) -> Any:
        """Return the value of a pickle and its buffers: Base64, or views of a blob."""
        try:
            data, *buffers = map(arrays.bytes_of, parts)
            data, buffers = bytes(data), [_writable(one) for one in buffers]
            if self._all:
                return _Everything(io.BytesIO(data), self, buffers).load()
            return PickleReading(self, steps, buffers).value(data)
        except (ResultNotTrusted, ModuleNotFoundError):
            raise
        except Exception as error:  # bytes from outside
            raise ResultNotTrusted(f"a pickled result cannot be read here: {error}") from error

    def named(self, module: str, name: str) -> Any:
        """Return the object that a pickle names, if it may be used."""
        if (module, name) in _FUNCTIONS:
            return _FUNCTIONS[module, name]
        if (module, name) in _PLAIN:
            return _PLAIN[module, name]
        if self._in_trusted(module):
            importlib.import_module(module)
        found = _found(module, name)
        if self._trusts(found) or self._is_known(found):
            return found
        found = vars(sys.modules.get(module, ModuleType(""))).get(name)
        if not callable(found) and self._in_trusted(type(found).__module__):
            return found  # as pandas.NA
        raise self._not_trusted(module, name)

    def referred(self, reference: Any) -> Any:
        """Return a class of `__main__`: this process's own, if it has one of this name."""
        _, name = reference
        found = _found("__main__", str(name))
        if isinstance(found, type):
            return found
        raise ResultNotTrusted(f"a result is of the class {name}, which this program does not have")

    def called(self, what: Any, args: tuple[Any, ...]) -> Any:
        """Return the value of a call of a function or class."""
        if self._trusts(what):
            return what(*args)
        try:
            if isinstance(what, (type, FunctionType)) and what in _MAKERS:
                return _MAKERS[what](*args)
            if isinstance(what, EnumMeta):
                return _by_value(what, *args)
            if _is_a(what, (set, frozenset)):
                return _set_of(what, *args)
        except data_objects.NotData as error:
            raise self._needs_code(what, error) from None
        raise self._needs_code(what)

    def new(self, kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return a new object of a class."""
        if self._trusts(kind):
            return kind.__new__(kind, *args, **kwargs)
        if kwargs or not isinstance(kind, type) or issubclass(kind, BaseException):
            raise self._needs_code(kind)
        try:
            return data_objects.made(kind, args)
        except data_objects.NotData as error:
            raise self._needs_code(kind, error) from None

    def give_state(self, thing: Any, state: Any) -> None:
        """Set the attributes of an object."""
        kind = type(thing)
        if self._trusts(kind) and hasattr(thing, "__setstate__"):
            thing.__setstate__(state)
            return
        try:
            data_objects.give_state(thing, state)
        except data_objects.NotData as error:
            raise self._needs_code(kind, error) from None

    def _trusts(self, found: Any) -> bool:
        """Return whether the caller has named a class or function, or its package."""
        if isinstance(found, type) and found in self._classes:
            return True
        home = getattr(found, "__module__", None)
        if not (isinstance(home, str) and callable(found) and self._in_trusted(home)):
            return False
        return isinstance(found, type) or _makes_again(home, getattr(found, "__name__", ""))

    def _is_known(self, found: Any) -> bool:
        return isinstance(found, type) and (
            issubclass(found, BaseException) or found.__module__ in self.homes
        )

    def _in_trusted(self, module: str) -> bool:
        return any(module == one or module.startswith(f"{one}.") for one in self._packages)

    def _not_trusted(self, module: str, name: str) -> ResultNotTrusted:
        full = f"{module}.{name}"
        package = module.partition(".")[0]
        if self._in_trusted(module):
            remedy = "which is neither a class of that package nor a function that restores values"
        elif package in _NEVER_WHOLE:
            remedy = (
                "which is not plain data: if your function returns such objects, name the class "
                "itself in trust="
            )
        else:
            remedy = (
                "and agents can send anything: if you trust the agents of this campaign with all "
                f'classes of {package}, use trust=["{package}"]'
            )
        return ResultNotTrusted(f"a result needs {full}, {remedy}", full)

    def _needs_code(self, kind: Any, why: Exception | None = None) -> ResultNotTrusted:
        name = getattr(kind, "__qualname__", type(kind).__qualname__)
        about = f" ({why})" if why is not None else ""
        return ResultNotTrusted(
            f"a {name} is not made of data alone{about}: if you trust the agents of this campaign "
            f"to call it with any arguments, use trust=[{name}]",
            f"{getattr(kind, '__module__', '')}.{name}",
        )


def _writable(buffer: Any) -> memoryview:
    view = memoryview(buffer)
    return memoryview(bytearray(view)) if view.readonly else view


def _package(name: str) -> str:
    if name.partition(".")[0] in _NEVER_WHOLE:
        raise UsageError(
            f"trust=[{name!r}]: whole modules of Python and of taskq cannot be trusted, since they "
            "start programs and write files: name classes in them"
        )
    return name


def exception_class(module: str, name: str) -> type[Exception] | None:
    """Return the exception class of this name, if its module is imported."""
    found = _found(module, name)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _found(module: str, name: str) -> Any:
    """Return the object that an imported module defines under a name; None if it defines none.

    No attribute is read through an object's own code, which could do anything.
    """
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        if not isinstance(found, (ModuleType, type)):
            return None
        found = vars(found).get(part)
    if not callable(found) or getattr(found, "__qualname__", None) != name:
        return None
    return found if getattr(found, "__module__", None) == module else None


def _makes_again(module: str, name: str) -> bool:
    """Return whether a function is one for pickles, by its name: `pandas.read_pickle` is not."""
    return name.startswith("_") or (module, name) in _PUBLIC


def _is_a(kind: Any, of: type | tuple[type, ...]) -> bool:
    return isinstance(kind, type) and issubclass(kind, of)


def _member(kind: Any, name: Any) -> Any:
    """Return a member of an enumeration, which Python 3.11.0 to 3.11.3 pickle so; nothing else."""
    if isinstance(kind, EnumMeta) and isinstance(name, str) and name in kind.__members__:
        return kind.__members__[name]
    raise ValueError("getattr of something that is not an enumeration")


def _both(one: Any, other: Any) -> Any:
    """Return the union of two flags, which those releases pickle so."""
    if isinstance(one, Flag) and type(one) is type(other):
        return one | other
    raise ValueError("or_ of values that are not flags")


def _by_value(kind: EnumMeta, value: Any) -> Any:
    members: Mapping[str, Any] = kind.__members__
    for member in members.values():
        if type(member.value) is type(value) and member.value == value:
            return member
    if _is_a(kind, Flag) and type(value) is int:
        return kind(value)
    raise ValueError(f"{kind.__qualname__} has no {value!r:.80}")


def _set_of(kind: Any, items: Any) -> Any:
    """Return a set of a caller's own class."""
    base: Any = set if _is_a(kind, set) else frozenset
    if type(items) is not list:
        raise TypeError("the elements of a set are not a list")
    if kind.__new__ is not base.__new__ or kind.__init__ is not base.__init__:
        raise data_objects.NotData(f"{kind.__qualname__} has a __new__ or __init__ of its own")
    data_objects.check_extent(items, most=MOST_OF_KEY, hashing=True)
    typed.refuse_alike(items)
    return kind(items)


def _exception(kind: Any, args: Any, state: Any) -> Any:
    if _is_a(kind, BaseException) and all(type(name) is str for name in state):
        return typed.rebuilt(kind, args, state)
    raise ValueError("not an exception")


def _decoded(stored: Any) -> Any:
    return typed.decode(stored)  # without what would read a pickle


def _defaultdict(factory: type | None = None) -> Any:
    if factory is not None and not isinstance(factory, type):
        raise TypeError("the maker of missing values is not a class")
    return defaultdict(factory)


def _deque(_: Any = (), most: int | None = None) -> Any:
    return deque(maxlen=most)  # a pickle appends its items as for a list


def _of(make: Any, *kinds: type) -> Callable[..., Any]:
    """Return a maker that takes arguments of exactly these types, or fewer."""

    def maker(*args: Any) -> Any:
        if len(args) > len(kinds) or any(
            type(one) is not kind for one, kind in zip(args, kinds, strict=False)
        ):
            raise ValueError(f"a {make.__qualname__} cannot be made of {args!r:.80}")
        return make(*args)

    return maker


def _path(kind: Any) -> Callable[..., Any]:
    return lambda *parts: kind(*map(str, parts))


#: The functions that agents' pickles call.
_FUNCTIONS: Final[dict[tuple[str, str], Callable[..., Any]]] = {
    ("taskq_agent.typed", "decode"): _decoded,
    ("taskq_agent.arrays", "of_objects"): arrays.of_objects,
    ("taskq_agent.typed", "rebuilt"): _exception,
    ("builtins", "getattr"): _member,
    ("_operator", "or_"): _both,
}
_MAKERS: Final[dict[Any, Callable[..., Any]]] = {
    **{one: one for one in _FUNCTIONS.values()},
    bytearray: _of(bytearray, bytes),
    range: _of(range, int, int, int),
    slice: slice,
    timezone: _of(timezone, timedelta, str),
    Counter: _of(Counter, dict),
    OrderedDict: _of(OrderedDict),
    defaultdict: _defaultdict,
    deque: _deque,
    **{kind: _path(kind) for kind in _PLAIN.values() if _is_a(kind, pathlib.PurePath)},
}


class _Everything(pickle.Unpickler):
    """Python's own reader, for a caller who trusts whatever agents send."""

    def __init__(
        self, file: io.BytesIO, rules: ResultReader, buffers: Iterable[memoryview]
    ) -> None:
        super().__init__(file, buffers=buffers)
        self._rules = rules

    def persistent_load(self, reference: Any) -> Any:
        return self._rules.referred(reference)
