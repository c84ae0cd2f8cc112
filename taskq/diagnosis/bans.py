"""Bans of hosts and sites, until they end.

Agents there leave, and new ones are refused. If the ban is for one campaign, those that also serve
others leave that campaign out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, TypeAlias

from taskq.model.words import instant

PlaceKind: TypeAlias = Literal["host", "site"]

_WHY_CHARS: Final = 80


def failing_why(error_class: str, message: str) -> str:
    """Return the reason of a ban: the class and message of failures, in 80 characters at most.

    It leaves out characters that a terminal would not show, since the message came from a node.
    """
    text = " ".join("".join(char if char.isprintable() else " " for char in message).split())
    why = ": ".join(filter(None, (error_class, text))) or "attempts fail"
    return why if len(why) <= _WHY_CHARS else f"{why[: _WHY_CHARS - 3]}..."


def for_campaign(path: str) -> tuple[str, ...]:
    """Return the words of a command that bans for one campaign only; none for all campaigns."""
    return ("--campaign", path) if path not in {"", "/"} else ()


@dataclass(frozen=True, slots=True)
class Ban:
    """A ban of a host or site.

    login: who made it. until: None means until it is lifted. path: the campaign that it is for,
    with all below it.
    """

    kind: PlaceKind
    name: str
    why: str
    login: str
    banned_at: datetime
    until: datetime | None
    path: str = field(default="/", kw_only=True)

    @property
    def term(self) -> str:
        """What for and until when, in words: `banned for /x until 2026-12-01T08:00:00Z`."""
        for_one = "" if self.path == "/" else f" for {self.path}"
        return f"banned{for_one} until {instant(self.until) if self.until else 'it is lifted'}"

    @property
    def about(self) -> str:
        """Its end, its author and the reason, in words."""
        return f"{self.term}, by {self.login} at {instant(self.banned_at)}: {self.why}"

    def __str__(self) -> str:
        """In words: `n17 is banned until 2026-12-01T08:00:00Z`."""
        return f"{self.name} is {self.term}"
