"""Reads tasks that have ended since a cursor, and sends their traces."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final, Protocol

from taskq.db.access import Queries, pages
from taskq.db.address import Row
from taskq.model.errors import UnknownCampaign
from taskq.model.seed import check_path
from taskq.model.views import Attempt, Status
from taskq.results.cursor import Cursor
from taskq.results.looking import REST, follow, look
from taskq.results.spans import Trace, trace_of

#: Spans after which a request is full.
MOST_SPANS: Final = 2_000


class TraceReceiver(Protocol):
    """A receiver of traces, such as `otlp.Receiver`."""

    def send(self, traces: list[Trace]) -> str:
        """Send traces; return the receiver's complaint."""


class TraceExport:
    """Sends traces of the tasks of a campaign, and of all below it, that are done or have failed.

    cursor: the tasks sent. Failed tasks are apart there, under the negative id of their campaign,
    since they can be retried and become done. save: called when all tasks of the cursor were sent.
    on_complaint: called with the receiver's complaint. Raise `UnknownCampaign` or `Conflict`.

    When the receiver fails, traces that were read and not sent are kept; the next call sends them
    first.
    """

    def __init__(
        self,
        database: Queries,
        path: str,
        cursor: Cursor,
        receiver: TraceReceiver,
        *,
        save: Callable[[], object] = lambda: None,
        on_complaint: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._database = database
        self._path = check_path(path)
        self._cursor = cursor
        self._receiver = receiver
        self._save = save
        self._on_complaint = on_complaint
        self._created: dict[str, datetime] = {}
        self._nodes: dict[str, Status] = {}
        self._failed: dict[int, int] = {}
        self._rested_at = 0.0
        self._waiting: list[Trace] = []
        self.traces = self.spans = 0
        # The prefix keeps cursors of results and of traces from being taken for each other.
        cursor.begin(f"traces of {self._path}", self._created_at(self._path))

    def once(self) -> None:
        """Send traces of tasks that have ended; raise the errors of the receiver."""
        self._settle()
        nodes = ((one.campaign_id, one.path) for one in self._counts())
        self._add(look(self._database, nodes, self._cursor, self._settle))
        self._look_for_failed()
        self._settle()

    def follow(self) -> None:
        """Send traces of tasks as they end, until no task is unfinished; raise as `once`."""
        self._settle()
        self._add(follow(self._database, self._counts, self._cursor, self._between))
        self._failed.clear()
        self._look_for_failed()
        self._settle()

    def _between(self) -> None:
        if time.monotonic() >= self._rested_at:
            began = time.monotonic()
            self._look_for_failed()
            now = time.monotonic()
            self._rested_at = now + REST * (now - began)
        self._settle()

    def _counts(self) -> list[Status]:
        found = [
            Status(**row) for row in self._database.rows("counts", path=self._path, depth=None)
        ]
        self._nodes = {one.path: one for one in found}
        return found

    def _look_for_failed(self) -> None:
        """Read failed tasks of campaigns whose number of failed tasks has changed."""
        for node in self._nodes.values():
            if node.failed == self._failed.get(node.campaign_id, 0):
                continue
            sent = self._cursor.given(-node.campaign_id)
            sent.settle()
            for row in pages(self._database, "failures", campaign=node.campaign_id):
                if row["task_id"] not in sent:
                    self._add([{"campaign": node.path, **row}])
                    sent.add(row["task_id"])
                    if sum(len(one.spans) for one in self._waiting) >= MOST_SPANS:
                        self._settle()
            self._failed[node.campaign_id] = node.failed

    def _add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            path, task = row["campaign"], row["task_id"]
            if row["attempt"] == 1:
                attempts = [_only(row)]
            else:
                campaign = self._nodes[path].campaign_id
                found = self._database.rows("attempts", campaign=campaign, task=task)
                attempts = [Attempt(**one) for one in found]
            if attempts:  # an operator may remove it meanwhile
                created_at = self._created_at(path)
                self._waiting.append(trace_of(path, created_at, task, row["key"], attempts))

    def _settle(self) -> None:
        """Send all waiting traces, then save: all tasks of the cursor were sent."""
        while self._waiting:
            count, spans = 0, 0
            while count < len(self._waiting) and spans < MOST_SPANS:
                spans += len(self._waiting[count].spans)
                count += 1
            if complaint := self._receiver.send(self._waiting[:count]):
                self._on_complaint(complaint)
            del self._waiting[:count]
            self.traces, self.spans = self.traces + count, self.spans + spans
        self._save()

    def _created_at(self, path: str) -> datetime:
        if path not in self._created:
            row = self._database.row("campaign", path=path)
            if row is None:
                raise UnknownCampaign(path)
            self._created[path] = row["created_at"]
        return self._created[path]


def _only(row: Row) -> Attempt:
    """Return the only attempt of a task, from a row of its results or failures."""
    return Attempt(
        attempt=1,
        outcome=row.get("outcome", "done"),
        claimed_at=row["claimed_at"],
        ended_at=row["ended_at"],
        agent=row["agent"],
        host=row["host"],
        site=row["site"],
        exit_code=row.get("exit_code"),
        error_class=row.get("error_class"),
        error=row.get("error"),
        phases=row["phases"],
        result=None,
        tail=None,
    )
