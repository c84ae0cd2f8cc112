"""Campaign handle of the submitters' API: seed, change, pause, cancel, retry, wait, read."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from taskq.blobs.catalogue import open_blobs
from taskq.blobs.large_results import Fetching
from taskq.blobs.store import BlobStore
from taskq.db.connections import Row
from taskq.errors import (
    Clash,
    Conflict,
    InvalidCampaign,
    KeyConflict,
    NotFound,
    ResultLost,
    UsageError,
)
from taskq.explain.reading import read_facts
from taskq.explain.reasons import Explanation
from taskq.explain.rules import explain_campaign
from taskq.explain.task_rules import explain_task
from taskq.history import Event, history
from taskq.ingest import seeding
from taskq.ingest.key_conflicts import OnConflict, check_choice, submit_conflict
from taskq.ingest.seeding import Conflicts, Seedable, SeedCount
from taskq.ingest.sources.records import BadLine
from taskq.spec.model import Seed
from taskq.spec.spec import CampaignSpec, Handler, RetryPolicy
from taskq.steering import verbs
from taskq.steering.campaign import MOVE_CHUNK, SteeredCampaign
from taskq.views import Attempt, Failure, FailureCause, Result, Status, TaskView
from taskq_agent.handlers.checks import check_handler
from taskq_agent.protocol import Input
from taskq_agent.text import is_unicode

PAGE: Final = 1_000
WAIT_S: Final = 0.5


class Campaign(SteeredCampaign):
    """A campaign of a queue, returned by `Client`. Every call reads the database; no caching."""

    def spec(self) -> CampaignSpec:
        """Return the campaign's settings; raise `NotFound` if it was removed."""
        row = self._row()
        retry = RetryPolicy(**{one.name: row[one.name] for one in fields(RetryPolicy)})
        handler = None if row["handler"] is None else Handler.from_json(row["handler"])
        own: dict[str, Any] = {"path": self.path, "handler": handler, "retry": retry}
        others = {one.name: row[one.name] for one in fields(CampaignSpec) if one.name not in own}
        return CampaignSpec(**own, **others)

    def change(self, spec: CampaignSpec) -> None:
        """Replace the campaign's settings by a spec; it applies to tasks claimed afterwards."""
        self._database.value("change_campaign", path=self.path, spec=spec_body(spec))

    def add_input(
        self, path: str | Path, name: str | None = None, *, blobs: BlobStore | None = None
    ) -> Input:
        """Store a file of at most 1 GiB and give it to all tasks of this campaign, by a name.

        docs/handlers.md describes how tasks find it; it applies to tasks claimed afterwards. An
        input of that name is replaced. Campaigns below do not inherit inputs.

        name: by default the file's own. blobs: where to store it; by default as `open_blobs` says.
        """
        path = Path(path)
        if name is None and not is_unicode(path.name):
            raise UsageError(f"{path.name!r} is not UTF-8: name it (--name), so that tasks can")
        store = open_blobs(self._database) if blobs is None else blobs
        digest, size = store.put(path)
        name = path.name if name is None else name
        self._database.value("add_input", path=self.path, input=name, digest=digest, size=size)
        return Input(digest, size)

    def inputs(self) -> dict[str, Input]:
        """Return the inputs of this campaign by name, sorted by name."""
        return {name: Input(**it) for name, it in sorted(self._row()["inputs"].items())}

    def remove_input(self, name: str) -> None:
        """Remove an input; working tasks keep it. Raise `NotFound` if there is none."""
        self._database.value("remove_input", path=self.path, input=name)

    def status(self) -> Status:
        """Return the exact counts of the campaign and all below it, read from counters."""
        return Status(**self._database.rows("counts", path=self.path, depth=0)[0])

    def closed_by(self) -> list[str]:
        """Return the paths of this campaign and those above it that are not open, from the top."""
        return [row["path"] for row in self._database.rows("closed_by", path=self.path)]

    def children(self) -> list[Status]:
        """Return the campaigns directly below, ordered by path; counts include those below."""
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

        A record is a `Seed`, or a mapping: the payload, with a key derived from it. Seeding is
        idempotent: a record that the campaign already has, key and payload, adds nothing, so an
        interrupted seeding can be repeated from the start. `on_progress` is called after each
        chunk of 10,000 records at most.

        on_conflict: what to do with a record whose key is stored with another payload. "fail":
        raise `KeyConflict`; nothing of its chunk is added, tasks of earlier chunks stay. "skip":
        skip it. "keep-both": add it under key#2, or key#3 and so on if those are taken; seeding it
        again finds it there. Payloads are equal if they are the same JSON, whatever the order of
        their names and the notation of their numbers and characters.
        on_clash: called for the first 100 that were skipped, or added under a numbered key.

        A bad record raises `InvalidTask`, or goes to `on_bad` if given; tasks of earlier chunks
        stay. Raise `Conflict` if the campaign is cancelled.
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
    ) -> bool:
        """Add one task in one round trip; return whether it was added. For many, `seed`.

        Durable when it returns. Raise `InvalidTask` if the task is not valid, `Conflict` if the
        campaign is cancelled. on_conflict: what to do if its key is stored with another payload,
        as in `seed`; by default raise `KeyConflict`.
        """
        check_choice(on_conflict)
        task = seeding.task_json(Seed(payload, key, priority).encoded())
        words = {"path": self.path, "tasks": f"[{task}]", "on_conflict": on_conflict}
        try:
            return bool(self._database.value("submit", **words))
        except KeyConflict as error:
            raise submit_conflict(error) from error

    def remove(self) -> int:
        """Delete the campaign, all below it and all their results; return the number of tasks.

        Unfinished tasks are cancelled first. Raise `Conflict` for the root, which always exists.
        """
        if self.path == "/":
            raise Conflict("the root campaign cannot be removed; name those below it")
        self.cancel()
        removed = 0
        for node in reversed(self.tree()):
            while gone := self._database.value(
                "remove_tasks", campaign=node.campaign_id, limit=MOVE_CHUNK
            ):
                removed += gone
            self._database.rows("remove_campaign", path=node.path)
        return removed

    def results(
        self,
        *,
        where: str | None = None,
        raw: bool = False,
        blobs: BlobStore | None = None,
        on_lost: Callable[[ResultLost], None] | None = None,
    ) -> Iterator[Result]:
        """Iterate over the accepted results of this campaign, ordered by task, page by page.

        where: only of tasks that match this filter.
        Large results are fetched one at a time; raw: return their references instead. blobs: the
        store of large results; by default as `open_blobs` says. on_lost: called for each that
        is missing or damaged, which then stays a reference; without it, raise that `ResultLost`.
        """
        fetching = Fetching(self._database, raw=raw, blobs=blobs, on_lost=on_lost)
        rows = (
            self._pages("results")
            if where is None
            else verbs.results(self._database, self.campaign_id, where)
        )
        return (Result(**fetching.of(row)) for row in rows)

    def failures(self) -> Iterator[Failure]:
        """Iterate over the failed tasks of this campaign, ordered by task, page by page."""
        return (Failure(**row) for row in self._pages("failures"))

    def tasks(self, status: str | None = None, *, where: str | None = None) -> Iterator[TaskView]:
        """Iterate over the tasks of this campaign in one status, or all, ordered by task.

        where: only those that match this filter.
        """
        if where is not None:
            return verbs.tasks(self._database, self.campaign_id, where, status)
        return (TaskView(**row) for row in self._pages("tasks", status=status))

    def failure_classes(self) -> dict[str, int]:
        """Return the number of failed and lost attempts by error class, most frequent first."""
        rows = self._database.rows("failure_classes", campaign=self.campaign_id)
        return {row["error_class"]: row["attempts"] for row in rows}

    def failure_causes(self, limit: int = 20) -> list[FailureCause]:
        """Return groups of failed, lost and refused attempts by cause, most frequent first."""
        rows = self._database.rows("failure_causes", campaign=self.campaign_id, limit=limit)
        return [FailureCause(**row) for row in rows]

    def usual_run_s(self) -> float | None:
        """Return the mean seconds from claim to report of recent attempts; None: none has ended.

        Takes 1,000 attempts, those of the tasks seeded last among tasks with an attempt, and of
        these the ones that were done or failed.
        """
        (row,) = self._database.rows("usual_run", campaign=self.campaign_id, most=1_000)
        mean_s: float | None = row["mean_s"]
        return mean_s

    def task(self, key: str) -> TaskView:
        """Return a task by its key; raise `NotFound`."""
        (task,) = self._task_ids([key])
        rows = self._database.rows(
            "tasks", campaign=self.campaign_id, status=None, after=task - 1, limit=1
        )
        return TaskView(**rows[0])

    def attempts(self, key: str) -> list[Attempt]:
        """Return the attempts of a task that have ended, in order; raise `NotFound`."""
        (task,) = self._task_ids([key])
        rows = self._database.rows("attempts", campaign=self.campaign_id, task=task)
        return [Attempt(**row) for row in rows]

    def history(self, key: str) -> list[Event]:
        """Return what happened to a task, in order, and how it stands now; raise `NotFound`."""
        return history(self.task(key), self.attempts(key))

    def explain(self, key: str | None = None) -> Explanation:
        """Explain why tasks of this campaign and those below do not run, or not faster.

        key: explain this task of the campaign instead; raise `NotFound`. Reads counters, sessions
        and a few rows, however many tasks there are; what blocks most tasks is the first reason.
        """
        facts = read_facts(self._database, self.path)
        if key is None:
            return explain_campaign(facts)
        max_attempts = self.spec().retry.max_attempts
        return explain_task(self.task(key), self.attempts(key), max_attempts, facts)

    def wait(self, timeout_s: float | None = None) -> Status:
        """Wait until no task of this campaign or those below is unfinished; return the status.

        After `timeout_s` seconds raise `TimeoutError`. A task that waits for an agent is
        unfinished, so somebody must run agents.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while (status := self.status()).unfinished:
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(
                    f"{self.path} still has {status.unfinished} unfinished tasks after "
                    f"{timeout_s:g} s"
                )
            time.sleep(WAIT_S)
        return status

    def _row(self) -> Row:
        row = self._database.row("campaign", path=self.path)
        if row is None:
            raise NotFound(f"no campaign {self.path}")
        return row

    def _pages(self, name: str, **values: object) -> Iterator[Row]:
        after = 0
        while rows := self._database.rows(
            name, campaign=self.campaign_id, after=after, limit=PAGE, **values
        ):
            yield from rows
            after = rows[-1]["task_id"]


def spec_body(spec: CampaignSpec) -> str:
    """Return a spec as the JSON text that the server-side functions take.

    Raise `InvalidCampaign` if no task could be run by its handler with its parameters.
    """
    if spec.handler is not None:
        try:
            check_handler(spec.handler.to_json(), spec.params)
        except ValueError as error:
            raise InvalidCampaign(str(error)) from None
    body = spec.to_json()
    del body["path"]
    flat = body.pop("retry") | body.pop("limits")
    return json.dumps(body | flat)
