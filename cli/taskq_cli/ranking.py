"""The best of many records by one of their values, in bounded memory."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from taskq.errors import UsageError

Record = Mapping[str, Any]


class Ranking:
    """The `top` records with the highest value of a field, or with the lowest.

    field: a dotted name, as `result.score`. Values are numbers or instants.
    left_out: records without such a value, known when `best` has returned.
    """

    def __init__(self, top: int, field: str, *, ascending: bool) -> None:
        self.left_out = 0
        self._top = top
        self._field = field
        self._ascending = ascending
        self._seen: set[str] = set()

    def best(self, records: Iterable[Record]) -> list[Record]:
        """Return the best, best first, those of equal value in their order.

        Raise `UsageError` if there are records, but none with such a value.
        """
        ranked = self._ranked(records)
        choose = heapq.nsmallest if self._ascending else heapq.nlargest
        best = [record for _, record in choose(self._top, ranked, key=lambda pair: pair[0])]
        if self.left_out and not best:
            raise UsageError(
                f"none of {self.left_out:,} results has a number in {self._field!r}; "
                f"of the first one, these have: {', '.join(sorted(self._seen)) or 'none'}"
            )
        return best

    def _ranked(self, records: Iterable[Record]) -> Iterator[tuple[float, Record]]:
        for record in records:
            value = _order(dotted(record, self._field))
            if value is not None:
                yield value, record
                continue
            if not self.left_out:
                self._seen.update(_numbers("", record))
            self.left_out += 1


def dotted(record: object, name: str) -> Any:
    """Return the value at a dotted name, None if there is none; a name may contain dots itself."""
    if not isinstance(record, Mapping):
        return None
    if name in record:
        return record[name]
    outer, dot, rest = name.partition(".")
    return dotted(record.get(outer), rest) if dot else None


def _order(value: object) -> float | None:
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    return None


def _numbers(prefix: str, record: Record) -> Iterator[str]:
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _numbers(f"{prefix}{name}.", value)
        elif _order(value) is not None:
            yield f"{prefix}{name}"
