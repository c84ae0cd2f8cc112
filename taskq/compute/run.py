"""A run: calls of a function requested together, their outcomes, the best as the next stage."""

from __future__ import annotations

import warnings
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from taskq.campaign.campaign import Campaign
from taskq.compute import frames, progress, waiting
from taskq.compute.outcomes import Outcome, OutcomeReader
from taskq.compute.tracker import LARGEST_PAGE, EndedCall, Tracker
from taskq.compute.unpickling import ResultReader
from taskq.db.access import Queries, in_chunks
from taskq.db.address import Row
from taskq.files.large_results import Fetching
from taskq.model.errors import ResultLost, ResultNotTrusted, TaskqError, UsageError
from taskq.model.seed import Seed
from taskq.model.views import Failure, Result, Status
from taskq.results.feeder import Feeder
from taskq.results.ranking import Best
from taskq.results.selection import select

if TYPE_CHECKING:
    from taskq.compute.local_agents import LocalAgents


class Run:
    """The calls of `Client.map`, in the order of their arguments.

    Everything is in the database: a restarted program or cell gets the same run by making the same
    call, and nothing that is done is computed twice. Iterating, like `results`, gives the values.
    All methods that wait show their progress in a terminal or notebook, unless `progress=False`,
    and may be interrupted without harm to the tasks.
    """

    def __init__(
        self,
        database: Queries,
        campaign: Campaign,
        name: str,
        tasks: array[int],
        *,
        read: ResultReader,
        agents: list[LocalAgents],
    ) -> None:
        self.campaign: Final = campaign
        self.name: Final = name
        self._database = database
        self._tasks = tasks
        self._read = read
        self._agents = agents
        self._reader = OutcomeReader(database, campaign.campaign_id, read)
        self._fetching = Fetching(database)

    @property
    def path(self) -> str:
        """The campaign's path."""
        return self.campaign.path

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[Any]:
        return self.results()

    def results(
        self, timeout: float | None = None, *, progress: bool | None = None
    ) -> Iterator[Any]:
        """Iterate over the values in the order of the arguments, waiting for each.

        Raise the very exception of the function, with the traceback from its node as its cause;
        `TaskFailed` if the task failed otherwise, `CancelledError` if it was cancelled. `outcomes`
        goes on in such cases. Raise `TimeoutError` after `timeout` seconds in all.
        """
        return (one.value for one in self.outcomes(timeout, progress=progress))

    def result(self, timeout: float | None = None, *, progress: bool | None = None) -> list[Any]:
        """Return all values in a list; see `results`."""
        return list(self.results(timeout, progress=progress))

    def outcomes(
        self, timeout: float | None = None, *, progress: bool | None = None
    ) -> Iterator[Outcome]:
        """Iterate over values and exceptions in the order of the arguments, waiting for each."""
        deadline = waiting.Deadline(timeout)
        with self._display(progress) as shown:
            for start in range(0, len(self._tasks), LARGEST_PAGE):
                page = self._tasks[start : start + LARGEST_PAGE]
                tracker = self._tracker(page)
                came: dict[int, EndedCall] = {}
                at = 0
                for found in waiting.ended(self._database, tracker, deadline, shown, self._agents):
                    came.update((one.task, one) for one in found)
                    while at < len(page) and page[at] in came:
                        yield self._outcome(start + at, came[page[at]])
                        at += 1

    def as_completed(
        self, timeout: float | None = None, *, progress: bool | None = None
    ) -> Iterator[Outcome]:
        """Iterate over values and exceptions as they come, each once.

        An exception does not end the iteration: its outcome has an `error`, and `value` raises it.
        """
        deadline, tracker = waiting.Deadline(timeout), self._tracker(self._tasks)
        with self._display(progress) as shown:
            for found in waiting.ended(self._database, tracker, deadline, shown, self._agents):
                for one in found:
                    for index in self._places(one.task):
                        yield self._outcome(index, one)

    def wait(self, timeout: float | None = None, *, progress: bool | None = None) -> Status:
        """Wait until all calls have ended; return the counts. Raise `TimeoutError` when due."""
        deadline, tracker = waiting.Deadline(timeout), self._tracker(self._tasks)
        with self._display(progress) as shown:
            for _ in waiting.ended(self._database, tracker, deadline, shown, self._agents):
                pass
        return tracker.own_status()

    def status(self) -> Status:
        """Return the counts of the run's campaign, without those below it."""
        return self.campaign.status(below=False)

    def failures(self) -> Iterator[Failure]:
        """Iterate over the failed tasks of the campaign, ordered by task."""
        return self.campaign.failures(below=False)

    def retry(self) -> int:
        """Try the failed calls again; return how many."""
        how = {"status": "failed", "error_class": None, "dry_run": False}
        return in_chunks(
            self._database, "retry", campaign=self.campaign.campaign_id, tasks=self._tasks, **how
        )

    def cancel(self) -> int:
        """Cancel the calls that have not ended; return how many. Running calls are stopped soon.

        `Client.map` begins cancelled calls again.
        """
        return in_chunks(
            self._database,
            "cancel",
            campaign=self.campaign.campaign_id,
            tasks=self._tasks,
            begun=True,
        )

    def best(
        self,
        *,
        by: str,
        n: int | None = None,
        percent: float | None = None,
        lowest: bool = True,
        group: str | None = None,
        timeout: float | None = None,
    ) -> BestCalls:
        """Return the arguments of the best calls, best first: iterate, or `map` the next stage.

        Iterating waits until all calls have ended. `map` begins at once: while the calls run, it
        adds the best so far; when they have ended, it cancels tasks not among the best of all.
        by: a field of the value, such as `score`, or `value` itself. group: a field of the
        argument, such as `smiles`. For both and the rest see `Client.best`; they apply to all
        results of the run's campaign. Arguments that are mappings keep the keys of their tasks.
        timeout: seconds to wait.
        """
        wanted = Best(
            _within("result", by), n, percent, lowest, group and _within("payload", group)
        )
        argument, agents = self._reader.plain_argument, self._agents
        return BestCalls(self._database, self, wanted, argument, timeout=timeout, agents=agents)

    def frame(self) -> Any:
        """Return what is done as a `pandas.DataFrame`; needs pandas.

        Each result is a row, in the order of seeding: its key, the argument's fields, the result's
        fields (or `value`), and attempt, host and seconds. A field of the result with the name of
        an argument's field gets `_result` behind its name.
        """
        return frames.frame(self._pages().rows())

    def arrow(self, batch_rows: int = frames.BATCH_ROWS) -> Any:
        """Return what is done as a `pyarrow.RecordBatchReader`, streamed; needs pyarrow.

        Columns as in `frame`, with the types of the first 1,000 rows; later values that do not fit
        are in the column `rest`, as JSON. Memory is bounded by a batch, for any number of rows.
        """
        return frames.arrow(self._pages(), batch_rows)

    def _pages(self) -> frames.ResultPages:
        return frames.ResultPages(
            self._database, self.campaign.campaign_id, self._of_run, self._row
        )

    def _row(self, stored: Row) -> dict[str, Any]:
        result = Result(campaign=self.path, **self._fetching.of(stored))
        argument = self._reader.argument(result.payload)
        return frames.row(result, argument, self._reader.value(result.result))

    def __repr__(self) -> str:
        try:
            counts = progress.text(self.status())
        except TaskqError as error:
            counts = str(error)
        return f"<Run {self.path}: {self.name}, {len(self):,} calls; campaign: {counts}>"

    def _repr_html_(self) -> str:
        return progress.as_html(self.path, self.status())

    def _display(self, wanted: bool | None) -> Any:
        return progress.display(self.path, wanted)

    def _tracker(self, tasks: array[int]) -> Tracker:
        tracker = Tracker(self._database, self.campaign.campaign_id, self.path)
        tracker.add(tasks if self._in_order else sorted(tasks))
        return tracker

    def _outcome(self, index: int, ended: EndedCall) -> Outcome:
        if ended.row is None:
            return self._without_value(index, ended)
        row, value, error = ended.row, None, None
        try:
            value = self._reader.value(self._fetching.of(row)["result"])
        except (ResultLost, ResultNotTrusted, UsageError) as known:
            error = known
        argument = self._reader.argument(row["payload"])
        seconds = (row["ended_at"] - row["claimed_at"]).total_seconds()
        about = (row["attempt"], row["host"], seconds)
        return Outcome(index, row["key"], "done", argument, error, *about, value)

    def _without_value(self, index: int, ended: EndedCall) -> Outcome:
        about = {"campaign": self.campaign.campaign_id, "after": ended.task - 1}
        (row,) = self._database.rows("tasks", status=None, limit=1, **about)
        error: BaseException = CancelledError(f"the task {row['key']} was cancelled")
        if ended.status == "failed":
            error = self._reader.error(ended.task, row["key"])
        argument = self._reader.argument(row["payload"])
        return Outcome(index, row["key"], ended.status, argument, error, row["attempt"])

    @cached_property
    def _in_order(self) -> bool:
        return all(one < other for one, other in pairwise(self._tasks))

    @cached_property
    def _index(self) -> dict[int, list[int]]:
        index: dict[int, list[int]] = {}
        for place, task in enumerate(self._tasks):
            index.setdefault(task, []).append(place)
        return index

    def _places(self, task: int) -> list[int]:
        """Return the indices of a task of the run: several if an argument came several times."""
        return [bisect_left(self._tasks, task)] if self._in_order else self._index[task]

    def _of_run(self, task: int) -> bool:
        if not self._in_order:
            return task in self._index
        place = bisect_left(self._tasks, task)
        return place < len(self._tasks) and self._tasks[place] == task


class BestCalls:
    """The value of `Run.best`: iterate over the arguments of the best calls, or `map` them."""

    def __init__(
        self,
        database: Queries,
        run: Run,
        wanted: Best,
        argument: Callable[[Any], Any],
        *,
        timeout: float | None,
        agents: list[LocalAgents],
    ) -> None:
        self._database = database
        self._run = run
        self._wanted = wanted
        self._argument = argument
        self._timeout = timeout
        self._agents = agents

    def __iter__(self) -> Iterator[Any]:
        """Wait until all calls have ended; yield the arguments, best first."""
        self._run.wait(self._timeout)
        chosen = select(self._database, self._run.campaign, self._wanted, below=False)
        return map(self._argument_of, chosen)

    def feed(self, target: Campaign, put: Callable[[Iterator[Any]], array[int]]) -> array[int]:
        """Seed a campaign with the best so far while the run goes, until it ends.

        put: seeds arguments, and returns the ids of their tasks. Return the tasks of the best of
        all, best first. Warn of tasks that had begun and do not belong to the best.
        """
        source, deadline = self._run.campaign, waiting.Deadline(self._timeout)
        feeder = Feeder(
            self._database,
            source,
            target,
            self._wanted,
            below=False,
            put=lambda results, _: put(map(self._argument_of, results)),
        )
        with progress.display(source.path, None) as shown:
            fed = feeder.run(
                pause=waiting.pausing(self._database, source, deadline, shown, self._agents)
            )
        if fed.begun:
            warnings.warn(
                f"{fed.begun:,} tasks of {target.path} had begun and are not among the best of "
                f"{source.path}: {', '.join(fed.some_begun)}",
                stacklevel=4,
            )
        return fed.tasks

    def _argument_of(self, result: Result) -> Any:
        argument = self._argument(result.payload)
        return Seed(argument, result.key) if isinstance(argument, dict) else argument


def _within(part: str, name: str) -> str:
    """Return the full dotted name of a field, which may be given in full."""
    return name if name.startswith(("result.", "payload.")) else f"{part}.{name}"
