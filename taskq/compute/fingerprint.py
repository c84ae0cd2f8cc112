"""Digest of what a function does, equal in another process and after a restart of a notebook.

A pickle differs from one process to the next, though the function does not: it holds file names,
line numbers, and random names. So the digest covers the code itself, its constants, defaults and
closure, and the globals that it refers to, at any depth. A function or class of another module
counts by its name. Comments, line numbers and annotations do not count.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

#: The type of functions with `functools.lru_cache`.
CACHED: Final = type(functools.cache(id))

_SIMPLE: Final = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_OF_NO_MEANING: Final = frozenset(
    {"__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__", "__static_attributes__"}
    | {"__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__"}
    | {"__slotnames__", "_abc_impl"}  # kept there by what uses the class
)


def fingerprint(value: Any) -> str:
    """Return the digest of a function, or of another value, in hexadecimal."""
    return _Walk(getattr(value, "__module__", None)).digest(value).hex()


class _Walk:
    """One computation. home: the module whose functions and classes count by their content.

    around: values already under way, by id, with the steps up to each as negative numbers.
    """

    def __init__(self, home: str | None, around: Mapping[int, int] | None = None) -> None:
        self._home = home
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
            yield from sorted(_Walk(self._home, around).digest(one) for one in value)
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
        elif isinstance(value, FunctionType):
            yield from self._function(value)
        elif isinstance(value, type):
            yield from map(self.digest, value.__bases__)
            own = {k: v for k, v in vars(value).items() if k not in _OF_NO_MEANING}
            yield from self._pairs(dict(sorted(own.items())))

    def _function(self, function: FunctionType) -> Iterator[bytes]:
        yield self.digest(function.__code__)
        yield self.digest(function.__defaults__)
        yield self.digest(function.__kwdefaults__)
        yield from map(self._cell, function.__closure__ or ())
        for name in sorted(set(names_in(function.__code__))):
            if name in function.__globals__:
                yield name.encode()
                yield self.digest(function.__globals__[name])

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
