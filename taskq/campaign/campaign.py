"""Handle of a campaign in the submitters' API: seed, change, pause, cancel, retry, wait, read.

All methods follow one rule: a campaign stands for itself and all campaigns below it, unless
`below=False`; a key names a task of the campaign itself.
"""

from __future__ import annotations

import heapq
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from taskq.campaign import verbs
from taskq.campaign.indexed import IndexedCampaign
from taskq.db.paging import MOVE_CHUNK
from taskq.db.standby import exact
from taskq.db.stored_spec import spec_body
from taskq.diagnosis.due import last_due_s
from taskq.diagnosis.fact_reading import read_facts
from taskq.diagnosis.history import Event, history
from taskq.diagnosis.reasons import Explanation
from taskq.diagnosis.rules import explain_campaign
from taskq.diagnosis.task_rules import explain_task
from taskq.diagnosis.trend import CampaignPace, Point, recent_pace
from taskq.files.archives import Outputs
from taskq.files.blob_store import BlobStore
from taskq.files.blobs import open_blobs
from taskq.files.fetching import Fetched, fetch
from taskq.files.live_output import OutputPart, output_of
from taskq.ingest import seeding
from taskq.ingest.key_conflicts import OnConflict, check_choice, comparable, submit_conflict
from taskq.ingest.seeding import Conflicts, Seedable, SeedCount
from taskq.ingest.sources.records import BadLine
from taskq.model.campaign_spec import CampaignSpec
from taskq.model.errors import (
    Clash,
    Conflict,
    KeyConflict,
    NotFound,
    ResultLost,
    UsageError,
)
from taskq.model.pauses import sleep
from taskq.model.seed import Seed
from taskq.model.views import (
    Attempt,
    Failure,
    FailureCause,
    Hedges,
    Result,
    SecondAttempt,
    Status,
    TaskView,
)
from taskq_agent.protocol import Input
from taskq_agent.text import is_unicode

WAIT_S: Final = 0.5
HEDGES: Final = 10


class Campaign(IndexedCampaign):
    """A campaign of a queue, returned by `Client`. Every call reads the database; no caching.

    It stands for itself and all campaigns below it, unless `below=False`; a key names a task of
    the campaign itself.
    """

    def spec(self) -> CampaignSpec:
        """Return the campaign's settings; raise `NotFound` if it was removed."""
        return CampaignSpec.from_settings(self.path, self._row()["settings"])

    def change(self, spec: CampaignSpec, *, inputs: Mapping[str, Input] | None = None) -> None:
        """Replace settings, for tasks claimed afterwards; inputs: replace all of them, if given."""
        self._database.value("change_campaign", path=self.path, spec=spec_body(spec, inputs))

    def add_input(
        self, path: str | Path, name: str | None = None, *, blobs: BlobStore | None = None
    ) -> Input:
        """Store a file of at most 1 GiB and give it to all tasks of this campaign, by a name.

        Tasks claimed afterwards get it; docs/handlers.md describes how they find it. It replaces an
        input of the same name. Campaigns below do not inherit inputs.

        name: by default the file's own. blobs: where to store it; by default see `open_blobs`.
        """
        path = Path(path)
        if name is None and not is_unicode(path.name):
            raise UsageError(f"{path.name!r} is not UTF-8: name it (--name), so that tasks can")
        store = open_blobs(self._database) if blobs is None else blobs
        digest, size = store.put(path)
        name = path.name if name is None else name
        self._database.value("add_input", path=self.path, name=name, digest=digest, size=size)
        return Input(digest, size)

    def inputs(self) -> dict[str, Input]:
        """Return the inputs of this campaign by name, sorted by name."""
        return {name: Input(**it) for name, it in sorted(self._row()["inputs"].items())}

    def remove_input(self, name: str) -> None:
        """Remove an input; tasks at work keep it. Raise `NotFound` if there is no such input."""
        self._database.value("remove_input", path=self.path, name=name)

    def status(self, *, below: bool = True) -> Status:
        """Return the exact counts of the campaign and all below it, read from counters."""
        status = Status(**self._database.rows("counts", path=self.path, depth=0)[0])
        return status if below or not status.children else self.tree()[0]

    def hedges(self, *, below: bool = True) -> Hedges:
        """Return counts of second attempts, and those at work."""
        (row,) = self._database.rows("hedges", path=self.path, below=below, most=HEDGES)
        longest = [SecondAttempt(**one) for one in row.pop("longest")]
        return Hedges(**row, longest=longest)

    def closed_by(self) -> list[str]:
        """Return the paths of this campaign and those above it that are not open, from the top."""
        return [row["path"] for row in self._database.rows("closed_by", path=self.path)]

    def children(self) -> list[Campaign]:
        """Return the campaigns directly below, ordered by path."""
        return [
            Campaign(self._database, one.campaign_id, one.path) for one in self.child_statuses()
        ]

    def child_statuses(self) -> list[Status]:
        """Return counts of each campaign directly below, with all below that, by path."""
        return [Status(**row) for row in self._database.rows("counts", path=self.path, depth=1)]

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
            self._database,
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
        seed = Seed(payload, key, priority)
        self.add(seed, on_conflict=on_conflict)
        stored, text, _ = seed.encoded()
        if on_conflict != "keep-both":
            return stored
        wanted = comparable(text)  # stored under the first key that has no other payload
        names = (stored if number == 1 else f"{stored}#{number}" for number in count(1))
        stored_as = ((name, json.dumps(self.task(name).payload)) for name in names)
        return next(name for name, its in stored_as if comparable(its) == wanted)

    def add(self, seed: Seed, *, on_conflict: OnConflict = "fail") -> bool:
        """Add one task in one round trip; return whether it was added; see `submit`."""
        check_choice(on_conflict)
        task = seeding.task_json(seed.encoded())
        words = {"path": self.path, "tasks": f"[{task}]", "on_conflict": on_conflict}
        try:
            return bool(self._database.value("submit", **words))
        except KeyConflict as error:
            raise submit_conflict(error) from error

    def remove(self, on_progress: Callable[[int, int], None] = lambda _, __: None) -> int:
        """Delete the campaign, all below it and all their results; return the number of tasks.

        Unfinished tasks are cancelled first. on_progress: called after each chunk with the number
        of tasks deleted so far, and of all. Raise `Conflict` for the root, which always exists.
        """
        if self.path == "/":
            raise Conflict("the root campaign cannot be removed; name those below it")
        self.cancel()
        nodes, removed = self.tree(), 0
        of = sum(node.total for node in nodes)
        for node in reversed(nodes):
            while gone := self._database.value(
                "remove_tasks", campaign=node.campaign_id, limit=MOVE_CHUNK
            ):
                removed += gone
                on_progress(removed, max(of, removed))
            self._database.rows("remove_campaign", path=node.path)
        return removed

    def files(self, key: str) -> dict[str, bytes]:
        """Return the output files of a task, by name; raise `NotFound` if it has no result."""
        (result,) = self._results_of([key])
        return Outputs(self._database).files(self.campaign_id, result.task_id)

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
            found = self.results(where=where, below=below, raw=True)
        else:
            found = (
                one if isinstance(one, Result) else self._results_of([one])[0] for one in tasks
            )
        campaigns = {self.path: self.campaign_id}
        campaigns |= {path: campaign for campaign, path in self._nodes(below=True)}
        outputs = Outputs(self._database, blobs)
        return fetch(outputs, campaigns, found, Path(to), on_lost=on_lost)

    def failures(self, *, below: bool = True) -> Iterator[Failure]:
        """Iterate over failed tasks, campaign by campaign and ordered by task, page by page."""
        return (Failure(**row) for row in self._pages("failures", below=below))

    def tasks(
        self, status: str | None = None, *, where: str | None = None, below: bool = True
    ) -> Iterator[TaskView]:
        """Iterate over tasks in one status, or all, campaign by campaign and ordered by task.

        where: only those that match this filter.
        """
        if where is not None:
            return verbs.tasks(self._database, self._nodes(below=below), where, status)
        rows = self._pages("tasks", below=below, status=status)
        return (TaskView(**row) for row in rows)

    def failure_classes(self, *, below: bool = True) -> dict[str, int]:
        """Return the number of failed and lost attempts by error class, most frequent first."""
        found: Counter[str] = Counter()
        for campaign, _ in self._nodes(below=below):
            for row in self._database.rows("failure_classes", campaign=campaign):
                found[row["error_class"]] += row["attempts"]
        return dict(found.most_common())

    def failure_causes(self, limit: int = 20, *, below: bool = True) -> list[FailureCause]:
        """Return failed, lost and refused attempts grouped by cause, most frequent first.

        limit: most groups. Attempts of different campaigns are in different groups.
        """
        causes = (
            FailureCause(campaign=path, **row)
            for campaign, path in self._nodes(below=below)
            for row in self._database.rows("failure_causes", campaign=campaign, limit=limit)
        )
        return heapq.nlargest(limit, causes, key=attrgetter("attempts"))

    def usual_run_s(self) -> float | None:
        """Return the mean seconds from claim to report of recent attempts; None if none has ended.

        The mean is over the campaign alone, since others may take longer. It takes the 1,000 last
        seeded tasks with an attempt, and of their attempts those that were done or failed.
        """
        (row,) = self._database.rows("usual_run", campaign=self.campaign_id, most=1_000)
        mean_s: float | None = row["mean_s"]
        return mean_s

    def trend(self, within: timedelta | None = None) -> list[Point]:
        """Return how the campaign with all below it went: a point a minute, the oldest first.

        Points are farther apart with age, and none is older than a year. While a campaign does not
        move it gets none. within: only the points of this latest time.
        """
        minutes = None if within is None else within // timedelta(minutes=1)
        rows = self._database.rows("trend", campaign=self.campaign_id, minutes=minutes)
        return [Point(**row) for row in rows]

    def pace(self, status: Status | None = None) -> CampaignPace | None:
        """Return the rate at which tasks end, over the last ten minutes, or longer if few do.

        The estimated end is not before the last delayed task is due. None if no task ended within a
        day, or no keeper has recorded it. status: the campaign's, if just read.
        """
        now = self.status() if status is None else status
        trend = self.trend(timedelta(days=2))
        found = recent_pace(trend, now.done + now.failed, now.unfinished)
        return found and found.not_before(last_due_s(self._database, now))

    def task(self, key: str) -> TaskView:
        """Return a task by its key; raise `NotFound` if there is none."""
        (task,) = self._task_ids([key])
        rows = self._database.rows(
            "tasks", campaign=self.campaign_id, status=None, after=task - 1, limit=1
        )
        return TaskView(campaign=self.path, **rows[0])

    def attempts(self, key: str) -> list[Attempt]:
        """Return the attempts of a task that have ended, in order; raise `NotFound`."""
        (task,) = self._task_ids([key])
        rows = self._database.rows("attempts", campaign=self.campaign_id, task=task)
        return [Attempt(**row) for row in rows]

    def history(self, key: str) -> list[Event]:
        """Return what happened to a task, in order, and its state now; raise `NotFound`."""
        return history(self.task(key), self.attempts(key))

    def logs(self, key: str) -> Iterator[OutputPart]:
        """Iterate over the output of a task as it is written, to its end; see `live_output`."""
        (task,) = self._task_ids([key])
        return output_of(exact(self._database), self.campaign_id, task)

    def explain(self, key: str | None = None, *, whole: bool = True) -> Explanation:
        """Explain why tasks of this campaign and those below do not run, or not faster.

        key: explain this task of the campaign instead; raise `NotFound`. Reads counters, sessions,
        a few rows and at most 10,000 of the latest attempts, however many tasks there are. The
        first reason is the one that blocks most tasks; broken parts follow, the most costly first.
        whole: also name others' campaigns that run on the same agents.
        """
        if key is None:
            return explain_campaign(read_facts(self._database, self.path, whole=whole))
        task = self.task(key)
        looks = task.status == "failed"
        facts = read_facts(self._database, self.path, looks=looks, whole=whole)
        return explain_task(task, self.attempts(key), self.spec().retry, facts)

    def wait(self, timeout_s: float | None = None, *, below: bool = True) -> Status:
        """Wait until no task is unfinished; return the status.

        Raise `TimeoutError` after `timeout_s` seconds. A task that waits for an agent is
        unfinished, so somebody must run agents.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        now = Campaign(exact(self._database), self.campaign_id, self.path)
        while (status := now.status(below=below)).unfinished:
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(
                    f"{self.path} still has {status.unfinished} unfinished tasks after "
                    f"{timeout_s:g} s"
                )
            sleep(WAIT_S)
        return status

    def _results_of(self, keys: list[str]) -> list[Result]:
        tasks = self._task_ids(keys)
        rows = self._database.rows("results_of", campaign=self.campaign_id, tasks=tasks)
        if len(rows) < len(keys):
            missing = next(key for key in keys if key not in {row["key"] for row in rows})
            raise NotFound(f"task {missing!r} of {self.path} has no result")
        return [Result(campaign=self.path, **row) for row in rows]
