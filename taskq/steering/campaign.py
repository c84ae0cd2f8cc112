"""What steers a campaign: pause, cancel, retry, priorities. A part of `Campaign`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from taskq.db.connections import Database
from taskq.errors import NotFound
from taskq.steering import verbs
from taskq.steering.bulk import OnBulk
from taskq.steering.priorities import Best, Prioritised, checked, prioritise
from taskq.views import Status

MOVE_CHUNK: Final = 5_000


class SteeredCampaign:
    """The verbs of `Campaign` that move its tasks or stop them."""

    def __init__(self, database: Database, campaign_id: int, path: str) -> None:
        self._database = database
        self.campaign_id: Final = campaign_id
        self.path: Final = path

    def tree(self) -> list[Status]:
        """Return this and all campaigns below it, each with its own counts, ordered by path."""
        return [Status(**row) for row in self._database.rows("counts", path=self.path, depth=None)]

    def pause(self) -> bool:
        """Hand out no more tasks of this campaign and those below; return whether it was open."""
        return self._set_status("paused")

    def resume(self) -> bool:
        """Hand out tasks again, unless a campaign above is not open."""
        return self._set_status("open")

    def cancel(
        self,
        keys: Iterable[str] | None = None,
        *,
        where: str | None = None,
        dry_run: bool = False,
        on_progress: OnBulk | None = None,
    ) -> int:
        """Cancel tasks that are not final; return how many.

        With keys, those tasks of this campaign. With where, those that match this filter, of this
        campaign and all below. Without, the campaign and all below it, which then accept no seeds
        until resumed. Agents stop running ones at their next heartbeat.

        dry_run: change nothing, return how many it would be. on_progress: called after each chunk
        of 1,000 tasks that were looked at.
        """
        verbs.check_choice(keys, where, dry_run=dry_run)
        if where is not None or dry_run:
            return verbs.cancel(
                self._database, self.tree(), where, dry_run=dry_run, on_progress=on_progress
            )
        if keys is not None:
            return self._cancel_tasks(self.campaign_id, self._task_ids(keys))
        self._set_status("cancelled")
        return sum(self._cancel_tasks(status.campaign_id, None) for status in self.tree())

    def retry(
        self,
        *,
        status: str = "failed",
        error_class: str | None = None,
        keys: Iterable[str] | None = None,
        where: str | None = None,
        dry_run: bool = False,
        on_progress: OnBulk | None = None,
    ) -> int:
        """Retry failed or cancelled tasks; return how many.

        error_class: only those whose last attempt ended with it. where: only those that match this
        filter. keys: only these tasks of this campaign; without keys, also tasks of all campaigns
        below, except cancelled campaigns. dry_run, on_progress: as of `cancel`. Raise `Conflict`
        if this campaign is cancelled.
        """
        verbs.check_choice(keys, where, dry_run=dry_run)
        if keys is not None:
            campaigns, tasks = [self.campaign_id], self._task_ids(keys)
        else:
            nodes = [
                one for one in self.tree() if one.state != "cancelled" or one.path == self.path
            ]
            if where is not None or dry_run:
                return verbs.retry(
                    self._database,
                    nodes,
                    where,
                    status,
                    error_class,
                    dry_run=dry_run,
                    on_progress=on_progress,
                )
            campaigns, tasks = [node.campaign_id for node in nodes], None
        return sum(
            self._in_chunks(
                "retry", campaign=campaign, status=status, error_class=error_class, tasks=tasks
            )
            for campaign in campaigns
        )

    def prioritise(
        self,
        priorities: Mapping[str, float] | Iterable[tuple[str, float]],
        *,
        best: Best | None = None,
        on_progress: Callable[[Prioritised], None] | None = None,
    ) -> Prioritised:
        """Change the priorities of tasks of this campaign that wait or are delayed, by their keys.

        priorities: whole numbers by key, as a mapping, a pandas Series with keys as its index, or
        pairs. best: with "highest" or "lowest" values are any numbers, such as scores, and become
        priorities from 1,000 down to 1 by their rank.

        Tasks that run or are final, and keys of no task, are counted. Changes commit in chunks of
        1,000 tasks at most. A task keeps its priority when it fails and is tried again.
        """
        wanted = checked(priorities, best)
        return prioritise(self._database, self.campaign_id, wanted, on_progress)

    def set_priority(
        self,
        priority: int,
        *,
        where: str | None = None,
        dry_run: bool = False,
        on_progress: OnBulk | None = None,
    ) -> int:
        """Change the priority of tasks that wait or are delayed, here and in all campaigns below.

        where, dry_run, on_progress: as of `cancel`. Return how many had another one, in a dry run
        how many match.
        """
        return verbs.set_priority(
            self._database, self.tree(), where, priority, dry_run=dry_run, on_progress=on_progress
        )

    def _set_status(self, status: str) -> bool:
        return bool(self._database.value("set_status", path=self.path, status=status))

    def _cancel_tasks(self, campaign: int, tasks: list[int] | None) -> int:
        return self._in_chunks("cancel", campaign=campaign, tasks=tasks)

    def _in_chunks(self, name: str, **values: object) -> int:
        """Repeat a statement that moves a chunk of tasks, until none is left; return the sum."""
        moved, after = 0, 0
        while True:
            (row,) = self._database.rows(name, after=after, limit=MOVE_CHUNK, **values)
            if not row["moved"]:
                return moved
            moved, after = moved + row["moved"], row["last"]

    def _task_ids(self, keys: Iterable[str]) -> list[int]:
        wanted = list(keys)
        rows = self._database.rows("task_ids", campaign=self.campaign_id, keys=wanted)
        known = {row["key"]: row["task_id"] for row in rows}
        for key in wanted:
            if key not in known:
                raise NotFound(f"campaign {self.path} has no task with the key {key!r}")
        return [known[key] for key in wanted]
