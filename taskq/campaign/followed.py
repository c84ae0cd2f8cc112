"""Results of a campaign: all, or those since a cursor. A part of `Campaign`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from taskq.campaign import verbs
from taskq.campaign.steered import SteeredCampaign
from taskq.db.address import Row
from taskq.db.paging import pages
from taskq.files.blob_store import BlobStore
from taskq.files.large_results import Fetching
from taskq.model.errors import NotFound, ResultLost, UsageError
from taskq.model.views import Result, Status
from taskq.results.cursor import Cursor
from taskq.results.looking import follow, look


class FollowedCampaign(SteeredCampaign):
    """The verbs of `Campaign` that read results."""

    def results(
        self,
        *,
        where: str | None = None,
        since: Cursor | None = None,
        below: bool = True,
        raw: bool = False,
        blobs: BlobStore | None = None,
        on_lost: Callable[[ResultLost], None] | None = None,
    ) -> Iterator[Result]:
        """Iterate over accepted results, campaign by campaign and ordered by task, page by page.

        where: only of tasks that match this filter. since: only results that this cursor does not
        have; the cursor takes in each result when the next one is requested, or the iteration ends.
        Large results are fetched one at a time; raw: return their references instead. blobs: the
        store of large results; by default see `open_blobs`. on_lost: called for each large result
        that is missing or damaged, which then stays a reference; without it, raise `ResultLost`.
        """
        if since is not None:
            if where is not None:
                raise UsageError("results since a cursor are all that have come: leave out where")
            self._begin(since)
            rows = look(self._database, self._nodes(below=below), since)
        elif where is not None:
            rows = verbs.results(self._database, self._nodes(below=below), where)
        else:
            rows = self._pages("results", below=below)
        fetching = Fetching(self._database, raw=raw, blobs=blobs, on_lost=on_lost)
        return (Result(**fetching.of(row)) for row in rows)

    def follow(
        self,
        since: Cursor | None = None,
        *,
        below: bool = True,
        raw: bool = False,
        blobs: BlobStore | None = None,
        on_lost: Callable[[ResultLost], None] | None = None,
        on_page: Callable[[], object] = lambda: None,
    ) -> Iterator[Result]:
        """Iterate over results as they come, each once, until no task is unfinished.

        since: see `results`; by default from the first result on. Results arrive within a second if
        a look finds some thousand, and within ten times their reading time if there are very many.
        on_page: called whenever all results so far are taken in, at least twice a second between
        looks. Others: see `results`.
        """
        cursor = Cursor() if since is None else since
        self._begin(cursor)
        fetching = Fetching(self._database, raw=raw, blobs=blobs, on_lost=on_lost)

        def counts() -> list[Status]:
            return [one for one in self.tree() if below or one.path == self.path]

        rows = follow(self._database, counts, cursor, on_page)
        return (Result(**fetching.of(row)) for row in rows)

    def _begin(self, cursor: Cursor) -> None:
        cursor.begin(self.path, self._row()["created_at"])

    def _row(self) -> Row:
        row = self._database.row("campaign", path=self.path)
        if row is None:
            raise NotFound(f"no campaign {self.path}")
        return row

    def _pages(self, name: str, *, below: bool, **values: object) -> Iterator[Row]:
        """Yield all rows of a statement, with the path of their campaign."""
        for campaign, path in self._nodes(below=below):
            for row in pages(self._database, name, campaign=campaign, **values):
                yield {"campaign": path, **row}
