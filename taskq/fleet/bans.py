"""Bans of hosts and sites: agents there leave, and new ones are refused, until the ban ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

PlaceKind: TypeAlias = Literal["host", "site"]


@dataclass(frozen=True, slots=True)
class Ban:
    """A ban of a host or site. login: who made it. until: None: until it is lifted."""

    kind: PlaceKind
    name: str
    why: str
    login: str
    banned_at: datetime
    until: datetime | None
