"""What a process knows of campaigns: their terms, as agents get them, and what is unfinished."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final, NamedTuple

from taskq.db.connections import Row
from taskq.diagnosis import clauses
from taskq.dispatch.recent import Recent
from taskq_agent.protocol import CampaignTerms, Input, Task, Unservable

#: Campaigns kept, and for how long after their last use. Looking one up again costs a statement.
_MOST_KEPT: Final = 50_000
_KEPT_S: Final = 60.0
#: The columns of the statement `campaign_by_id`, by name.
_TERMS: Final = tuple(term.name for term in fields(CampaignTerms))


class CampaignCache:
    """The terms of the campaigns seen lately. May be shared by threads."""

    def __init__(self) -> None:
        self._campaigns: Recent[int, CampaignTerms] = Recent(_MOST_KEPT, _KEPT_S)

    def __contains__(self, campaign: int) -> bool:
        """Return whether terms of a campaign are cached, of any revision."""
        return self._campaigns.get(campaign) is not None

    def of(self, task: Task) -> CampaignTerms | None:
        """Return the cached terms of a task's campaign, unless they are older than the task's."""
        known = self._campaigns.get(task.campaign)
        return known if known is not None and known.revision >= task.revision else None

    def put(self, row: Row) -> CampaignTerms:
        """Keep and return the terms in a row of the statement `campaign_by_id`."""
        given: dict[str, Any] = {
            name: tuple(row[name]) if isinstance(row[name], list) else row[name] for name in _TERMS
        }
        given["inputs"] = {
            name: Input(declared["digest"], declared["size"])
            for name, declared in row["inputs"].items()
        }
        given["gpus"] = _whole_if_it_is(row["gpus"])
        known = CampaignTerms(**given)
        self._campaigns.put(row["campaign"], known)
        return known


class Remaining(NamedTuple):
    """The number of unfinished tasks, and the number among them that no agent of the scope can get.

    unfinished: None if they were not counted.
    """

    unfinished: int | None
    unservable: Unservable | None = None

    @property
    def awaited(self) -> int:
        """Return the number of unfinished tasks that an agent of the scope may still get."""
        return (self.unfinished or 0) - (self.unservable.tasks if self.unservable else 0)

    @classmethod
    def from_row(cls, row: Row) -> Remaining:
        """Return the result of a row of `left_over`; see left_over.sql."""
        tasks = row["unservable"]
        unservable = Unservable(tasks, tuple(clauses.unservable(row))) if tasks else None
        return cls(row["unfinished"], unservable)


UNKNOWN: Final = Remaining(None)


def _whole_if_it_is(number: float | None) -> float | None:
    """Return a number as an int if it is one: earlier agents take no other."""
    return int(number) if number is not None and number.is_integer() else number
