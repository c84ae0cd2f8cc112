"""A cache that forgets what nobody has used for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Values by key, none of them None, each kept for `kept_s` to twice as long after its last use.

    So a process that sees ever new keys keeps a level size, with no work but for what is used: the
    values lie in two generations, and the older one goes as a whole. It also goes when the newer
    one has `most` keys, so at most twice as many are kept.

    clock: returns monotonic seconds. May be shared by threads, which may forget more than is due.
    """

    def __init__(
        self, most: int, kept_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._kept_s = kept_s
        self._clock = clock
        self._new: dict[K, V] = {}
        self._old: dict[K, V] = {}
        self._turned_at = clock()

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._new.keys() | self._old.keys())

    def get(self, key: K) -> V | None:
        """Return the value of a key, which counts as its use, or None."""
        self._turn()
        value = self._new.get(key)
        if value is None and (value := self._old.get(key)) is not None:
            self._new[key] = value
        return value

    def put(self, key: K, value: V) -> None:
        """Keep a value."""
        self._turn()
        self._new[key] = value

    def forget(self, key: K) -> None:
        """Drop a key, if it is there."""
        self._new.pop(key, None)
        self._old.pop(key, None)

    def clear(self) -> None:
        """Drop all."""
        self._new, self._old = {}, {}

    def _turn(self) -> None:
        now = self._clock()
        late_s = now - self._turned_at - self._kept_s
        if late_s < 0 and len(self._new) < self._most:
            return
        self._old = self._new if late_s < self._kept_s else {}
        self._new = {}
        self._turned_at = now
