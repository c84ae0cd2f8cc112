"""Handle of a campaign in the submitters' API: seed, change, pause, cancel, retry, wait, read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from taskq.campaign import indexes, reading, verbs
from taskq.campaign.bulk import OnBulk
from taskq.campaign.indexes import ResultIndex
from taskq.campaign.priorities import Extreme, Prioritised, checked, prioritise
from taskq.campaign.subtree import Subtree
from taskq.db.access import Queries
from taskq.db.standby import exact
from taskq.db.stored_spec import spec_body
from taskq.diagnosis.history import Event, history
from taskq.diagnosis.reasons import Explanation
from taskq.diagnosis.trend import CampaignPace, Point
from taskq.files.archives import Outputs
from taskq.files.blob_store import BlobStore
from taskq.files.fetching import Fetched
from taskq.files.large_results import Fetching
from taskq.files.live_output import OutputPart
from taskq.ingest import seeding
from taskq.ingest.key_conflicts import OnConflict
from taskq.ingest.seeding import Conflicts, Seedable, SeedCount
from taskq.ingest.sources.records import BadLine
from taskq.model.campaign_spec import CampaignSpec
from taskq.model.errors import Clash, ResultLost
from taskq.model.seed import Seed
from taskq.model.views import Attempt, Failure, FailureCause, Hedges, Result, Status, TaskView
from taskq.results.cursor import Cursor
from taskq_agent.protocol import Input


class Campaign:
    """A campaign of a queue, returned by `Client`. Each call reads the database; nothing is cached.

    It stands for itself and all campaigns below it, unless `below=False`; a key names a task of
    the campaign itself.
    """

    def __init__(self, database: Queries, campaign_id: int, path: str) -> None:
        self._subtree = Subtree(database, campaign_id, path)
        self.campaign_id: Final = campaign_id
        self.path: Final = path

    def spec(self) -> CampaignSpec:
        """Return the campaign's settings; raise `NotFound` if it was removed."""
        return CampaignSpec.from_settings(self.path, self._subtree.row()["settings"])

    def change(self, spec: CampaignSpec, *, inputs: Mapping[str, Input] | None = None) -> None:
        """Replace settings, for tasks claimed afterwards; inputs: replace all of them, if given."""
        self._subtree.database.value(
            "change_campaign", path=self.path, spec=spec_body(spec, inputs)
        )

    def add_input(
        self, path: str | Path, name: str | None = None, *, blobs: BlobStore | None = None
    ) -> Input:
        """Store a file of at most 1 GiB and give it to all tasks of this campaign, by a name.

        Tasks claimed afterwards get it; docs/handlers.md describes how they find it. It replaces an
        input of the same name. Campaigns below do not inherit inputs.

        name: by default the file's own. blobs: where to store it; by default see `open_blobs`.
        """
        return verbs.add_input(self._subtree, Path(path), name, blobs)

    def inputs(self) -> dict[str, Input]:
        """Return the inputs of this campaign by name, sorted by name."""
        return {name: Input(**it) for name, it in sorted(self._subtree.row()["inputs"].items())}

    def remove_input(self, name: str) -> None:
        """Remove an input; tasks at work keep it. Raise `NotFound` if there is no such input."""
        self._subtree.database.value("remove_input", path=self.path, name=name)

    def status(self, *, below: bool = True) -> Status:
        """Return the exact counts of the campaign and all below it, read from counters."""
        (row,) = self._subtree.database.rows("counts", path=self.path, depth=0)
        status = Status(**row)
        return status if below or not status.children else self.tree()[0]

    def tree(self) -> list[Status]:
        """Return the own counts of this campaign and of each below it, ordered by path."""
        return self._subtree.tree()

    def hedges(self, *, below: bool = True) -> Hedges:
        """Return counts of second attempts, and those at work."""
        return reading.hedges(self._subtree, below=below)

    def closed_by(self) -> list[str]:
        """Return the paths of this campaign and those above it that are not open, from the top."""
        return [row["path"] for row in self._subtree.database.rows("closed_by", path=self.path)]

    def children(self) -> list[Campaign]:
        """Return the campaigns directly below, ordered by path."""
        database = self._subtree.database
        return [Campaign(database, one.campaign_id, one.path) for one in self.child_statuses()]

    def child_statuses(self) -> list[Status]:
        """Return counts of each campaign directly below, with all below that, by path."""
        rows = self._subtree.database.rows("counts", path=self.path, depth=1)
        return [Status(**row) for row in rows]

    def seed(
        self,
        records: Iterable[Seedable],
        *,
        on_conflict: OnConflict = "fail",
        on_clash: Callable[[Clash], None] | None = None,
        on_bad: Callable[[BadLine], None] | None = None,
        on_progress: Callable[[SeedCount], None] | None = None,
    ) -> SeedCount:
        """Seed tasks from any iterable, streamed in bounded memory.

        A record is a `Seed`, or a mapping: the payload, from which the key is derived. Seeding is
        idempotent: a record whose key and payload the campaign already has adds nothing, so an
        interrupted seeding can be repeated from the start. `on_progress` is called after each
        chunk of 10,000 records at most.

        on_conflict: what to do with a record whose key is stored with another payload. "fail":
        raise `KeyConflict`; nothing of its chunk is added, tasks of earlier chunks stay. "skip":
        skip it. "keep-both": add it under key#2, or key#3 and so on if those are taken; seeding it
        again finds it there. Payloads are equal if they are the same JSON, whatever the order of
        their names and the notation of their numbers and characters.
        on_clash: called for the first 100 records skipped, or added under a numbered key.

        A bad record raises `InvalidTask`, or goes to `on_bad` if given; tasks of earlier chunks
        stay. Raise `Conflict` if the campaign is cancelled, or the quota of its owner has no room.
        """
        return seeding.seed(
            self._subtree.database,
            self.campaign_id,
            self.path,
            records,
            conflicts=Conflicts(on_conflict, on_clash),
            on_bad=on_bad,
            on_progress=on_progress,
        )

    def submit(
        self,
        payload: Mapping[str, Any],
        key: str | None = None,
        priority: int = 0,
        *,
        on_conflict: OnConflict = "fail",
    ) -> str:
        """Add one task, unless it is there; return its key. For many, use `seed`.

        key: by default derived from the payload, so that the same payload is the same task. The
        task is durable when the call returns. Raise `InvalidTask` if the task is not valid,
        `Conflict` if the campaign is cancelled, or the quota of its owner has no room. on_conflict:
        what to do if the key is stored with another payload, as in `seed`; by default raise
        `KeyConflict`.
        """
        return verbs.submit(self._subtree, Seed(payload, key, priority), on_conflict)

    def add(self, seed: Seed, *, on_conflict: OnConflict = "fail") -> bool:
        """Add one task in one round trip; return whether it was added; see `submit`."""
        return verbs.add(self._subtree, seed, on_conflict)

    def pause(self) -> bool:
        """Hand out no more tasks of this campaign and those below; return whether it was open."""
        return verbs.set_status(self._subtree, "paused")

    def resume(self) -> bool:
        """Hand out tasks again, unless a campaign above is not open."""
        return verbs.set_status(self._subtree, "open")

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
        return verbs.cancel(
            self._subtree, keys, where, below=below, dry_run=dry_run, on_progress=on_progress
        )

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
        """Retry failed, cancelled or delayed tasks; return how many.

        error_class: only those whose last attempt ended with it. where: only those that match this
        filter. keys: only these tasks of this campaign. Skips campaigns below that are cancelled.
        dry_run, on_progress: see `cancel`. Raise `Conflict` if this campaign is cancelled.
        """
        return verbs.retry(
            self._subtree,
            status,
            error_class,
            keys,
            where,
            below=below,
            dry_run=dry_run,
            on_progress=on_progress,
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
        return prioritise(self._subtree.database, self.campaign_id, wanted, on_progress)

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
            self._subtree, priority, where, below=below, dry_run=dry_run, on_progress=on_progress
        )

    def remove(self, on_progress: Callable[[int, int], None] = lambda _, __: None) -> int:
        """Delete the campaign, all below it and all their results; return the number of tasks.

        Unfinished tasks are cancelled first. on_progress: called after each chunk with the number
        of tasks deleted so far, and of all. Raise `Conflict` for the root, which always exists.
        """
        return verbs.remove(self._subtree, on_progress)

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
        fetching = Fetching(self._subtree.database, raw=raw, blobs=blobs, on_lost=on_lost)
        return reading.results(self._subtree, where, since, below=below, fetching=fetching)

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
        fetching = Fetching(self._subtree.database, raw=raw, blobs=blobs, on_lost=on_lost)
        return reading.follow(self._subtree, since, below=below, fetching=fetching, on_page=on_page)

    def files(self, key: str) -> dict[str, bytes]:
        """Return the output files of a task, by name; raise `NotFound` if it has no result."""
        (result,) = self._subtree.results_of([key])
        return Outputs(self._subtree.database).files(self.campaign_id, result.task_id)

    def fetch(
        self,
        to: str | Path,
        tasks: Iterable[Result | str] | None = None,
        *,
        where: str | None = None,
        below: bool = True,
        blobs: BlobStore | None = None,
        on_lost: Callable[[ResultLost], None] | None = None,
    ) -> Fetched:
        """Write output files to a folder, the files of each task to a subfolder named by its key.

        tasks: results, such as from `Client.best`, or keys of tasks of this campaign that are done;
        by default all results, or those whose tasks match the filter `where`. Repeatable: each file
        appears when it is complete, and replaces one of the same name. Nothing else is touched, and
        no link is followed. blobs, on_lost: see `results`.
        """
        if tasks is None:
            tasks = self.results(where=where, below=below, raw=True)
        return reading.fetch_files(self._subtree, Path(to), tasks, blobs, on_lost)

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
        indexes.index(self._subtree, field, on_progress)

    def drop_index(self, field: str) -> bool:
        """Drop an index; return whether there was one. The keeper removes its rows."""
        return indexes.drop_index(self._subtree, field)

    def indexes(self) -> list[ResultIndex]:
        """Return the indexes of this campaign and of those below it, ordered by path."""
        return indexes.indexes(self._subtree)

    def tasks(
        self, status: str | None = None, *, where: str | None = None, below: bool = True
    ) -> Iterator[TaskView]:
        """Iterate over tasks in one status, or all, campaign by campaign and ordered by task.

        where: only those that match this filter.
        """
        return reading.tasks(self._subtree, status, where, below=below)

    def task(self, key: str) -> TaskView:
        """Return a task by its key; raise `NotFound` if there is none."""
        return self._subtree.task(key)

    def attempts(self, key: str) -> list[Attempt]:
        """Return the attempts of a task that have ended, in order; raise `NotFound`."""
        return reading.attempts(self._subtree, key)

    def history(self, key: str) -> list[Event]:
        """Return what happened to a task, in order, and its state now; raise `NotFound`."""
        return history(self.task(key), self.attempts(key))

    def logs(self, key: str) -> Iterator[OutputPart]:
        """Iterate over the output of a task as it is written, to its end; see `live_output`."""
        return reading.logs(self._subtree, key)

    def failures(self, *, below: bool = True) -> Iterator[Failure]:
        """Iterate over failed tasks, campaign by campaign and ordered by task, page by page."""
        return (Failure(**row) for row in self._subtree.pages("failures", below=below))

    def failure_classes(self, *, below: bool = True) -> dict[str, int]:
        """Return the number of failed and lost attempts by error class, most frequent first."""
        return reading.failure_classes(self._subtree, below=below)

    def failure_causes(self, limit: int = 20, *, below: bool = True) -> list[FailureCause]:
        """Return failed, lost and refused attempts grouped by cause, most frequent first.

        limit: most groups. Attempts of different campaigns are in different groups.
        """
        return reading.failure_causes(self._subtree, limit, below=below)

    def usual_run_s(self) -> float | None:
        """Return how many seconds an attempt takes on average; None if none was done or failed.

        Of the campaign alone, since others may take longer, and of 1,000 of the tasks that were
        claimed last. What still runs counts as well, so that the first to end do not make tasks
        seem short: the estimate of Kaplan and Meier, which is too small until agents have worked
        for as long as the longest attempt takes.
        """
        (row,) = self._subtree.database.rows("usual_run", campaign=self.campaign_id, most=1_000)
        mean_s: float | None = row["mean_s"]
        return mean_s

    def trend(self, within: timedelta | None = None) -> list[Point]:
        """Return how the campaign with all below it went: a point a minute, the oldest first.

        Points are farther apart with age, and none is older than a year. While a campaign does not
        move it gets none. within: only the points of this latest time.
        """
        return reading.trend(self._subtree, within)

    def pace(self, status: Status | None = None) -> CampaignPace | None:
        """Return the rate at which tasks end, over the last ten minutes, or longer if few do.

        The estimated end is not before the last delayed task is due. None if no task ended within a
        day, or no keeper has recorded it. status: the campaign's, if just read.
        """
        return reading.pace(self._subtree, self.status() if status is None else status)

    def explain(self, key: str | None = None, *, whole: bool = True) -> Explanation:
        """Explain why tasks of this campaign and those below do not run, or not faster.

        key: explain this task of the campaign instead; raise `NotFound`. Reads counters, sessions,
        a few rows and at most 10,000 of the latest attempts, however many tasks there are. The
        first reason is the one that blocks most tasks; broken parts follow, the most costly first.
        whole: also name others' campaigns that run on the same agents.
        """
        return reading.explain(self._subtree, key, whole=whole)

    def wait(self, timeout_s: float | None = None, *, below: bool = True) -> Status:
        """Wait until no task is unfinished; return the status.

        Raise `TimeoutError` after `timeout_s` seconds. A task that waits for an agent is
        unfinished, so somebody must run agents.
        """
        now = Campaign(exact(self._subtree.database), self.campaign_id, self.path)
        return reading.wait(self.path, partial(now.status, below=below), timeout_s)
