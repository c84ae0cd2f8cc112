"""Owners of a queue's campaigns: `Client.owners`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypedDict

from taskq.db.access import Queries
from taskq.db.stones import unknown_campaign
from taskq.model.seed import check_path

ShareBy: TypeAlias = Literal["owner", "campaign"]


class QuotaChange(TypedDict, total=False):
    """Changes of a quota; None means no limit. weight: of the owner among the others."""

    max_running: int | None
    max_waiting: int | None
    max_bytes: int | None
    weight: float


@dataclass(frozen=True, slots=True)
class Owner:
    """What an owner's campaigns have, and the quota; None means no limit.

    owner: the name of the login or token that made them. waiting: tasks that wait or are delayed.
    bytes: of inputs and output files. A manager's token counts only its campaigns. is_full: whether
    the stored bytes reach the quota. is_held: whether none of the owner's tasks is handed out now,
    since that quota or the one of running tasks is used up, by whichever campaigns.
    """

    owner: str
    campaigns: int
    waiting: int
    working: int
    bytes: int
    max_running: int | None
    max_waiting: int | None
    max_bytes: int | None
    weight: float
    is_full: bool
    is_held: bool


class Owners:
    """Owners and their quotas. Every call reads the database; no caching.

    Only an operator may change quotas, and not over a gateway.
    """

    def __init__(self, database: Queries) -> None:
        self._database = database

    def list(self, path: str = "/", *, within: Sequence[str] = ("/",)) -> list[Owner]:
        """Return the owners of campaigns at and below a path, those with most tasks first.

        Each has the sums of the owner's campaigns at and below the paths `within`. For /, owners
        with only a quota are there too. Raise `NotFound` if there is no such campaign.
        """
        rows = self._database.rows("owners", path=check_path(path), within=list(within))
        return [Owner(**row) for row in rows]

    def of(self, path: str) -> str | None:
        """Return the owner of a campaign; None if it has no owner.

        Raise `UnknownCampaign` if there is none.
        """
        row = self._database.row("campaign", path=check_path(path))
        if row is None:
            raise unknown_campaign(self._database, path)
        owner: str | None = row["owner"]
        return owner

    def set_quota(self, owner: str, change: QuotaChange) -> int:
        """Change what an owner may use; return the number of campaigns that the owner has.

        It holds for later claims, seeds and files, and takes nothing back. Raise `UsageError` for
        an invalid value, `Conflict` beyond 1,000 quotas.
        """
        return int(self._database.value("set_quota", owner=owner, quota=json.dumps(change)))

    def give(self, path: str, owner: str) -> int:
        """Give a campaign and all below it to an owner; return how many changed.

        Raise `NotFound` if there is no such campaign.
        """
        return int(self._database.value("give_campaign", path=check_path(path), owner=owner))

    def share_by(self, by: ShareBy) -> bool:
        """Share running tasks between owners first, or between all campaigns alike.

        By owner: each gets a part by the weight of the quota, which the weights of the campaigns
        divide. By campaign, the default: only the weights of campaigns count. Return whether that
        changed anything. It takes effect after some seconds.
        """
        return bool(self._database.value("share_by_owner", by_owner=by == "owner"))

    def shared_by(self) -> ShareBy:
        """Return how running tasks are shared."""
        return "owner" if self._database.value("sharing") else "campaign"
