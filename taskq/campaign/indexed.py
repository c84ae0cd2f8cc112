"""Indexes of a campaign's results. A part of `Campaign`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from taskq.campaign.followed import FollowedCampaign
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


class IndexedCampaign(FollowedCampaign):
    """The verbs of `Campaign` on indexes of its own results, not of campaigns below it."""

    def index(
        self, field: str, *, on_progress: Callable[[int, int], object] = lambda _seen, _done: None
    ) -> None:
        """Index results by a number, such as `result.score`; return when it has all that are done.

        Idempotent: repeat a call that was interrupted; the keeper goes on without it. From then on
        the best by this field are found at once, whenever the keeper has taken in all results.
        Reports cost no more than before. on_progress: called after each step with how many results
        the index has, and how many there are. Raise `Conflict` at more than 16 indexes in a
        database.
        """
        about = self._about(field)
        self._database.value("index_results", **about)
        wanted, before = None, -1
        while True:
            (row,) = self._database.rows("fill_index", scan=SCAN, **about)
            on_progress(row["seen"], row["done"])
            wanted = row["done"] if wanted is None else wanted
            if row["seen"] >= wanted:
                return
            if row["seen"] == before:
                sleep(AGAIN_S)
            before = row["seen"]

    def drop_index(self, field: str) -> bool:
        """Drop an index; return whether there was one. The keeper removes its rows."""
        return bool(self._database.value("drop_index", **self._about(field)))

    def indexes(self) -> list[ResultIndex]:
        """Return the indexes of this campaign and of those below it, ordered by path."""
        rows = self._database.rows("result_indexes", path=self.path)
        return [ResultIndex(**row) for row in rows]

    def _about(self, field: str) -> dict[str, Any]:
        part, _, name = field.partition(".")
        if part not in _PARTS or not name:
            raise UsageError(
                f"{field!r:.80} cannot be indexed: name a number of results, as result.score, or "
                "of payload or phases"
            )
        return {"path": self.path, "part": part, "name": name}
