"""What the nodes of agents have left for starts of a campaign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from taskq.db.access import Queries

MAX_ROWS: Final = 20
_COUNTED: Final = ("gpus>=", "resource.")


@dataclass(frozen=True, slots=True)
class SmallerBatches:
    """Agents that give fewer than `batch` tasks of a campaign to one start; the least is `least`.

    error_class: as which starts have failed there though none of their tasks failed alone.
    """

    path: str
    batch: int
    error_class: str
    agents: int
    least: int
    some_hosts: list[str]
    hosts: int


@dataclass(frozen=True, slots=True)
class HeldResource:
    """Agents that have too little of a resource free for one more start of a campaign.

    resource: a name, or `gpus`. holders: how many slots have some of it there, by the path of their
    campaign; "" for those that the reader may not see.
    """

    path: str
    resource: str
    agents: int
    hosts: int
    some_hosts: list[str]
    holders: dict[str, int]


def needs_counted(requires: Sequence[str]) -> bool:
    """Return whether a campaign needs what nodes count: devices, or named resources."""
    return any(tag.startswith(_COUNTED) for tag in requires)


def read_held(database: Queries, path: str, chosen: Sequence[int]) -> list[HeldResource]:
    """Return what some campaigns at and below a path wait for, and who holds it."""
    if not chosen:
        return []
    rows = database.rows("explain_held", path=path, chosen=list(chosen), limit=MAX_ROWS)
    return [HeldResource(**row) for row in rows]
