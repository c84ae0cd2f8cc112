"""Objects of classes, made of data alone: no constructor, property or other code of them runs.

The code that Python calls to remake an object may do anything: open a file, start a program. So the
built-in type on which its class is based makes the object, and its attributes are put where they
are kept. A class with code of its own for this is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MemberDescriptorType
from typing import Any, Final

_BASES: Final = (tuple, dict, list, str, int, float, bytes, object)
#: The `__setstate__` of dataclasses with slots; it sets the fields, in order.
_SETS_FIELDS: Final = getattr(dataclasses, "_dataclass_setstate", None)


class NotData(ValueError):
    """An object of this class cannot be made of data alone."""


def made(kind: type, args: tuple[Any, ...]) -> Any:
    """Return a new object of a class; args: what a pickle gives to its `__new__`."""
    base: Any = next(one for one in kind.__mro__ if one in _BASES)
    if base is tuple and hasattr(kind, "_fields"):
        if len(args) != len(kind._fields):
            raise NotData(f"{kind.__qualname__} has other fields")
        return tuple.__new__(kind, args)
    if kind.__new__ is not base.__new__:
        raise NotData(f"{kind.__qualname__} has a __new__ of its own")
    wanted = () if base in (object, dict, list) else (base,)
    if tuple(map(type, args)) != wanted:
        raise NotData(f"{kind.__qualname__} cannot be made of these arguments")
    return base.__new__(kind, *args)


def give_state(thing: Any, state: Any) -> None:
    """Set the attributes of an object; state: the state in its pickle."""
    kind = type(thing)
    own = getattr(kind, "__setstate__", None)
    if own is not None and own is _SETS_FIELDS and isinstance(state, list):
        slots = {
            one.name: value for one, value in zip(dataclasses.fields(kind), state, strict=True)
        }
        _fill(thing, kind, slots)
        return
    if own is not None:
        raise NotData(f"{kind.__qualname__} has a __setstate__ of its own")
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    if attributes:
        _names(attributes)
        object.__getattribute__(thing, "__dict__").update(attributes)
    if slots:
        _fill(thing, kind, slots)


def _fill(thing: Any, kind: type, slots: Any) -> None:
    _names(slots)
    for name, value in slots.items():
        member = next((vars(one)[name] for one in kind.__mro__ if name in vars(one)), None)
        if not isinstance(member, MemberDescriptorType):
            raise NotData(f"{kind.__qualname__} has no slot {name!r:.80}")
        member.__set__(thing, value)


def _names(attributes: Any) -> None:
    if not isinstance(attributes, Mapping) or not all(type(name) is str for name in attributes):
        raise NotData("the attributes are not a mapping of names to values")
