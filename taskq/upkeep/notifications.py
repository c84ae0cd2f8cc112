"""Stored notification rules: managers make, read and test them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from taskq.db.access import Queries
from taskq.diagnosis.events import BY_NAME
from taskq.model.errors import NotFound, UsageError
from taskq.model.seed import check_path
from taskq.upkeep.targets import Target

LATEST: Final = 100


@dataclass(frozen=True, slots=True)
class NotifyRule:
    """A rule: which events of a campaign, and all below it, go to which target.

    after_s: how long a state must last before it is reported; None: each event has its own time.
    attempts: how often the waiting message has failed; trouble: why, the last time. waiting,
    given_up: numbers of events. reached: whether a running keeper can send to this target.
    """

    name: str
    path: str
    events: list[str]
    target: str
    after_s: float | None
    login: str
    created_at: datetime
    attempts: int
    trouble: str | None
    sent_at: datetime | None
    sent_from: str | None
    waiting: int
    given_up: int
    given_up_at: datetime | None
    retry_in_s: float | None
    reached: bool


@dataclass(frozen=True, slots=True)
class NotifyEvent:
    """An event that a rule reports.

    event: the code of the reason, as `taskq explain` has it. subject: what it is about: a campaign,
    a host, a disk. status: waiting, sent or given up.
    """

    event_id: Any
    event: str
    subject: str
    noted_at: datetime
    figures: dict[str, Any]
    status: str
    ended_at: datetime | None


class Notifications:
    """The notification rules of a queue."""

    def __init__(self, database: Queries) -> None:
        self._database = database

    def add(
        self,
        name: str,
        path: str,
        events: Iterable[str],
        target: str,
        *,
        after_s: float | None = None,
    ) -> None:
        """Store a rule; keepers (`taskq keeper`) send its events from then on.

        events: names of `diagnosis.events.EVENTS`. target: see `channels`. Raise `UsageError` for
        an invalid value, `NotFound` if there is no such campaign, `Conflict` if the name is taken.
        """
        wanted = list(dict.fromkeys(events))
        if unknown := [event for event in wanted if event not in BY_NAME]:
            raise UsageError(f"no event {unknown[0]!r:.80}; there are {', '.join(BY_NAME)}")
        Target.parsed(target)
        self._database.row(
            "create_notify_rule",
            name=name,
            path=check_path(path),
            events=wanted,
            target=target,
            after_s=after_s,
        )

    def list(self) -> list[NotifyRule]:
        """Return all rules, ordered by name."""
        return [NotifyRule(**row) for row in self._database.rows("notify_rules", rule=None)]

    def rule(self, name: str) -> NotifyRule:
        """Return a rule; raise `NotFound` if there is none."""
        row = self._database.row("notify_rules", rule=name)
        if row is None:
            raise NotFound(f"no notification rule {name}; `taskq notify list` shows what there is")
        return NotifyRule(**row)

    def events(self, name: str, *, limit: int = LATEST) -> Iterable[NotifyEvent]:
        """Return the latest events of a rule, latest first."""
        rows = self._database.rows("notify_events", rule=name, limit=limit)
        return [NotifyEvent(**row) for row in rows]

    def remove(self, name: str) -> bool:
        """Remove a rule, with its waiting events; return whether there was one."""
        return bool(self._database.value("remove_notify_rule", name=name))

    def test(self, name: str) -> str:
        """Let a rule send a test event at once; return its id. Raise `NotFound`."""
        return str(self._database.value("test_notify_rule", name=name))

    def status(self, event_id: str) -> str | None:
        """Return the status of an event; None if it is forgotten, or its rule was removed."""
        status: str | None = self._database.value("notify_event", event=event_id)
        return status
