"""What a gateway has seen of the front, in numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """Numbers that only grow.

    hits, misses: claims that got tasks, and that got none. popped: entries; of these stale: too old
    to be handed out, forged: not made by PostgreSQL, or in a list where they do not belong.
    refused: pops in another epoch than that of Redis. errors: pops and probes that failed.
    """

    hits: int = 0
    misses: int = 0
    popped: int = 0
    stale: int = 0
    forged: int = 0
    refused: int = 0
    errors: int = 0
