"""A campaign with those below it in the database: what the verbs of `Campaign` work on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from taskq.db.access import Queries, pages, task_ids, task_rows
from taskq.db.rows import Row
from taskq.db.stones import unknown_campaign
from taskq.model.errors import NotFound
from taskq.model.given import names
from taskq.model.views import Attempt, Result, Status, TaskView


@dataclass(frozen=True, slots=True)
class Subtree:
    """A campaign and those below it. Nothing is cached: each call reads the database."""

    database: Queries
    campaign_id: int
    path: str

    def row(self) -> Row:
        """Return the campaign's row; raise `UnknownCampaign` if it was removed."""
        row = self.database.row("campaign", path=self.path)
        if row is None:
            raise unknown_campaign(self.database, self.path)
        return row

    def tree(self) -> list[Status]:
        """Return the own counts of this campaign and of each below it, ordered by path."""
        return [Status(**row) for row in self.database.rows("counts", path=self.path, depth=None)]

    def own(self) -> Status:
        """Return the counts of this campaign without those below it, however many these are."""
        (row,) = self.database.rows("counts", path=self.path, depth=-1)
        return Status(**row)

    def statuses(self, *, below: bool) -> list[Status]:
        """Return the own counts of this campaign, and of those below it."""
        return self.tree() if below else [self.own()]

    def nodes(self, *, below: bool) -> Iterator[tuple[int, str]]:
        """Yield id and path of this campaign, and of those below it."""
        if below:
            yield from ((status.campaign_id, status.path) for status in self.tree())
        else:
            yield self.campaign_id, self.path

    def failing(self, *, below: bool) -> Iterator[tuple[int, str]]:
        """Yield id and path of those of `nodes` in which something has failed, perhaps others."""
        if below:
            for row in self.database.rows("failing_campaigns", path=self.path):
                yield row["campaign_id"], row["path"]
        else:
            yield self.campaign_id, self.path

    def pages(self, name: str, *, below: bool, **values: object) -> Iterator[Row]:
        """Yield all rows of a statement, with the path of their campaign."""
        return self.pages_of(name, self.nodes(below=below), **values)

    def pages_of(
        self, name: str, nodes: Iterable[tuple[int, str]], **values: object
    ) -> Iterator[Row]:
        """Yield all rows of a statement about these campaigns, with their paths."""
        for campaign, path in nodes:
            for row in pages(self.database, name, campaign=campaign, **values):
                yield {"campaign": path, **row}

    def task_ids(self, keys: Iterable[str]) -> list[int]:
        """Return the ids of the campaign's tasks with these keys; raise `NotFound`."""
        wanted = list(names("keys", keys))
        known = task_ids(self.database, self.campaign_id, wanted)
        unknown = [key for key in wanted if key not in known]
        if unknown:
            others = f", and none with {len(unknown) - 1:,} others" if unknown[1:] else ""
            raise NotFound(f"campaign {self.path} has no task with the key {unknown[0]!r}{others}")
        return [known[key] for key in wanted]

    def task(self, key: str) -> TaskView:
        """Return a task by its key; raise `NotFound` if there is none."""
        (task,) = self.task_ids([key])
        (row,) = task_rows(self.database, self.campaign_id, [task])
        return TaskView(campaign=self.path, **row)

    def attempts(self, key: str) -> list[Attempt]:
        """Return the attempts of a task that have ended, in order; raise `NotFound`."""
        (task,) = self.task_ids([key])
        rows = self.database.rows("attempts", campaign=self.campaign_id, task=task)
        return [Attempt(**row) for row in rows]

    def results_of(self, keys: list[str]) -> list[Result]:
        """Return the results of the campaign's tasks with these keys; raise `NotFound`."""
        tasks = self.task_ids(keys)
        rows = self.database.rows("results_of", campaign=self.campaign_id, tasks=tasks)
        if len(rows) < len(keys):
            missing = next(key for key in keys if key not in {row["key"] for row in rows})
            raise NotFound(f"task {missing!r} of {self.path} has no result")
        return [Result(campaign=self.path, **row) for row in rows]
