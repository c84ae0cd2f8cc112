"""Steering of a campaign: pause, cancel, retry, priorities. A part of `Campaign`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from taskq.campaign import verbs
from taskq.campaign.bulk import OnBulk
from taskq.campaign.priorities import Extreme, Prioritised, checked, prioritise
from taskq.db.access import Queries
from taskq.db.paging import in_chunks, task_ids
from taskq.model.errors import NotFound
from taskq.model.views import Status


class SteeredCampaign:
    """The verbs of `Campaign` that move its tasks or stop them."""

    def __init__(self, database: Queries, campaign_id: int, path: str) -> None:
        self._database = database
        self.campaign_id: Final = campaign_id
        self.path: Final = path

    def tree(self) -> list[Status]:
        """Return the own counts of this campaign and of each below it, ordered by path."""
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
        below: bool = True,
        dry_run: bool = False,
        on_progress: OnBulk | None = None,
    ) -> int:
        """Cancel tasks that are not final; return how many.

        keys: those tasks of this campaign. where: the tasks that match this filter. Without either,
        the campaign and all below it are cancelled, and accept no seeds until resumed; with
        `below=False` only the tasks of this campaign are, and the campaign stays as it is. Agents
        stop running ones at their next heartbeat.

        dry_run: change nothing. on_progress: with where, called after each chunk of 1,000 tasks
        looked at.
        """
        verbs.check_choice(keys, where)
        if where is not None:
            nodes = self._statuses(below=below)
            return verbs.cancel(
                self._database, nodes, where, dry_run=dry_run, on_progress=on_progress
            )
        if keys is not None:
            tasks = self._task_ids(keys)
            if dry_run:
                return verbs.unfinished(self._database, self.campaign_id, tasks)
            return self._cancel_tasks(self.campaign_id, tasks)
        if dry_run:
            return sum(node.unfinished for node in self._statuses(below=below))
        if not below:
            return self._cancel_tasks(self.campaign_id, None)
        self._set_status("cancelled")
        return sum(self._cancel_tasks(node.campaign_id, None) for node in self.tree())

    def retry(
        self,
        *,
        status: str = "failed",
        error_class: str | None = None,
        keys: Iterable[str] | None = None,
        where: str | None = None,
        below: bool = True,
        dry_run: bool = False,
        on_progress: OnBulk | None = None,
    ) -> int:
        """Retry failed or cancelled tasks; return how many.

        error_class: only those whose last attempt ended with it. where: only those that match this
        filter. keys: only these tasks of this campaign. Skips campaigns below that are cancelled.
        dry_run, on_progress: see `cancel`. Raise `Conflict` if this campaign is cancelled.
        """
        verbs.check_choice(keys, where)
        if where is not None:
            own, *others = self._statuses(below=below)
            nodes = [own, *(one for one in others if one.state != "cancelled")]
            return verbs.retry(
                self._database,
                nodes,
                where,
                status,
                error_class,
                dry_run=dry_run,
                on_progress=on_progress,
            )
        tasks = None if keys is None else self._task_ids(keys)
        campaigns = [self.campaign_id]
        if keys is None and below:
            campaigns += [one.campaign_id for one in self.tree()[1:] if one.state != "cancelled"]
        words = {"status": status, "error_class": error_class, "dry_run": dry_run}
        return sum(
            in_chunks(self._database, "retry", campaign=campaign, tasks=tasks, **words)
            for campaign in campaigns
        )

    def prioritise(
        self,
        priorities: Mapping[str, float] | Iterable[tuple[str, float]],
        *,
        best: Extreme | None = None,
        on_progress: Callable[[Prioritised], None] | None = None,
    ) -> Prioritised:
        """Change the priorities of waiting and delayed tasks of this campaign, by their keys.

        priorities: whole numbers by key, as a mapping, a pandas Series with keys as its index, or
        pairs. best: with "highest" or "lowest" values are any numbers, such as scores, and become
        priorities from 1,000 down to 1 by their rank.

        Tasks that run or are final, and keys of no task, are only counted. Changes commit in chunks
        of 1,000 tasks at most. A task keeps its priority when it fails and is tried again.
        """
        wanted = checked(priorities, best)
        return prioritise(self._database, self.campaign_id, wanted, on_progress)

    def set_priority(
        self,
        priority: int,
        *,
        where: str | None = None,
        below: bool = True,
        dry_run: bool = False,
        on_progress: OnBulk | None = None,
    ) -> int:
        """Change the priority of waiting and delayed tasks; return how many had another one.

        where: only tasks that match this filter. dry_run: change nothing, and return how many
        match. on_progress: called after each chunk of 1,000 tasks looked at.
        """
        return verbs.set_priority(
            self._database,
            self._statuses(below=below),
            where,
            priority,
            dry_run=dry_run,
            on_progress=on_progress,
        )

    def _set_status(self, status: str) -> bool:
        return bool(self._database.value("set_status", path=self.path, status=status))

    def _cancel_tasks(self, campaign: int, tasks: list[int] | None) -> int:
        return in_chunks(self._database, "cancel", campaign=campaign, tasks=tasks, begun=True)

    def _statuses(self, *, below: bool) -> list[Status]:
        """Return the own counts of this campaign, and of those below it."""
        return self.tree() if below else self.tree()[:1]

    def _nodes(self, *, below: bool) -> Iterator[tuple[int, str]]:
        """Yield id and path of this campaign, and of those below it."""
        if below:
            yield from ((node.campaign_id, node.path) for node in self.tree())
        else:
            yield self.campaign_id, self.path

    def _task_ids(self, keys: Iterable[str]) -> list[int]:
        wanted = list(keys)
        known = task_ids(self._database, self.campaign_id, wanted)
        for key in wanted:
            if key not in known:
                raise NotFound(f"campaign {self.path} has no task with the key {key!r}")
        return [known[key] for key in wanted]
