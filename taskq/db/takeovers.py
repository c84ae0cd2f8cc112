"""Takeovers of a database by another server, such as a promoted standby."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Takeovers:
    """How often the timeline changed: another server than before answered on any connection."""

    count: int = 0
    timeline: int = 0

    def note(self, timeline: int) -> None:
        """Note the timeline that a server has just reported; 0 means unknown."""
        if timeline and timeline != self.timeline:
            self.timeline = timeline
            self.count += 1
