"""Bans of hosts and sites: agents there leave, and new ones are refused, until the ban ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from taskq.model.words import instant

PlaceKind: TypeAlias = Literal["host", "site"]


@dataclass(frozen=True, slots=True)
class Ban:
    """A ban of a host or site. login: who made it. until: None means until it is lifted."""

    kind: PlaceKind
    name: str
    why: str
    login: str
    banned_at: datetime
    until: datetime | None

    @property
    def term(self) -> str:
        """Its end, in words: `banned until 2026-12-01T08:00:00Z`."""
        return f"banned until {instant(self.until) if self.until else 'it is lifted'}"

    @property
    def about(self) -> str:
        """Its end, its author and the reason, in words."""
        return f"{self.term}, by {self.login} at {instant(self.banned_at)}: {self.why}"

    def __str__(self) -> str:
        """In words: `n17 is banned until 2026-12-01T08:00:00Z`."""
        return f"{self.name} is {self.term}"
