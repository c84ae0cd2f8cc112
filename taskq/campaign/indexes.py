"""Indexes of a campaign's own results, not of those of campaigns below it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from taskq.campaign.subtree import Subtree
from taskq.model.errors import UsageError
from taskq.model.pauses import sleep

#: Attempts that one statement looks at.
SCAN: Final = 5_000
#: Seconds until the next try after a step without a result: the keeper is at work, or all failed.
AGAIN_S: Final = 0.1
_PARTS: Final = ("result", "payload", "phases")


@dataclass(frozen=True, slots=True)
class ResultIndex:
    """An index of results. campaign: its path. field: such as `result.score`.

    seen: results in the index. done: results of the campaign. ranked: results with a number there.
    large: results whose number the database does not know, since they are stored as blobs.
    """

    campaign: str
    field: str
    seen: int
    done: int
    ranked: int
    large: int
    created_at: datetime

    @property
    def complete(self) -> bool:
        """Whether the index has all results, and so can answer for the best."""
        return self.seen == self.done


def index(subtree: Subtree, field: str, on_progress: Callable[[int, int], object]) -> None:
    """Create an index, and fill it with all results that are done; see `Campaign.index`."""
    about = _about(subtree, field)
    subtree.database.value("index_results", **about)
    wanted, before = None, -1
    while True:
        (row,) = subtree.database.rows("fill_index", scan=SCAN, **about)
        on_progress(row["seen"], row["done"])
        wanted = row["done"] if wanted is None else wanted
        if row["seen"] >= wanted:
            return
        if row["seen"] == before:
            sleep(AGAIN_S)
        before = row["seen"]


def drop_index(subtree: Subtree, field: str) -> bool:
    """Drop an index; return whether there was one."""
    return bool(subtree.database.value("drop_index", **_about(subtree, field)))


def indexes(subtree: Subtree) -> list[ResultIndex]:
    """Return the indexes of a campaign and of those below it, ordered by path."""
    return [
        ResultIndex(**row) for row in subtree.database.rows("result_indexes", path=subtree.path)
    ]


def _about(subtree: Subtree, field: str) -> dict[str, Any]:
    part, _, name = field.partition(".")
    if part not in _PARTS or not name:
        raise UsageError(
            f"{field!r:.80} cannot be indexed: name a number of results, such as result.score, or "
            "of payload or phases"
        )
    return {"path": subtree.path, "part": part, "name": name}
