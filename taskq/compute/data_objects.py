"""What a result may consist of: objects that are made of data alone, and values of bounded extent.

The code that Python calls to remake an object may do anything: open a file, start a program. So the
built-in type on which its class is based makes the object, and its attributes are put where they
are kept; no constructor, property or other code of the class runs. A class with code of its own for
this is refused.
"""

from __future__ import annotations

import collections
import dataclasses
import gc
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import MemberDescriptorType
from typing import Any, Final

#: Most items of a value, where some 16 bytes of text count as an item; and deepest nesting.
MOST_ITEMS: Final = 16_000_000
MOST_DEPTH: Final = 1_000

_CONTAINERS: Final = (list, tuple, dict, set, frozenset, collections.deque)
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


class TooExtensive(ValueError):
    """A value is too large, or nested too deeply."""


@dataclasses.dataclass(slots=True)
class _Open:
    """A container that is being counted."""

    number: int
    rest: Iterator[Any]
    items: int = 1
    depth: int = 1


def check_extent(value: Any, *, most: int = MOST_ITEMS, hashing: bool = False) -> int:
    """Raise `TooExtensive` if a value has more items than `most`; return the number of items seen.

    A few bytes of a pickle can describe a list that holds a list twice, which holds one twice, and
    so on: printing, hashing or comparing it takes for ever. So each shared part counts as often as
    it is referred to; a container within itself counts as one item. Counting stops at objects of
    classes, except for hashing. hashing: count what objects refer to as well.
    """
    known: dict[int, tuple[int, int]] = {}
    outermost = _Open(0, iter([value]))
    opened = [outermost]
    steps = 0
    while opened:
        top = opened[-1]
        for item in top.rest:
            steps += 1
            inner = _items(item, hashing=hashing)
            if inner is None:
                top.items += 1 + sys.getsizeof(item) // 16
            elif id(item) in known:
                items, depth = known[id(item)]
                top.items += items
                top.depth = max(top.depth, depth + 1)
            else:
                known[id(item)] = (1, 1)
                opened.append(_Open(id(item), iter(inner)))
                break
            if top.items > most:
                raise TooExtensive(
                    f"it has more than {most:,} items, or shares its parts too often"
                )
        else:
            opened.pop()
            known[top.number] = (top.items, top.depth)
            if opened:
                opened[-1].items += top.items
                opened[-1].depth = max(opened[-1].depth, top.depth + 1)
        if len(opened) > MOST_DEPTH or top.depth > MOST_DEPTH or top.items > most:
            raise TooExtensive("it is nested too deeply, or has too many items")
    return steps


def _items(value: Any, *, hashing: bool) -> Iterable[Any] | None:
    if isinstance(value, dict):
        return (one for pair in dict.items(value) for one in pair)
    if isinstance(value, _CONTAINERS):
        return iter(value) if type(value) in _CONTAINERS else _base_items(value)
    by_identity: Any = object.__hash__
    if hashing and not isinstance(value, type) and type(value).__hash__ is not by_identity:
        return [one for one in gc.get_referents(value) if not isinstance(one, type)] or None
    return None


def _base_items(value: Any) -> Iterable[Any]:
    base: Any = next(one for one in type(value).__mro__ if one in _CONTAINERS)
    items: Iterable[Any] = base.__iter__(value)
    return items
