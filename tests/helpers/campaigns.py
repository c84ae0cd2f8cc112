"""Campaigns that agents may choose, for tests that care little about what is run."""

from __future__ import annotations

from typing import Any

from taskq import Campaign, CampaignSpec, Client, Handler

#: The command `true`.
TRUE = Handler("command", argv=("true",))


def servable(queue: Client, path: str = "/c", tasks: int = 0, **settings: Any) -> Campaign:
    """Create a campaign that agents may choose; its tasks have the payloads {"n": 0} and so on."""
    campaign = queue.create_campaign(CampaignSpec(path, handler=TRUE, **settings))
    if tasks:
        campaign.seed({"n": n} for n in range(tasks))
    return campaign


def tasks_of(queue: Client, paths: str, count: int = 2) -> None:
    """Create campaigns, named in one string, with some tasks each."""
    for path in paths.split():
        queue.create_campaign(path).seed({"n": n} for n in range(count))
