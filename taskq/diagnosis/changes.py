"""Who has changed campaigns or moved their tasks lately, and which reasons that explains."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from taskq.db.access import Queries
from taskq.db.acts import acts
from taskq.diagnosis.reasons import Reason
from taskq.model.acts import RecordedAct
from taskq.model.seed import is_within
from taskq.model.views import Status
from taskq.model.words import command, instant

MAX_CHANGES: Final = 1_000
MAX_MOVES: Final = 100
#: What begins within so long after a change may follow from it: attempts take their time to end.
_FOLLOWS: Final = timedelta(hours=1)
#: What `taskq campaign changes` shows in full.
_RECIPE: Final = ("handler", "params", "input ")


@dataclass(frozen=True, slots=True)
class CampaignChange:
    """The last change of a campaign within a day.

    changed_by: a login, or a token. what: settings, inputs, or `status`. state: what it is now;
    None if it is gone, or that is not known.
    """

    campaign: str
    changed_at: datetime
    changed_by: str
    what: list[str]
    state: str | None = None

    @property
    def text(self) -> str:
        """In words: `/x was changed at 2026-12-01T08:00:00Z by anna (cores, handler)`."""
        of = f" ({', '.join(self.what)})" if self.what else ""
        return f"{self.campaign} was changed at {instant(self.changed_at)} by {self.changed_by}{of}"

    @property
    def commands(self) -> list[str]:
        """The command that shows what was changed, if one does."""
        shown = any(name.startswith(_RECIPE) for name in self.what)
        return [command("campaign", "changes", self.campaign)] if shown else []


@dataclass(frozen=True, slots=True)
class TasksMoved:
    """Commands of one verb that moved tasks, latest first, and how the campaign of the first is."""

    acts: Sequence[RecordedAct]
    now: Status


def read_changes(database: Queries, path: str) -> list[CampaignChange]:
    """Return the changes of campaigns above, at and below one, latest first."""
    rows = database.rows("explain_changes", path=path, limit=MAX_CHANGES)
    return [CampaignChange(**row) for row in rows]


def read_moves(database: Queries, path: str, statuses: Mapping[str, Status]) -> list[TasksMoved]:
    """Return by which commands tasks were cancelled, or retried though done, at and below a path.

    statuses: of the campaigns there, with all below. Without those that were removed, and those
    that are cancelled, with their tasks.
    """
    found = []
    for verb in ("cancel", "retry"):
        its = [
            it
            for it in acts(database, path, (verb,), MAX_MOVES)
            if it.tasks
            and it.path in statuses
            and statuses[it.path].state != "cancelled"
            and (verb == "cancel" or (it.what or [""])[0] == "done")
        ]
        if its:
            found.append(TasksMoved(its, statuses[its[0].path]))
    return found


def change_before(
    changes: Sequence[CampaignChange], campaign: str, since: datetime | None
) -> CampaignChange | None:
    """Return the last change of a campaign, or of one above, from which a beginning may follow."""
    if since is None:
        return None
    found = (
        it
        for it in changes
        if is_within(campaign, it.campaign) and it.changed_at <= since <= it.changed_at + _FOLLOWS
    )
    return next(found, None)


def dated(
    reason: Reason,
    changes: Sequence[CampaignChange],
    paths: Collection[str],
    settings: Collection[str],
) -> Reason:
    """Return a reason with since when and by whom it is so, if that is the last change.

    paths: the campaigns that it is about. settings: those that decide it.
    """
    its = [it for it in changes if it.campaign in paths and not set(settings).isdisjoint(it.what)]
    if not its or reason.since is not None:
        return reason
    first = min(its, key=lambda it: it.changed_at)
    by = f" ({first.changed_by})" if first.what == ["status"] else f"; {first.text}"
    text = f"{reason.text.removesuffix('.')}{by}."
    return replace(reason, text=text, since=first.changed_at)
