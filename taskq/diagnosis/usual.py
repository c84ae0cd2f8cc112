"""What is usual of places: how attempts end at those that do not fail, and how slots are used."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from taskq.diagnosis.sample import BAD, TELLING, AttemptGroup

#: The part of a session's time for which others must have been there to be compared with it.
_MOST: Final = 0.75


class UsualEnds:
    """How attempts end in each campaign, by class of error, at the places that do not fail.

    A host is named with the campaign and class in which it does worse than others. Where most of
    its attempts fail says nothing: they may fail everywhere.
    """

    def __init__(
        self, groups: Mapping[str, Iterable[AttemptGroup]], failing: Collection[str]
    ) -> None:
        self._bad: Counter[tuple[str, str]] = Counter()
        self._all: Counter[str] = Counter()
        for name, some in groups.items():
            if name not in failing:
                self._add(some, self._bad, self._all)
        self._failing = failing

    def worst(self, name: str, groups: Iterable[AttemptGroup]) -> tuple[str, str] | None:
        """Return the campaign and class in which most more attempts end there than elsewhere.

        If there is none that has more, the one with most; None if none has a class.
        """
        bad: Counter[tuple[str, str]] = Counter()
        whole: Counter[str] = Counter()
        self._add(groups, bad, whole)

        def excess(it: tuple[str, str]) -> float:
            own = name not in self._failing
            others = self._all[it[0]] - (whole[it[0]] if own else 0)
            usual = max(self._bad[it] - (bad[it] if own else 0), 0) / others if others > 0 else 0.0
            return bad[it] - whole[it[0]] * min(usual, 1.0)

        return max(sorted(bad), key=lambda it: (excess(it) > 0, excess(it), bad[it]), default=None)

    @staticmethod
    def _add(
        groups: Iterable[AttemptGroup], bad: Counter[tuple[str, str]], whole: Counter[str]
    ) -> None:
        for group in groups:
            if group.outdated or group.outcome not in TELLING:
                continue
            whole[group.campaign] += group.attempts
            if group.outcome in BAD and group.error_class:
                bad[group.campaign, group.error_class] += group.attempts


@dataclass(frozen=True, slots=True)
class SlotUse:
    """How a session used its slots, from its first claim to its last end."""

    session_id: int
    host: str
    site: str
    slots: int
    attempts: int
    payload_s: float
    first: datetime
    last: datetime

    @property
    def presence_s(self) -> float:
        """The time of its slots."""
        return self.slots * (self.last - self.first).total_seconds()

    @property
    def use(self) -> float:
        """The share of that time in which payloads ran."""
        return min(self.payload_s / self.presence_s, 1.0) if self.presence_s > 0 else 1.0

    def was_there_with(self, other: SlotUse) -> bool:
        """Return whether it was there for most of the time of another one."""
        both = min(self.last, other.last) - max(self.first, other.first)
        return both >= _MOST * (other.last - other.first)


def slot_uses(groups: Iterable[AttemptGroup]) -> list[SlotUse]:
    """Return the use of slots, by session.

    It covers sessions with at least two attempts a slot that serve nothing outside the sample.
    """
    sessions = defaultdict(list)
    for group in groups:
        if group.within and group.first_at is not None:
            sessions[group.session_id].append(group)
    found = []
    for parts in sessions.values():
        some, attempts = parts[0], sum(part.attempts for part in parts)
        if attempts < 2 * some.slots:
            continue
        found.append(
            SlotUse(
                some.session_id,
                some.host,
                some.site,
                some.slots,
                attempts,
                sum(part.payload_s or 0.0 for part in parts),
                min(part.first_at for part in parts if part.first_at),
                max(part.last_at for part in parts if part.last_at),
            )
        )
    return found


def use_of_slots(groups: Iterable[AttemptGroup]) -> float | None:
    """Return the share of the slots' time in which payloads ran; None if it is unknown."""
    uses = slot_uses(groups)
    presence_s = sum(it.presence_s for it in uses)
    return min(sum(it.payload_s for it in uses) / presence_s, 1.0) if presence_s > 0 else None
