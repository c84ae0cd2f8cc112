"""The latest acts of people at a campaign, for its page."""

from __future__ import annotations

from typing import Final

from taskq.api.client import Client
from taskq.model.acts import RecordedAct
from taskq.model.seed import is_within

#: Acts of a page.
MOST_SHOWN: Final = 20


def latest(client: Client, path: str, whole: bool) -> list[RecordedAct]:
    """Return the latest acts at and below a campaign; for those who may see all, also above it."""
    found = client.acts(path, limit=MOST_SHOWN)
    return found if whole else [it for it in found if is_within(it.path, path)]
