"""Model of a limit that campaigns share: which starts count towards it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.property.queue_tasks import WORKING, Task


@dataclass
class CountedStarts:
    """most: how many starts may run, None if there is no such limit.

    named: whether the campaign names it. claimed: session and lease of what it claimed meanwhile,
    which counts until it ends. elsewhere: the starts of other campaigns that count.
    """

    most: int | None = None
    named: bool = False
    claimed: set[tuple[int, str]] = field(default_factory=set)
    elsewhere: int = 0

    def note(self, session: int, lease: str) -> None:
        """Count a claim that gets tasks, if the campaign names the limit."""
        if self.named:
            self.claimed.add((session, lease))

    def held(self, tasks: Iterable[Task]) -> Counter[int]:
        """Return how many of the tasks count, by the session that holds them."""
        return Counter(
            task.session
            for task in tasks
            if task.status == WORKING
            and task.session
            and (task.session, task.lease) in self.claimed
        )

    def used(self, tasks: Iterable[Task], slots: Mapping[int, int]) -> int:
        """Return how many starts count: of a session no more than it has slots."""
        held = self.held(tasks)
        return self.elsewhere + sum(min(slots[number], held[number]) for number in held)

    def wanted(
        self, session: int, want: int, tasks: Iterable[Task], slots: Mapping[int, int]
    ) -> int:
        """Return how many tasks a session of the campaign gets at most."""
        if not self.named:
            return want
        held, used = self.held(tasks)[session], self.used(tasks, slots)
        return self.fits(want, held=held, slots=slots[session], used=used)

    def fits(self, want: int, *, held: int, slots: int, used: int) -> int:
        """Return how many tasks a session of such a campaign gets at most."""
        if self.most is None:
            return want
        left = self.most - used
        adds = min(slots, held + want) - min(slots, held)
        return want if adds <= left else max(0, left)
