"""A task of the model of the queue, and how its attempts ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from taskq_agent.protocol import DONE, FAILED

WAITING, DELAYED, WORKING = "waiting", "delayed", "working"
CANCELLED, LOST, HEDGED, WITHDRAWN = "cancelled", "lost", "hedged", "withdrawn"
#: Class of an attempt that waited in a batch whose agent was lost.
NOT_BEGUN = "not-begun"


@dataclass
class Ended:
    """An attempt that ended."""

    attempt: int
    lease: str
    outcome: str
    error_class: str | None
    host: str
    session: int

    @property
    def is_loss(self) -> bool:
        """Whether its agent was lost, be it that its success counted later."""
        was_lost = self.error_class not in {None, HEDGED, NOT_BEGUN}
        return self.outcome == LOST or (self.outcome in {DONE, WITHDRAWN} and was_lost)

    @property
    def is_given_up(self) -> bool:
        """Whether the queue has ended it without its agent; a success may still count."""
        return self.outcome in {LOST, HEDGED} or self.error_class == NOT_BEGUN


@dataclass
class Task:
    """Where a task stands; session: of the last lease, None if there was none.

    seeded: its first priority, and that of a withdrawn one. avoids: the hosts on which it has
    failed, or was lost again and alone. checkpoint: content, lease and attempt of the last.
    progress: how far its attempts have come, by lease.
    """

    task: int
    key: str
    seeded: int
    priority: int
    status: str = WAITING
    attempt: int = 0
    failures: int = 0
    losses: int = 0
    lease: str = ""
    session: int | None = None
    avoids: set[str] = field(default_factory=set)
    ended: list[Ended] = field(default_factory=list)
    checkpoint: tuple[int, str, int] | None = None
    progress: dict[str, float] = field(default_factory=dict)

    @property
    def against(self) -> tuple[int, int]:
        """Failures and losses that count: since the last retry; of a task that is done, all."""
        if self.status != DONE:
            return self.failures, self.losses
        return (
            sum(end.outcome == FAILED for end in self.ended),
            sum(end.is_loss for end in self.ended),
        )
