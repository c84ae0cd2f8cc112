"""Counters, declared once, with the title that metrics show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, fields
from typing import Any


def counter(title: str) -> Any:
    """Return the field of a dataclass that counts from 0; title: what it counts, for people."""
    return field(default=0, metadata={"title": title})


def counted(numbers: Any) -> Iterator[tuple[str, str, int]]:
    """Yield name, title and value of each counter of a dataclass, in order of declaration."""
    for number in fields(numbers):
        if "title" in number.metadata:
            yield number.name, number.metadata["title"], getattr(numbers, number.name)
