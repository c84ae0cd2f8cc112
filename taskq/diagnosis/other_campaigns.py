"""Other campaigns that the agents of a campaign serve, which have a part of their slots."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from taskq.db.access import Queries
from taskq.model.seed import is_within

#: Scopes of agents whose other campaigns are read: each costs as much as `counts`.
MAX_SCOPES: Final = 3
_MOST_OF_SCOPE: Final = 20


@dataclass(frozen=True, slots=True)
class OtherCampaign:
    """A campaign on the same agents. campaigns, all_working, all_weights: sums of all such."""

    path: str
    working: int
    waiting: int
    weight: float
    campaigns: int
    all_working: int
    all_weights: float


def read_others(
    snapshot: Queries, path: str, scopes: Iterable[tuple[str, int]]
) -> list[OtherCampaign]:
    """Return the other campaigns of agents that serve a campaign above the path.

    scopes: the campaigns of agents, with slots.
    """
    slots: dict[str, int] = {}
    for scope, number in scopes:
        if scope != path and is_within(path, scope):
            slots[scope] = slots.get(scope, 0) + number
    # A scope includes the scopes below it: count their campaigns once.
    chosen: list[str] = []
    for scope in sorted(slots):
        if not any(is_within(scope, other) for other in chosen):
            chosen.append(scope)
    return [
        OtherCampaign(**row)
        for scope in chosen[:MAX_SCOPES]
        for row in snapshot.rows("explain_others", scope=scope, path=path, limit=_MOST_OF_SCOPE)
    ]
