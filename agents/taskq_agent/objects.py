"""Objects of classes as JSON: dataclasses, named tuples, enumerations, exceptions, collections.

    {"$dataclass": ["module:Name", {"field": 1}]}    {"$enum": ["module:Name", "RED"]}
    {"$namedtuple": ["module:Name", [1, 2]]}         {"$flag": ["module:Name", 3]}

An object is made of data alone. Reading calls neither constructors nor properties of its class, and
finds the class only where the reader says; nothing is imported since a value names it. A class with
code of its own for pickles has no such form, since only that code could make the object again; nor
has one with `__del__`, which would run with the attributes that a stranger has chosen.

An exception is stored as its arguments and its attributes. Code of the interpreter's own base
class, such as `OSError` for a user's class, reads and sets both, since a constructor may want other
arguments than it passes on. Python acts on some attributes when it prints an exception: it imports
the module that an `ImportError` names, and draws as many marks as a `SyntaxError` says. So those
are left out, or bounded.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from enum import Enum, EnumMeta, Flag, IntFlag
from functools import partial
from types import MemberDescriptorType
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Type

from taskq_agent import arrays, tables, typed

#: Makes of an object what stands for its pickle.
Pickle = Callable[[Any], List[Any]]
Unpickle = Callable[[List[Any]], Any]
#: Finds a class by its module and qualified name; raises an error if it may not be used.
FindClass = Callable[[str, str], Any]

PICKLE = "$pickle"
EXCEPTION = "$exception"
#: How many objects may be around another one: what is nested more deeply, or is within itself, is
#: pickled as a whole.
_AROUND = 20

#: Attributes of exceptions by which Python looks for what was meant when it prints them.
_LOOKED_UP = ("name_from", "obj", "_metadata")
_PLACES = ("lineno", "offset", "end_lineno", "end_offset")
_TEXTS = ("msg", "filename", "text", "print_file_and_line")
#: Columns of the line that a `SyntaxError` shows.
_MOST_COLUMNS = 10_000

_HEAP_TYPE = 1 << 9  # of `type.__flags__`: a class that is not the interpreter's own
_FACTORIES: Dict[str, Any] = {
    kind.__name__: kind for kind in (list, dict, set, tuple, str, int, float, bool)
}
#: What a class may have for pickles: what `object` has, or what dataclasses with slots add.
_USUAL = {
    "__reduce__": (object.__reduce__,),
    "__reduce_ex__": (object.__reduce_ex__,),
    "__getstate__": (
        None,
        getattr(object, "__getstate__", None),
        getattr(dataclasses, "_dataclass_getstate", None),
    ),
    "__setstate__": (None, getattr(dataclasses, "_dataclass_setstate", None)),
}


class NotData(ValueError):
    """An object of this class cannot be made of this data."""


class _NoTree(Exception):
    """An object is within itself, or too many are around it."""


class ObjectWriter:
    """Makes JSON of objects: the `of_other` of `typed.encode`.

    pickle: for objects that have no form in JSON; None if they are not allowed. owns: whether the
    reader will find a class; None: any. record: makes the record of an exception; None if those are
    not allowed.
    """

    def __init__(
        self,
        pickle: Optional[Pickle] = None,
        owns: Optional[Callable[[type], bool]] = None,
        record: Optional[Callable[[BaseException], Any]] = None,
    ) -> None:
        self._pickle = pickle
        self._owns = owns
        self._record = record
        self._around: List[int] = []
        #: How many objects were written, pickled ones included.
        self.count = 0

    def __call__(self, value: Any, of_bytes: typed.OfBytes) -> Dict[str, Any]:
        """Return an object as JSON; NotStorable, or what the pickle raises, if that fails."""
        self.count += 1
        made = None
        if id(value) in self._around or len(self._around) == _AROUND:
            raise _NoTree
        self._around.append(id(value))
        try:
            made = self._made(value, lambda part: typed.encode(part, self, of_bytes))
        except _NoTree:
            if len(self._around) > 1:
                raise
        finally:
            self._around.pop()
        if made is not None:
            return made
        if self._pickle is None:
            raise typed.not_storable(value)
        return {PICKLE: self._pickle(value)}

    def _made(self, value: Any, inner: Callable[[Any], Any]) -> Optional[Dict[str, Any]]:
        """Return an object as JSON; None if it has no such form."""
        kind = type(value)
        if issubclass(kind, BaseException):
            return None if self._record is None else {EXCEPTION: self._record(value)}
        if kind in _COLLECTIONS:
            return _COLLECTIONS[kind](value, inner)
        numpy = sys.modules.get("numpy")
        if numpy is not None and kind is numpy.ndarray and value.dtype.kind == "O":
            return {"$objects": [list(value.shape), [inner(element) for element in value.flat]]}
        if (table := tables.encoded(value, inner)) is not None:
            return table
        found = _parts(value, kind)
        if found is None or not (self._owns is None or self._owns(kind)):
            return None
        mark, content = found
        return {mark: [f"{kind.__module__}:{kind.__qualname__}", inner(content)]}


def _parts(value: Any, kind: Any) -> Optional[Tuple[str, Any]]:
    """Return the mark of an object and what it is made of; None if it has no form in JSON."""
    if issubclass(kind, Enum):
        name, number = object.__getattribute__(value, "_name_"), value.value
        if _members(kind).get(name) is value:
            return "$enum", name
        return ("$flag", number) if issubclass(kind, Flag) and type(number) is int else None
    if not _is_usual(kind):
        return None
    if issubclass(kind, tuple):
        fields = getattr(kind, "_fields", None)
        is_whole = type(fields) is tuple and len(fields) == len(value)
        return ("$namedtuple", [*value]) if is_whole and not getattr(value, "__dict__", 0) else None
    is_one: bool = dataclasses.is_dataclass(kind)
    if is_one and _is_made_by_object(kind):
        state = _state(value, kind)
        if all(field.name in state for field in dataclasses.fields(kind)):
            return "$dataclass", state
    return None


def _is_usual(kind: Any) -> bool:
    """Return whether a class has no code of its own for pickles, or for the end of an object."""
    return all(getattr(kind, name, None) in usual for name, usual in _USUAL.items()) and not (
        hasattr(kind, "__getnewargs_ex__") or hasattr(kind, "__del__")
    )


def _is_made_by_object(kind: Any) -> bool:
    return kind.__new__ is object.__new__ and _base(kind) is object


def _state(value: Any, kind: type) -> Dict[str, Any]:
    """Return the attributes of an object, those in its slots included."""
    state = dict(getattr(value, "__dict__", {}))
    for base in kind.__mro__:
        for name, member in vars(base).items():
            if isinstance(member, MemberDescriptorType):
                try:
                    state.setdefault(name, member.__get__(value))
                except AttributeError:  # the slot is empty
                    continue
    return state


class ObjectReader:
    """Makes the objects again: the `to_other` of `typed.decode`.

    find: finds their classes. unpickle: reads what stands for a pickle; None if those are not read.
    error: makes an exception of its record.
    """

    def __init__(
        self,
        find: FindClass,
        unpickle: Optional[Unpickle] = None,
        error: Optional[Callable[[Any], Any]] = None,
    ) -> None:
        self._find = find
        self._unpickle = unpickle
        self._error = error

    def __call__(self, name: str, stored: Any) -> Any:
        """Return the object; NotData, ValueError, or what finds its class raises, if that fails."""
        if name == PICKLE:
            if self._unpickle is None:
                raise ValueError("a pickled object, which may not be read here")
            return self._unpickle(stored)
        if name == EXCEPTION and self._error is not None:
            return self._error(stored)
        if name in _COLLECTIONS_AGAIN or tables.is_table(name):
            make = _COLLECTIONS_AGAIN.get(name) or partial(tables.decoded, name)
            return make(stored, lambda part: typed.decode(part, self))
        if name not in _MAKERS:
            raise ValueError(f"{name!r:.80} is not a type of value that is read here")
        known, content = stored
        module, _, path = str(known).partition(":")
        return _MAKERS[name](self._find(module, path), typed.decode(content, self))


def class_in(names: Mapping[str, Any], module: str, path: str) -> Optional[type]:
    """Return the class that names of a module define under a qualified name; None if none.

    No attribute is read by an object's own code, which could do anything.
    """
    found: Any = names
    for part in path.split("."):
        found = (found if isinstance(found, Mapping) else vars(found)).get(part)
        if not isinstance(found, type):
            return None
    defined = type.__getattribute__(found, "__module__") == module and found.__qualname__ == path
    return found if defined else None


def _dataclass(kind: Any, state: Any) -> Any:
    is_one: bool = dataclasses.is_dataclass(kind)
    if not (is_one and _is_usual(kind) and _is_made_by_object(kind)):
        raise NotData(f"{kind.__qualname__} is no dataclass that is made of its fields alone")
    missing = [field.name for field in dataclasses.fields(kind) if field.name not in state]
    if type(state) is not dict or missing or not all(type(name) is str for name in state):
        raise NotData(f"{kind.__qualname__} has other fields there: {missing!r:.200}")
    thing = object.__new__(kind)
    in_order = {field.name: state[field.name] for field in dataclasses.fields(kind)}
    for name, value in {**in_order, **state}.items():
        member = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
        if isinstance(member, MemberDescriptorType):
            member.__set__(thing, value)
        else:
            object.__getattribute__(thing, "__dict__")[name] = value
    return thing


def _named_tuple(kind: Any, values: Any) -> Any:
    fields = getattr(kind, "_fields", None)
    if not (issubclass(kind, tuple) and type(fields) is tuple and _is_usual(kind)):
        raise NotData(f"{kind.__qualname__} is no NamedTuple that is made of its fields alone")
    if type(values) is not list or len(values) != len(fields):
        raise NotData(f"{kind.__qualname__} has other fields there")
    return tuple.__new__(kind, values)


def _members(kind: Any) -> Dict[str, Any]:
    if not isinstance(kind, EnumMeta):
        raise NotData(f"{kind.__qualname__} is no enumeration")
    return dict(type.__getattribute__(kind, "_member_map_"))


def _enum(kind: Any, name: Any) -> Any:
    members = _members(kind)
    if name not in members:
        raise NotData(f"{kind.__qualname__} has no member {name!r:.80}")
    return members[name]


def _flag(kind: Any, value: Any) -> Any:
    """Return the union of members that has a value."""
    members = _members(kind).values()
    bits = 0
    for member in members:
        bits |= member.value if type(member.value) is int else 0
    usual: List[Any] = [Flag, IntFlag]
    is_plain = issubclass(kind, Flag) and type(kind) is EnumMeta
    is_plain = is_plain and kind._missing_.__func__ in [base._missing_.__func__ for base in usual]
    if not is_plain or type(value) is not int or value < 0 or value & ~bits:
        raise NotData(f"{kind.__qualname__} has no {value!r:.80}")
    return kind(value)


_MAKERS: Dict[str, Callable[[Any, Any], Any]] = {
    "$dataclass": _dataclass,
    "$namedtuple": _named_tuple,
    "$enum": _enum,
    "$flag": _flag,
}


def _pairs(value: Mapping[Any, Any], inner: Callable[[Any], Any]) -> List[Any]:
    return [[inner(name), inner(element)] for name, element in value.items()]


def _defaultdict(value: Any, inner: Callable[[Any], Any]) -> Optional[Dict[str, Any]]:
    made = value.default_factory
    name = "" if made is None else str(getattr(made, "__name__", ""))
    if made is not None and _FACTORIES.get(name) is not made:
        return None
    return {"$defaultdict": [name or None, _pairs(value, inner)]}


_COLLECTIONS: Dict[type, Callable[[Any, Callable[[Any], Any]], Optional[Dict[str, Any]]]] = {
    Counter: lambda value, inner: {"$counter": _pairs(value, inner)},
    OrderedDict: lambda value, inner: {"$ordereddict": _pairs(value, inner)},
    defaultdict: _defaultdict,
    deque: lambda value, inner: {"$deque": [value.maxlen, [inner(element) for element in value]]},
}


def _filled(made: Dict[Any, Any], stored: Any, inner: Callable[[Any], Any]) -> Any:
    pairs = [(inner(name), inner(element)) for name, element in stored]
    typed.refuse_alike([name for name, _ in pairs])
    made.update(pairs)
    return made


_COLLECTIONS_AGAIN: Dict[str, Callable[[Any, Callable[[Any], Any]], Any]] = {
    "$counter": lambda stored, inner: Counter(_filled({}, stored, inner)),
    "$ordereddict": lambda stored, inner: _filled(OrderedDict(), stored, inner),
    "$defaultdict": lambda stored, inner: _filled(
        defaultdict(None if stored[0] is None else _FACTORIES[stored[0]]), stored[1], inner
    ),
    "$deque": lambda stored, inner: deque(map(inner, stored[1]), stored[0]),
    "$objects": lambda stored, inner: arrays.of_objects(stored[0], [*map(inner, stored[1])]),
}


def exception_parts(error: BaseException) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    """Return arguments and attributes of an exception."""
    _, args, *state = _base(type(error)).__reduce__(error)
    return args, dict(state[0]) if state and state[0] else {}


def rebuilt(
    kind: Type[BaseException], args: Sequence[Any], state: Mapping[str, Any]
) -> BaseException:
    """Return the exception with these parts; TypeError or ValueError if that fails."""
    if hasattr(kind, "__del__"):
        raise TypeError(f"{kind.__qualname__} has code that runs at the end of an object")
    base: Any = _base(kind)
    try:
        error: BaseException = base.__new__(kind, *args)
        base.__init__(error, *args)
    except LookupError as wrong:  # Python 3.9 raises that for a place with an end
        raise TypeError(f"{kind.__qualname__}: {wrong}") from None
    for name, value in state.items():
        member = getattr(base, name, None)
        if not isinstance(member, MemberDescriptorType):
            error.__dict__[name] = value
        elif name not in _LOOKED_UP and (value is None or isinstance(value, (str, bytes, int))):
            member.__set__(error, value)
    if isinstance(error, SyntaxError):
        _check_place(error)
    return error


def _check_place(error: SyntaxError) -> None:
    """Leave out of a SyntaxError what Python could not print."""
    for name in _PLACES:
        value = getattr(error, name, None)
        if value is not None and not (type(value) is int and 0 <= value <= _MOST_COLUMNS):
            setattr(error, name, None)
    for name in _TEXTS:
        if not isinstance(getattr(error, name), (str, type(None))):
            setattr(error, name, None)


def _base(kind: type) -> Any:
    return next(base for base in kind.__mro__ if not base.__flags__ & _HEAP_TYPE)
