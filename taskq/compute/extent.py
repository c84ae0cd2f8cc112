"""The size of a value when it is written out, each shared part as often as it is referred to.

A few bytes of a pickle can describe a list that holds a list twice, which holds one twice, and so
on: printing, hashing or comparing it takes for ever. Counting stops at objects of classes, except
for hashing.
"""

from __future__ import annotations

import collections
import gc
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

#: Most items of a value, where some 16 bytes of text count as an item; and deepest nesting.
MOST_ITEMS: Final = 16_000_000
MOST_DEPTH: Final = 1_000

_CONTAINERS: Final = (list, tuple, dict, set, frozenset, collections.deque)


class TooExtensive(ValueError):
    """A value is too large, or nested too deeply."""


@dataclass(slots=True)
class _Open:
    """A container that is being counted."""

    number: int
    rest: Iterator[Any]
    items: int = 1
    depth: int = 1


def check(value: Any, *, most: int = MOST_ITEMS, hashing: bool = False) -> int:
    """Raise `TooExtensive` if a value has more items than `most`; return the number of items seen.

    A container within itself counts as one item. hashing: count what objects refer to as well.
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
