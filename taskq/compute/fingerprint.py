"""Digest of what a function does, equal in another process and after a restart of a notebook.

A pickle differs from one process to the next, though the function does not: it holds file names,
line numbers, and random names. So the digest covers the code itself, its constants, defaults and
closure, and the globals that it refers to, at any depth. Functions and classes of other modules
count as well if the modules are the user's own, with their constants, but without their data, which
may change as they run; those of installed packages count by their names. A module that is imported
within a function counts with its own code alone. Comments, line numbers and annotations do not
count.

Objects may be of any library, written in any language, and lie about themselves. So only their
types decide what they are; what is neither code nor a container of Python counts by its name if a
module has it under one, else by its pickle, else by its type.
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
from itertools import chain
from pathlib import Path
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple, TypeGuard

from taskq_agent import molecules
from taskq_agent.paths import is_dir
from taskq_agent.text import clean

#: The type of functions with `functools.lru_cache`.
CACHED: Final = type(functools.cache(id))

_SIMPLE: Final = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
#: What does not change as a module runs.
_FIXED: Final = (
    *(*_SIMPLE, tuple, frozenset, type, FunctionType, ModuleType, CACHED),
    *(property, staticmethod, classmethod),
)
_CODE: Final = (
    *(CodeType, FunctionType, MethodType, ModuleType, CACHED),
    *(type, property, staticmethod, classmethod),
)
_DIGITS: Final = 12  # of the digest of a part
_LEAST_PARTS: Final = 2  # of what `__reduce_ex__` returns
_TASKQ: Final = frozenset({"taskq", "taskq_agent", "taskq_cli"})
_INSTALLED: Final = [
    sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
]
_OF_NO_MEANING: Final = frozenset(
    {"__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__", "__static_attributes__"}
    | {"__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__"}
    | {"__slotnames__", "_abc_impl"}  # kept there by what uses the class
)


class Part(NamedTuple):
    """A part of a function that counts. kind: the type of a value; empty for code."""

    digest: str
    kind: str


def fingerprint(value: Any) -> str:
    """Return the digest of a function, or of another value, in hexadecimal."""
    return described(value)[0]


def described(value: Any) -> tuple[str, dict[str, Part]]:
    """Return the digest of a function, and its parts by their names for people."""
    helpers: dict[str, Any] = {}
    parts: dict[str, Part] = {}
    walk = _Walk(_home(value), helpers, parts)
    main = walk.digest(value)
    contents: dict[str, bytes] = {}
    while helpers:  # not by recursion: in a large program they refer to each other many times over
        name, helper = helpers.popitem()
        if name not in contents:
            contents[name] = _hash(name, walk.content(helper, others=True))
    if contents:
        main = _hash("helpers", [main, *(contents[name] for name in sorted(contents))])
    return main.hex(), parts


class _Walk:
    """One computation. home: the module whose functions and classes count by their content.

    helpers: gets functions and classes of the user's other modules, by name. parts: gets what the
    digest is of. around: values already under way, by id, with the steps up to each as negative
    numbers.
    """

    def __init__(
        self,
        home: str | None,
        helpers: dict[str, Any],
        parts: dict[str, Part],
        around: Mapping[int, int] | None = None,
    ) -> None:
        self._home = home
        self._helpers = helpers
        self._noted = parts
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

    def _part(self, name: str, value: Any) -> bytes:
        """Return the digest of a part, and note it, unless it has parts of its own."""
        made = self.digest(value)
        kind = type(value)
        if not (kind is FunctionType or issubclass(kind, type)) or self._is_by_name(value):
            known = self._noted.get(name)  # as of two lambdas
            both = made if known is None else _hash(known.digest, [made])
            is_code = issubclass(kind, _CODE)
            self._noted[name] = Part(both.hex()[:_DIGITS], "" if is_code else kind.__qualname__)
        return made

    def _depth(self) -> int:
        return len(self._under_way) - self._around

    def _parts(self, value: Any) -> Iterator[bytes]:
        kind = type(value)
        if kind in (tuple, list):
            yield from map(self.digest, value)
        elif kind in (set, frozenset):
            # Each alone: what was seen before it depends on their order.
            depth = self._depth()
            around = {number: its - depth for number, its in self._under_way.items()}
            inner = [_Walk(self._home, self._helpers, {}, around).digest(part) for part in value]
            yield from sorted(inner)
        elif kind is dict:
            yield from map(self.digest, chain.from_iterable(value.items()))
        elif _is_module(value):
            yield str(attribute_text(value, "__name__")).encode()
        elif kind is CodeType:
            yield from self._code(value)
        elif issubclass(kind, type) or kind is FunctionType:
            yield from self._named(value)
        else:
            yield from self._other(value)

    def _other(self, value: Any) -> Iterator[bytes]:
        kind = type(value)
        if (found := home_of(value)) is not None:
            yield from (part.encode() for part in found)
        elif kind in (MethodType, staticmethod, classmethod):
            yield self.digest(value.__func__)
            yield self.digest(getattr(value, "__self__", None))
        elif issubclass(kind, property):
            yield from map(self.digest, (value.fget, value.fset, value.fdel))
        elif kind is CACHED:
            yield self.digest(value.__wrapped__)
        else:
            yield from self._object(value)

    def _named(self, value: Any) -> Iterator[bytes]:
        yield str(attribute_text(value, "__qualname__")).encode()
        if self._is_by_name(value):
            module = attribute_text(value, "__module__")
            yield str(module).encode()
            if _is_own(module):
                self._helpers[f"{module}:{attribute_text(value, '__qualname__')}"] = value
        else:
            yield from self.content(value)

    def _is_by_name(self, value: Any) -> bool:
        """Return whether a function or class is of another module, which has it under its name."""
        module = attribute_text(value, "__module__")
        name = str(attribute_text(value, "__qualname__"))
        return module not in {self._home, "__main__"} and named_object(module, name) is value

    def content(self, value: Any, *, others: bool = False) -> Iterator[bytes]:
        """Yield what a function or class consists of; others: it is of another module."""
        if type(value) is FunctionType:
            yield from self._function(value, others=others)
            return
        yield from map(self.digest, value.__bases__)
        own = {k: v for k, v in vars(value).items() if k not in _OF_NO_MEANING}
        for name, part in sorted(own.items()):
            yield self.digest(name)
            if others and type(part) is FunctionType:
                yield _hash(name, self._function(part, others=True))
            elif not others or _is_fixed(part):
                yield self._part(f"{_called(value, others=others)}.{name}", part)

    def _function(self, function: FunctionType, *, others: bool) -> Iterator[bytes]:
        code, called = function.__code__, _called(function, others=others)
        yield self._part(f"the code of {called}", code)
        for name, value in _defaults(function):
            yield name.encode()
            yield self._part(f"the default of {name} in {called}", value)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            yield self._cell(f"{name} around {called}", cell)
        names = sorted(set(names_in(code)))
        of = f" of {function.__module__}" if others else ""
        for name in names:
            if name in function.__globals__:
                value = function.__globals__[name]
                yield name.encode()
                if not others or _is_fixed(value):
                    yield self._part(f"the global {name}{of}", value)
                if _is_module(value):
                    yield from self._used_of(value, names)
        for name in sorted(_imports_in(code)):
            if made := _code_of_own(name):
                self._noted[f"the module {name}"] = Part(made.hex()[:_DIGITS], "")
            yield made

    def _used_of(self, module: ModuleType, names: list[str]) -> Iterator[bytes]:
        """Yield what code with these names may use of a module of the user's own."""
        if not _is_own(module.__name__):
            return
        for name in names:
            value = vars(module).get(name)
            if _is_module(value):
                if value.__name__.startswith(f"{module.__name__}."):
                    yield from self._used_of(value, names)
            elif _is_fixed(value):
                yield self._part(f"{module.__name__}.{name}", value)

    def _cell(self, name: str, cell: CellType) -> bytes:
        try:
            return self._part(name, cell.cell_contents)
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
            # What RDKit keeps of its computations is no part of a molecule.
            parts = molecules.reduced(value, computed=False) or value.__reduce_ex__(4)
        except Exception:  # noqa: BLE001  # any object's own code; it cannot be pickled either
            parts = None
        if isinstance(parts, str):
            yield parts.encode()
        elif isinstance(parts, tuple) and len(parts) >= _LEAST_PARTS:
            make, arguments, *state = parts
            yield self.digest(make)
            yield self.digest(arguments)
            for part in state:
                yield self.digest(list(part) if isinstance(part, Iterator) else part)
        else:
            for name in ("__module__", "__qualname__", "__name__"):
                for about in (type(value), value):
                    yield str(attribute_text(about, name)).encode()


def _called(value: Any, *, others: bool) -> str:
    """Return the name of a function or class for people."""
    name = clean(str(attribute_text(value, "__qualname__"))).rpartition("<locals>.")[2]
    return f"{attribute_text(value, '__module__')}.{name}" if others else name


def _defaults(function: FunctionType) -> Iterator[tuple[str, Any]]:
    values, code = function.__defaults__ or (), function.__code__
    names = code.co_varnames[: code.co_argcount]
    yield from zip(reversed(names), reversed(values), strict=False)
    yield from (function.__kwdefaults__ or {}).items()


def _home(value: Any) -> str | None:
    """Return the module whose functions and classes count by their content."""
    module = attribute_text(value, "__module__")
    is_code = type(value) is FunctionType or issubclass(type(value), (type, CACHED))
    return module if is_code or _is_own(module) else None


def home_of(value: Any) -> tuple[str, str] | None:
    """Return the imported module and the name under which it has this very object; None if none.

    Functions of bindings may have no qualified name, or another one; bound methods that are
    functions of a module, such as `random.gauss`, may say that they belong to none.
    """
    owner = type(_attribute(value, "__self__"))
    modules = (attribute_text(value, "__module__"), attribute_text(owner, "__module__"))
    for module in dict.fromkeys(filter(None, modules)):
        for name in (attribute_text(value, "__qualname__"), attribute_text(value, "__name__")):
            if name and value is not None and named_object(module, name) is value:
                return module, name
    return None


def _attribute(value: Any, name: str) -> Any:
    """Return an attribute; None if there is none, or the object's own code raises."""
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001  # any object's own code
        return None


def attribute_text(value: Any, name: str) -> str | None:
    """Return an attribute that is text; None if there is none."""
    found = _attribute(value, name)
    return found if type(found) is str else None


def _is_module(value: Any) -> TypeGuard[ModuleType]:
    return issubclass(type(value), ModuleType)


def _is_fixed(value: Any) -> bool:
    return issubclass(type(value), _FIXED)


def named_object(module: str | None, name: str) -> Any:
    """Return the object that an imported module has at a qualified name; None if none."""
    found: Any = sys.modules.get(module or "")
    for part in name.split("."):
        found = _attribute(found, part)  # a module may import when it is asked
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
    inner = (_imports_in(constant) for constant in code.co_consts if isinstance(constant, CodeType))
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
                file = place / "__init__.py" if is_dir(place) else place.with_suffix(".py")
            return _Walk(None, {}, {}).digest(compile(file.read_bytes(), module, "exec"))
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
