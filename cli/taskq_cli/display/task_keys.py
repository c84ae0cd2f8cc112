"""Hints for a key that a campaign has not: where it is, or what keys look like there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from taskq import Campaign, Client
from taskq.model.errors import NotFound
from taskq.model.words import counted
from taskq_cli.display.text import one_line

MOST_CAMPAIGNS: Final = 20
"""Campaigns below that are asked for a key, however many there are."""


@contextmanager
def hinting_at_keys(client: Client, path: str, key: str) -> Iterator[None]:
    """Add to an error that a campaign has no task with a key where it is, or what keys are like."""
    campaign = client.campaign(path)
    try:
        yield
    except NotFound as error:
        if _has(client, campaign, key):
            raise
        raise NotFound(f"{error}; {_hint(client, campaign, key)}") from None


def _hint(client: Client, campaign: Campaign, key: str) -> str:
    own, *others = campaign.tree()
    below = [Campaign(client.queries, node.campaign_id, node.path) for node in others if node.total]
    for one in below[:MOST_CAMPAIGNS]:
        if _has(client, one, key):
            return f"{one.path} below it has one: a key is that of one campaign"
    if own.total:
        rows = client.queries.rows("tasks", campaign=own.campaign_id, status=None, after=0, limit=1)
        return f"its keys are like {one_line(rows[0]['key'])!r}" if rows else "it has no task"
    if below:
        number = counted(len(below), "campaign")
        return f"it has none of its own, but {number} below it, as {below[0].path}; name that"
    return "it has no task"


def _has(client: Client, campaign: Campaign, key: str) -> bool:
    rows = client.queries.rows("task_ids", campaign=campaign.campaign_id, keys=[key])
    return bool(rows)
