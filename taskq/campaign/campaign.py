"""Handle of a campaign in the submitters' API: seed, change, pause, cancel, retry, wait, read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from taskq.campaign import indexes, inputs, reading, recipes, verbs
from taskq.campaign.bulk import Choice, OnBulk
from taskq.campaign.indexes import ResultIndex
from taskq.campaign.priorities import Extreme, Prioritised, checked, prioritise
from taskq.campaign.subtree import Subtree
from taskq.db.access import Queries
from taskq.db.standby import exact
from taskq.diagnosis.campaign_tree import read_tree
from taskq.diagnosis.forecast import Forecast
from taskq.diagnosis.history import Event, history
from taskq.diagnosis.trend import Point
from taskq.files.blob_store import BlobStore
from taskq.files.large_results import Fetching
from taskq.files.live_output import OutputPart, output_of
from taskq.ingest.key_conflicts import OnConflict
from taskq.ingest.seeding import Conflicts, Seedable, SeedCount
from taskq.ingest.sources.records import BadLine
from taskq.model.campaign_spec import CampaignSpec
from taskq.model.errors import Clash, ResultLost
from taskq.model.recipes import Recipe, RecipeChange
from taskq.model.removed import RetentionDate
from taskq.model.seed import Seed
from taskq.model.views import Attempt, Failure, FailureCause, Hedges, Result, Status, TaskView
from taskq.results.cursor import Cursor
from taskq_agent.protocol import Input

if TYPE_CHECKING:  # what few commands need is imported when it is used
    from taskq.diagnosis.reasons import Explanation
    from taskq.files.fetching import Fetched


class Campaign:
    """A campaign of a queue, returned by `Client`. Each call reads the database; nothing is cached.

    It stands for itself and all campaigns below it, unless `below=False`; a key names a task of
    the campaign itself.
    """

    def __init__(self, database: Queries, campaign_id: int, path: str) -> None:
        self._subtree = Subtree(database, campaign_id, path)
        self.campaign_id: Final = campaign_id
        self.path: Final = path

    def __repr__(self) -> str:
        return f"<Campaign {self.path}>"

    def spec(self) -> CampaignSpec:
        """Return the campaign's settings.

        Raises:
            NotFound: It was removed.
        """
        return CampaignSpec.from_settings(self.path, self._subtree.row()["settings"])

    def learnt_memory(self) -> tuple[int, ...]:
        """Return the bytes that `memory = "learn"` gives, growing; empty if none are known."""
        return tuple(self._subtree.row()["learnt_memory"] or ())

    def change(self, spec: CampaignSpec, *, inputs: Mapping[str, Input] | None = None) -> None:
        """Replace settings, for tasks claimed afterwards; and all inputs, if some are given.

        With a shorter backoff, delayed tasks come due earlier too.
        """
        verbs.change(self._subtree, spec, inputs)

    def changes(self) -> list[RecipeChange]:
        """Return the changes of handler, parameters and inputs, by which results are computed."""
        return recipes.changes(self._subtree)

    def recipe(self, number: int | None = None) -> Recipe:
        """Return handler, parameters and inputs, now or in a recipe.

        Raises:
            NotFound: There is no recipe of this number.
        """
        return recipes.recipe(self._subtree, number)

    def add_input(
        self, path: str | Path, name: str | None = None, *, blobs: BlobStore | None = None
    ) -> Input:
        """Store a file of at most 1 GiB and give it to all tasks of this campaign, by a name.

        The name is the file's own by default. Tasks claimed afterwards get it; docs/handlers.md
        describes how they find it. It replaces an input of the same name. Campaigns below do not
        inherit inputs. It goes to the store of `open_blobs` by default.
        """
        return inputs.add(self._subtree, Path(path), name, blobs)

    def inputs(self) -> dict[str, Input]:
        """Return the inputs of this campaign by name, sorted by name."""
        return {name: Input(**it) for name, it in sorted(self._subtree.row()["inputs"].items())}

    def fetch_input(
        self,
        name: str,
        to: str | Path,
        *,
        recipe: int | None = None,
        blobs: BlobStore | None = None,
    ) -> Input:
        """Write an input to the file `to`, as it is now or as it was in a recipe.

        The file appears when it is complete and verified, and replaces one of that name. It comes
        from the store of `open_blobs` by default.

        Raises:
            NotFound: There is no such recipe or input.
            ResultLost: Its content is damaged, or gone: replaced content stays stored with the
                setting `keep_inputs` only.
        """
        return inputs.fetch(self._subtree, name, Path(to), recipe, blobs)

    def remove_input(self, name: str) -> None:
        """Remove an input; tasks at work keep it.

        Raises:
            NotFound: There is no such input.
        """
        self._subtree.database.value("remove_input", path=self.path, name=name)

    def status(self, *, below: bool = True) -> Status:
        """Return the exact counts of the campaign and all below it, read from counters."""
        if not below:
            return self._subtree.own()
        (row,) = self._subtree.database.rows("counts", path=self.path, depth=0)
        return Status(**row)

    def retention(self) -> RetentionDate | None:
        """Return when the keeper will remove the campaign, or one above it; None: not known."""
        row = self._subtree.database.row("retention", path=self.path)
        return None if row is None else RetentionDate(**row)

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
        return [
            Campaign(database, status.campaign_id, status.path) for status in self.child_statuses()
        ]

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

        Seeding is idempotent: a record whose key and payload the campaign already has adds nothing,
        so an interrupted seeding can be repeated from the start. Tasks are added in chunks of
        10,000 at most; after an error, tasks of earlier chunks stay, and the chunk adds nothing. A
        `UserWarning` after the first chunk says if the arguments of the campaign's program name a
        field of the payload that no task has, as far as some of them show.

        Args:
            records: Each is a `Seed`, or a mapping: the payload, from which the key is derived.
            on_conflict: What to do with a record whose key is stored with another payload: "fail"
                raises; "skip" skips it; "keep-both" adds it under key#2, or key#3 and so on if
                those are taken, where seeding it again finds it. Payloads are equal if they are the
                same JSON, whatever the order of names and the notation of numbers and characters.
            on_clash: Called for the first 100 records skipped, or added under a numbered key.
            on_bad: Called for each bad record, which is skipped.
            on_progress: Called after each chunk.

        Raises:
            InvalidTask: A record is bad, without `on_bad`.
            KeyConflict: See `on_conflict`.
            Conflict: The campaign is cancelled, or the quota of its owner has no room.
        """
        return verbs.seed(
            self._subtree,
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
        """Add one task, unless it is there. For many, use `seed`.

        Args:
            payload: What the handler gets.
            key: By default derived from the payload, so that the same payload is the same task.
            priority: Agents get higher ones first.
            on_conflict: See `seed`, which raises the same.

        Returns:
            The task's key; the task is durable then.
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
        """Cancel tasks that are not final. Agents stop running ones at their next heartbeat.

        Without `keys` and `where`, the campaign and all below it are cancelled, and accept no seeds
        until resumed; with `below=False` only the tasks of this campaign are, and the campaign
        stays as it is.

        Args:
            keys: Only these tasks of this campaign.
            where: Only tasks that match this filter.
            below: Include the campaigns below.
            dry_run: Change nothing.
            on_progress: With `where`, called after each chunk of 1,000 tasks looked at.

        Returns:
            How many tasks were cancelled, or would be.
        """
        return verbs.cancel(self._subtree, Choice(keys, where, below, dry_run, on_progress))

    def retry(
        self,
        *,
        status: str | None = None,
        error_class: str | None = None,
        keys: Iterable[str] | None = None,
        where: str | None = None,
        below: bool = True,
        dry_run: bool = False,
        on_progress: OnBulk | None = None,
    ) -> int:
        """Retry failed, cancelled, delayed or done tasks. Skips campaigns below that are cancelled.

        Args:
            status: "failed", "cancelled", "delayed", or "done", which withdraws the results; None:
                the only one that `where` allows, else "failed".
            error_class: Only tasks whose last attempt ended with it. The rest is as in `cancel`.

        Returns how many tasks wait again, or would. Raises `Conflict` if it is cancelled.
        """
        chosen = Choice(keys, where, below, dry_run, on_progress)
        return verbs.retry(self._subtree, chosen, status, error_class)

    def prioritise(
        self,
        priorities: Mapping[str, float] | Iterable[tuple[str, float]],
        *,
        best: Extreme | None = None,
        on_progress: Callable[[Prioritised], None] | None = None,
    ) -> Prioritised:
        """Change the priorities of waiting and delayed tasks of this campaign, by their keys.

        Tasks that run or are final, and keys of no task, are only counted. Changes commit in chunks
        of 1,000 tasks at most. A task keeps its priority when it fails and is tried again.

        Args:
            priorities: Whole numbers by key, as a mapping, a pandas Series with keys as its index,
                or pairs.
            best: With "highest" or "lowest", values are any numbers, such as scores, and become
                priorities from 1,000 down to 1 by their rank.
            on_progress: Called after each chunk.
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
        """Change the priority of waiting and delayed tasks; the other arguments are as in `cancel`.

        Returns:
            How many had another priority; with `dry_run` how many match.
        """
        chosen = Choice(None, where, below, dry_run, on_progress)
        return verbs.set_priority(self._subtree, chosen, priority)

    def remove(self, on_progress: Callable[[int, int], None] = lambda _, __: None) -> int:
        """Delete the campaign, all below it and all their results. Unfinished tasks are cancelled.

        Args:
            on_progress: Called after each chunk with the number of tasks deleted so far, and of
                all.

        Returns:
            The number of tasks.

        Raises:
            Conflict: It is the root, which always exists.
        """
        return verbs.remove(self._subtree, on_progress)

    def results(
        self,
        *,
        where: str | None = None,
        since: Cursor | datetime | None = None,
        below: bool = True,
        raw: bool = False,
        blobs: BlobStore | None = None,
        on_lost: Callable[[ResultLost], None] | None = None,
    ) -> Iterator[Result]:
        """Iterate over accepted results, campaign by campaign and ordered by task, page by page.

        Args:
            where: Only of tasks that match this filter.
            since: Only results that this cursor does not have; the cursor takes in each result when
                the next one is requested, or the iteration ends. Or a time: only later results.
            below: Include the campaigns below.
            raw: Return references to large results, which are otherwise fetched one at a time.
            blobs: The store of large results; by default see `open_blobs`.
            on_lost: Called for each large result that is missing or damaged, which then stays a
                reference.

        Raises:
            ResultLost: A large result is missing or damaged, without `on_lost`.
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

        Results arrive within a second if a look finds some thousand, and within ten times their
        reading time if there are very many. The other arguments are those of `results`.

        Args:
            since: By default from the first result on.
            on_page: Called whenever all results so far are taken in, at least twice a second
                between looks.
        """
        fetching = Fetching(self._subtree.database, raw=raw, blobs=blobs, on_lost=on_lost)
        return reading.follow(self._subtree, since, below=below, fetching=fetching, on_page=on_page)

    def files(self, key: str) -> dict[str, bytes]:
        """Return the output files of a task, by name.

        Raises:
            NotFound: It has no result.
        """
        from taskq.files.archives import Outputs  # noqa: PLC0415

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

        Repeatable: each file appears when it is complete, and replaces one of the same name.
        Nothing else is touched, and no link is followed. `blobs` and `on_lost` are as in `results`.

        Args:
            to: The folder; it is created.
            tasks: Results, such as from `Client.best`, or keys of tasks of this campaign that are
                done; by default all results.
            where: Only of tasks that match this filter, without `tasks`.
        """
        if tasks is None:
            tasks = self.results(where=where, below=below, raw=True)
        return reading.fetch_files(self._subtree, Path(to), tasks, blobs, on_lost)

    def index(
        self, field: str, *, on_progress: Callable[[int, int], object] = lambda _seen, _done: None
    ) -> None:
        """Index results by a number; return when it has all that are done.

        Idempotent: repeat a call that was interrupted; the keeper goes on without it. From then on
        the best by this field are found at once, whenever the keeper has taken in all results.
        Reports cost no more than before.

        Args:
            field: Name of the number, such as `result.score`.
            on_progress: Called after each step with how many results the index has, and how many
                there are.

        Raises:
            Conflict: The database has 16 indexes already.
        """
        indexes.index(self._subtree, field, on_progress)

    def drop_index(self, field: str) -> bool:
        """Drop an index; return whether there was one. The keeper removes its rows."""
        return indexes.drop_index(self._subtree, field)

    def indexes(self) -> list[ResultIndex]:
        """Return the indexes of this campaign and of those below it, ordered by path."""
        return indexes.indexes(self._subtree)

    def tasks(
        self,
        status: str | None = None,
        *,
        keys: Iterable[str] | None = None,
        where: str | None = None,
        below: bool = True,
    ) -> Iterator[TaskView]:
        """Iterate over tasks in order, all or those chosen; keys are of this campaign itself."""
        return reading.tasks(self._subtree, status, Choice(keys, where, below))

    def task(self, key: str) -> TaskView:
        """Return a task by its key.

        Raises:
            NotFound: There is none; `attempts` and `history` raise the same.
        """
        return self._subtree.task(key)

    def attempts(self, key: str) -> list[Attempt]:
        """Return the attempts of a task that have ended, in order."""
        return self._subtree.attempts(key)

    def history(self, key: str) -> list[Event]:
        """Return what happened to a task, in order, and its state now."""
        return history(self.task(key), self.attempts(key))

    def logs(self, key: str) -> Iterator[OutputPart]:
        """Iterate over the output of a task as it is written, to its end; see `live_output`."""
        (task,) = self._subtree.task_ids([key])
        return output_of(exact(self._subtree.database), self.campaign_id, task)

    def failures(self, *, below: bool = True) -> Iterator[Failure]:
        """Iterate over failed tasks, campaign by campaign and ordered by task, page by page."""
        failing = self._subtree.failing(below=below)
        return (Failure(**row) for row in self._subtree.pages_of("failures", failing))

    def failure_classes(self, *, below: bool = True) -> dict[str, int]:
        """Return the number of failed and lost attempts by error class, most frequent first."""
        return reading.failure_classes(self._subtree, below=below)

    def failure_causes(self, limit: int = 20, *, below: bool = True) -> list[FailureCause]:
        """Return failed, lost and refused attempts grouped by cause, most frequent first.

        Attempts of different campaigns are in different groups, of which there are `limit` at most.
        """
        return reading.failure_causes(self._subtree, limit, below=below)

    def usual_run_s(self) -> float | None:
        """Return how many seconds an attempt takes on average; None if none was done or failed.

        Counts 1,000 of the tasks claimed last, and of the campaign alone, since others may take
        longer. What still runs counts as well, so that the first to end do not make tasks
        seem short: the estimate of Kaplan and Meier, which is too small until agents have worked
        for as long as the longest attempt takes. Where many tasks have one start, it is the mean
        of their shares.
        """
        (row,) = self._subtree.database.rows("usual_run", campaign=self.campaign_id, most=1_000)
        mean_s: float | None = row["mean_s"]
        return mean_s

    def trend(self, within: timedelta | None = None) -> list[Point]:
        """Return how the campaign with all below it went: a point a minute, the oldest first.

        Points are farther apart with age, and none is older than a year. While a campaign does not
        move it gets none. With `within`, only the points of this latest time.
        """
        minutes = None if within is None else within // timedelta(minutes=1)
        rows = self._subtree.database.rows("trend", campaign=self.campaign_id, minutes=minutes)
        return [Point(**row) for row in rows]

    def forecast(self) -> Forecast:
        """Return when the tasks here and below end, and which of them do not.

        Returns:
            The rate is that of the time in which at least 100 tasks ended, ten minutes or longer,
            without times in which nothing ran; while few have ended, it is estimated from the run
            times of attempts. No end is known while the campaign is paused, is being seeded, or
            nothing runs.
        """
        return read_tree(self._subtree.database, self.path).nodes[self.path].forecast

    def explain(self, key: str | None = None, *, whole: bool = True) -> Explanation:
        """Explain why tasks of this campaign and those below do not run, or not faster.

        Reads counters, sessions, a few rows and at most 10,000 of the latest attempts, however many
        tasks there are. The first reason is the one that blocks most tasks; broken parts follow,
        the most costly first.

        Args:
            key: Explain this task of the campaign instead.
            whole: Also name others' campaigns that run on the same agents.

        Raises:
            NotFound: There is no task with this key.
        """
        return reading.explain(self._subtree, key, whole=whole)

    def wait(self, timeout_s: float | None = None, *, below: bool = True) -> Status:
        """Wait until no task is unfinished; return the status.

        A task that waits for an agent is unfinished, so somebody must run agents.

        Args:
            timeout_s: Seconds to wait at most; None for ever.
            below: Wait for the campaigns below as well.

        Raises:
            TimeoutError: Tasks are unfinished after this time.
        """
        now = Campaign(exact(self._subtree.database), self.campaign_id, self.path)
        return reading.wait(self.path, partial(now.status, below=below), timeout_s)
