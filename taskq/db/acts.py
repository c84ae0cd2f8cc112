"""Who did what at campaigns: `Client.acts`, and how commands say what they do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from taskq.db.access import Queries
from taskq.model.acts import RecordedAct
from taskq.model.seed import check_path

#: Acts of an answer, as many as a gateway gives.
ALL_ACTS: Final = 20_000


def acts(
    database: Queries, path: str, verbs: Iterable[str] | None, limit: int
) -> list[RecordedAct]:
    """Return what was done at a campaign, below it and above it, the latest first."""
    chosen = None if verbs is None else list(verbs)
    rows = database.rows("acts", path=check_path(path), verbs=chosen, most=limit)
    return [RecordedAct(**row) for row in rows]


def begin_act(database: Queries, path: str, verb: str, *what: str | None) -> None:
    """Say what a command does; what it moves next, also below the campaign, adds to that."""
    database.rows("begin_act", path=path, verb=verb, what=[it for it in what if it])
