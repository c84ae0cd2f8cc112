"""Digest of what a function does, equal in another process and after a restart of a notebook.

A pickle differs from one process to the next, though the function does not: it holds file names,
line numbers, and random names. So the digest covers the code itself, its constants, defaults and
closure, and the globals that it refers to, at any depth. Functions and classes of other modules
count as well if the modules are the user's own, with their constants, but without their data, which
may change as they run; those of installed packages count by their names. A module that is imported
within a function counts with its own code alone. Comments, line numbers and annotations do not
count.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

#: The type of functions with `functools.lru_cache`.
CACHED: Final = type(functools.cache(id))

_SIMPLE: Final = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
#: What does not change as a module runs.
_FIXED: Final = (
    *(*_SIMPLE, tuple, frozenset, type, FunctionType, ModuleType, CACHED),
    *(property, staticmethod, classmethod),
)
_TASKQ: Final = frozenset({"taskq", "taskq_agent", "taskq_cli"})
_INSTALLED: Final = [
    sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
]
_OF_NO_MEANING: Final = frozenset(
    {"__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__", "__static_attributes__"}
    | {"__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__"}
    | {"__slotnames__", "_abc_impl"}  # kept there by what uses the class
)


def fingerprint(value: Any) -> str:
    """Return the digest of a function, or of another value, in hexadecimal."""
    helpers: dict[str, Any] = {}
    walk = _Walk(getattr(value, "__module__", None), helpers)
    main = walk.digest(value)
    if not helpers:
        return main.hex()
    contents: dict[str, bytes] = {}
    while helpers:  # not by recursion: in a large program they refer to each other many times over
        name, helper = helpers.popitem()
        if name not in contents:
            contents[name] = _hash(name, walk.content(helper, others=True))
    return _hash("helpers", [main, *(contents[name] for name in sorted(contents))]).hex()


class _Walk:
    """One computation. home: the module whose functions and classes count by their content.

    helpers: gets functions and classes of the user's other modules, by name. around: values already
    under way, by id, with the steps up to each as negative numbers.
    """

    def __init__(
        self, home: str | None, helpers: dict[str, Any], around: Mapping[int, int] | None = None
    ) -> None:
        self._home = home
        self._helpers = helpers
        # An id passes to another object once its own is gone: so the objects are kept.
        self._done: dict[int, tuple[bytes, Any]] = {}
        self._under_way = dict(around or {})
        self._around = len(self._under_way)

    def digest(self, value: Any) -> bytes:
        kind = type(value)
        if kind in _SIMPLE:
            return _hash(kind.__name__, [repr(value).encode("utf-8", "surrogatepass")])
        if (done := self._done.get(id(value))) is not None:
            return done[0]
        if (depth := self._under_way.get(id(value))) is not None:
            return _hash("itself", [str(depth).encode()])
        self._under_way[id(value)] = self._depth()
        made = _hash(kind.__name__, self._parts(value))
        del self._under_way[id(value)]
        self._done[id(value)] = made, value
        return made

    def _depth(self) -> int:
        return len(self._under_way) - self._around

    def _parts(self, value: Any) -> Iterator[bytes]:
        if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
            yield from map(self.digest, value)
        elif type(value) in (set, frozenset):
            # Each alone: what was seen before it depends on their order.
            depth = self._depth()
            around = {one: its - depth for one, its in self._under_way.items()}
            yield from sorted(_Walk(self._home, self._helpers, around).digest(one) for one in value)
        elif type(value) is dict:
            yield from self._pairs(value)
        elif isinstance(value, ModuleType):
            yield value.__name__.encode()
        elif isinstance(value, CodeType):
            yield from self._code(value)
        elif isinstance(value, (type, FunctionType, BuiltinFunctionType)):
            yield from self._named(value)
        elif isinstance(value, (MethodType, staticmethod, classmethod)):
            yield self.digest(value.__func__)
            yield self.digest(getattr(value, "__self__", None))
        elif isinstance(value, property):
            yield from map(self.digest, (value.fget, value.fset, value.fdel))
        elif isinstance(value, CACHED):
            yield self.digest(value.__wrapped__)
        else:
            yield from self._object(value)

    def _pairs(self, table: Mapping[Any, Any]) -> Iterator[bytes]:
        for name, value in table.items():
            yield self.digest(name)
            yield self.digest(value)

    def _named(self, value: Any) -> Iterator[bytes]:
        module, name = getattr(value, "__module__", None), value.__qualname__
        yield name.encode()
        if module not in {self._home, "__main__"} and named_object(module, name) is value:
            yield str(module).encode()
            if _is_own(module):
                self._helpers[f"{module}:{name}"] = value
        else:
            yield from self.content(value)

    def content(self, value: Any, *, others: bool = False) -> Iterator[bytes]:
        """Yield what a function or class consists of; others: it is of another module."""
        if isinstance(value, FunctionType):
            yield from self._function(value, others=others)
        elif isinstance(value, type):
            yield from map(self.digest, value.__bases__)
            own = {k: v for k, v in vars(value).items() if k not in _OF_NO_MEANING}
            for name, part in sorted(own.items()):
                yield self.digest(name)
                if others and isinstance(part, FunctionType):
                    yield _hash(name, self._function(part, others=True))
                elif not others or isinstance(part, _FIXED):
                    yield self.digest(part)

    def _function(self, function: FunctionType, *, others: bool) -> Iterator[bytes]:
        yield self.digest(function.__code__)
        yield self.digest(function.__defaults__)
        yield self.digest(function.__kwdefaults__)
        yield from map(self._cell, function.__closure__ or ())
        names = sorted(set(names_in(function.__code__)))
        for name in names:
            if name in function.__globals__:
                value = function.__globals__[name]
                yield name.encode()
                if not others or isinstance(value, _FIXED):
                    yield self.digest(value)
                if isinstance(value, ModuleType):
                    yield from self._used_of(value, names)
        yield from map(_code_of_own, sorted(_imports_in(function.__code__)))

    def _used_of(self, module: ModuleType, names: list[str]) -> Iterator[bytes]:
        """Yield what code with these names may use of a module of the user's own."""
        if not _is_own(module.__name__):
            return
        for name in names:
            value = vars(module).get(name)
            if isinstance(value, ModuleType):
                if value.__name__.startswith(f"{module.__name__}."):
                    yield from self._used_of(value, names)
            elif isinstance(value, _FIXED):
                yield self.digest(value)

    def _cell(self, cell: CellType) -> bytes:
        try:
            return self.digest(cell.cell_contents)
        except ValueError:  # it is empty
            return b""

    def _code(self, code: CodeType) -> Iterator[bytes]:
        yield code.co_code
        yield getattr(code, "co_exceptiontable", b"")
        numbers = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        yield repr((numbers, code.co_names, code.co_varnames, code.co_freevars)).encode()
        yield from map(self.digest, code.co_consts)

    def _object(self, value: Any) -> Iterator[bytes]:
        numpy = sys.modules.get("numpy")
        if numpy is not None and type(value) is numpy.ndarray and not value.dtype.hasobject:
            yield repr((value.dtype.str, value.shape)).encode()
            yield value.tobytes()
            return
        try:
            parts = value.__reduce_ex__(4)
        except Exception:  # noqa: BLE001  # any object's own code; it cannot be pickled either
            yield type(value).__qualname__.encode()
            return
        if isinstance(parts, str):
            yield parts.encode()
            return
        make, arguments, *state = parts
        yield self.digest(make)
        yield self.digest(arguments)
        for one in state:
            yield self.digest(list(one) if isinstance(one, Iterator) else one)


def named_object(module: str | None, name: str) -> Any:
    """Return the object that an imported module has at a qualified name; None if none."""
    found: Any = sys.modules.get(module or "")
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


@functools.cache
def _is_own(module: str | None) -> bool:
    """Return whether a module is the user's own: no installed package, and not taskq."""
    if module is None or module.partition(".")[0] in _TASKQ:
        return False
    return _is_own_file(getattr(sys.modules.get(module), "__file__", None))


def _is_own_file(file: str | None) -> bool:
    if file is None or {"site-packages", "dist-packages"} & {*Path(file).parts}:
        return False
    return not any(Path(file).is_relative_to(folder) for folder in _INSTALLED)


@functools.lru_cache(maxsize=1_000)
def _imports_in(code: CodeType) -> frozenset[str]:
    """Return the modules that code imports when it runs, and those that code within it does."""
    found = {
        str(step.argval)
        for step in dis.get_instructions(code)
        if step.opname == "IMPORT_NAME" and step.argval
    }
    inner = (_imports_in(one) for one in code.co_consts if isinstance(one, CodeType))
    return frozenset(found.union(*inner))


@functools.cache
def _code_of_own(module: str) -> bytes:
    """Return the digest of a module's code if it is the user's own; it need not be imported."""
    top, *below = module.split(".")
    with suppress(ImportError, ValueError, OSError, SyntaxError):
        spec = find_spec(top)
        if spec is not None and top not in _TASKQ and _is_own_file(spec.origin):
            file = Path(str(spec.origin))
            if below:
                place = file.parent.joinpath(*below)
                file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
            return _Walk(None, {}).digest(compile(file.read_bytes(), module, "exec"))
    return b""


def names_in(code: CodeType) -> Iterator[str]:
    """Yield the names that code, and code within it, may look up among its globals."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def _hash(kind: str, parts: Iterable[bytes]) -> bytes:
    made = hashlib.sha256(kind.encode())
    for part in parts:
        made.update(len(part).to_bytes(8, "big"))
        made.update(part)
    return made.digest()
