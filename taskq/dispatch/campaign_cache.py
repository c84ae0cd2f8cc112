"""Cache of campaign terms: what all tasks of a campaign share, in the form that agents receive."""

from __future__ import annotations

from typing import Final

from taskq.db.connections import Row
from taskq_agent.protocol import CampaignTerms, Input, Task

#: Campaigns kept. Looking one up again costs a statement.
_MOST_KEPT: Final = 50_000


class CampaignCache:
    """The terms of the campaigns seen so far. May be shared by threads."""

    def __init__(self) -> None:
        self._campaigns: dict[int, CampaignTerms] = {}

    def __contains__(self, campaign: int) -> bool:
        """Return whether terms of a campaign are cached, of any revision."""
        return campaign in self._campaigns

    def of(self, task: Task) -> CampaignTerms | None:
        """Return the cached terms of a task's campaign, unless they are older than the task's."""
        known = self._campaigns.get(task.campaign)
        return known if known is not None and known.revision >= task.revision else None

    def put(self, row: Row) -> CampaignTerms:
        """Keep and return the terms in a row of the statement `campaign_by_id`."""
        if len(self._campaigns) >= _MOST_KEPT:
            self._campaigns.clear()
        known = self._campaigns[row["campaign_id"]] = CampaignTerms(
            campaign=row["campaign_id"],
            revision=row["revision"],
            path=row["path"],
            handler=row["handler"] or {},
            params=row["params"],
            time_limit_s=row["time_limit_s"],
            inputs={name: Input(one["digest"], one["size"]) for name, one in row["inputs"].items()},
            on_disconnect=row["on_disconnect"],
            checkpoint_bytes=row["checkpoint_bytes"],
            checkpoint_every_s=row["checkpoint_every_s"],
            cores=row["cores"],
            memory=tuple(row["memory"] or ()),
            gpus=row["gpus"],
            output_bytes=row["output_bytes"],
        )
        return known
