"""A run: calls of a function requested together, and their outcomes."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from functools import cached_property
from itertools import groupby, islice, pairwise
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from taskq.campaign.campaign import Campaign
from taskq.compute import frames, progress, waiting
from taskq.compute.best_calls import BestCalls
from taskq.compute.outcomes import Outcome, OutcomeReader, seconds_of
from taskq.compute.result_folder import taken
from taskq.compute.tracker import LARGEST_PAGE, EndedCall, Tracker
from taskq.compute.unpickling import ResultReader
from taskq.db.access import Queries, in_chunks, task_rows
from taskq.db.address import Row
from taskq.files.large_results import Fetching
from taskq.model.errors import ResultLost, ResultNotTrusted, TaskqError, UsageError
from taskq.model.views import Failure, Result, Status
from taskq.results.ranking import Best
from taskq_agent import buffers
from taskq_agent.handlers.calls import calls_of

if TYPE_CHECKING:
    from taskq.compute.local_agents import LocalAgents

T = TypeVar("T")


class Run(Generic[T]):
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
        self._fetching = Fetching(
            database,
            of_part=buffers.as_view,
            near=lambda digest: taken((one.result_folder for one in agents), digest),
        )

    @property
    def path(self) -> str:
        """The campaign's path."""
        return self.campaign.path

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[T]:
        return self.results()

    def results(self, timeout: float | None = None, *, progress: bool | None = None) -> Iterator[T]:
        """Iterate over the values in the order of the arguments, waiting for each.

        Raises the very exception of a call, with the traceback from its node as its cause;
        `outcomes` goes on in such cases.

        Args:
            timeout: Seconds in all.
            progress: Whether to show it; by default in a terminal or notebook.

        Raises:
            TaskFailed: A task failed otherwise than by an exception of the function.
            CancelledError: A task was cancelled.
            TimeoutError: The time is over.
        """
        return (one.value for one in self.outcomes(timeout, progress=progress))

    def result(self, timeout: float | None = None, *, progress: bool | None = None) -> list[T]:
        """Return all values in a list; see `results`."""
        return list(self.results(timeout, progress=progress))

    def outcomes(
        self, timeout: float | None = None, *, progress: bool | None = None
    ) -> Iterator[Outcome[T]]:
        """Iterate over values and exceptions in the order of the arguments, waiting for each."""
        deadline = waiting.Deadline(timeout)
        with self._display(progress) as shown:
            places = self._places_by_task()
            while page := [*islice(places, LARGEST_PAGE)]:
                tracker = self._tracker(array("q", [task for task, _ in page]))
                came: dict[int, EndedCall] = {}
                at = 0
                for found in waiting.ended(self._database, tracker, deadline, shown, self._agents):
                    came.update((one.task, one) for one in found)
                    while at < len(page) and page[at][0] in came:
                        yield from self._outcomes(page[at][1], came[page[at][0]])
                        at += 1

    def as_completed(
        self, timeout: float | None = None, *, progress: bool | None = None
    ) -> Iterator[Outcome[T]]:
        """Iterate over values and exceptions as they come, each once.

        An exception does not end the iteration: its outcome has an `error`, and `value` raises it.
        """
        deadline, tracker = waiting.Deadline(timeout), self._tracker(self._tasks)
        with self._display(progress) as shown:
            for found in waiting.ended(self._database, tracker, deadline, shown, self._agents):
                for one in found:
                    yield from self._outcomes(self._places(one.task), one)

    def wait(self, timeout: float | None = None, *, progress: bool | None = None) -> Status:
        """Wait until all calls have ended; return the counts.

        Raises:
            TimeoutError: Calls are unfinished after `timeout` seconds.
        """
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
        return self._move("retry", status="failed", error_class=None, dry_run=False)

    def cancel(self) -> int:
        """Cancel the calls that have not ended; return how many. Running calls are stopped soon.

        `Client.map` begins cancelled calls again.
        """
        return self._move("cancel", begun=True)

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
        Arguments that are mappings keep the keys of their tasks. The other arguments are those of
        `Client.best`, and apply to all results of the run's campaign.

        Args:
            by: A field of the value, such as `score`, or `value` itself.
            group: A field of the argument, such as `smiles`.
            timeout: Seconds to wait.

        Raises:
            UsageError: The run has chunks, whose results are not fields of a task.
        """
        if self._has_chunks():
            raise UsageError(f"{self.path} has chunks of calls, of which best() cannot choose some")
        wanted = Best(
            _within("result", by), n, percent, lowest, group and _within("payload", group)
        )
        return BestCalls(
            self._database,
            self.campaign,
            wanted,
            self._reader.plain_argument,
            wait=self.wait,
            timeout=timeout,
            agents=self._agents,
        )

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
            self._database, self.campaign.campaign_id, self._of_run, self._rows
        )

    def _rows(self, stored: Row) -> Iterator[dict[str, Any]]:
        """Yield the row of a result; of a chunk, those of its calls that have values."""
        result = Result(campaign=self.path, **self._fetching.of(stored))
        if (chunk := calls_of(result.payload)) is None:
            argument = self._reader.argument(result.payload)
            yield frames.row(result, argument, self._reader.value(result.result))
            return
        ends = self._reader.ends(result.key, result.result, len(chunk))
        for payload, (value, error) in zip(chunk, ends, strict=True):
            if error is None:
                yield frames.row(result, self._reader.argument(payload), value)

    def __repr__(self) -> str:
        try:
            counts = progress.text(self.status())
        except TaskqError as error:
            counts = str(error)
        return f"<Run {self.path}: {self.name}, {len(self):,} calls; campaign: {counts}>"

    def _repr_html_(self) -> str:
        return progress.view_html(self.campaign, self.status())

    def _ipython_display_(self) -> None:
        progress.LiveView(self.campaign, repr(self), self.cancel).show()

    def _display(self, wanted: bool | None) -> Any:
        return progress.display(self.path, wanted)

    def _tracker(self, tasks: array[int]) -> Tracker:
        tracker = Tracker(self._database, self.campaign.campaign_id, self.path)
        tracker.add(tasks if self._in_order else sorted(tasks))
        return tracker

    def _outcomes(self, places: Sequence[int], ended: EndedCall) -> Iterator[Outcome[T]]:
        """Yield the outcomes of a task's calls: of one, maybe at several places, or of a chunk."""
        row, seconds = ended.row, None
        error: BaseException | None = None
        if row is None:
            (row,) = task_rows(self._database, self.campaign.campaign_id, [ended.task])
            error = CancelledError(f"the task {row['key']} was cancelled")
            if ended.status == "failed":
                error = self._reader.error(ended.task, row["key"])
        else:
            seconds = seconds_of(row["phases"], row["claimed_at"], row["ended_at"])
        chunk = calls_of(row["payload"])
        if chunk is not None and seconds is not None:
            seconds /= len(chunk)
        payloads = [row["payload"]] * len(places) if chunk is None else chunk
        ends = self._ends(row, error, None if chunk is None else len(chunk))
        about = (row["attempt"], row.get("host"), seconds)
        for index, payload, (value, known) in zip(places, payloads, ends, strict=False):
            argument = self._reader.argument(payload)
            yield Outcome(index, row["key"], ended.status, argument, known, *about, value)

    def _ends(
        self, row: Row, error: BaseException | None, chunk: int | None
    ) -> Iterator[tuple[Any, BaseException | None]]:
        """Yield value or error of each call of a chunk, or of a single call again and again."""
        try:
            result = None if error is not None else self._fetching.of(row)["result"]
            if error is None and chunk is not None:
                yield from self._reader.ends(row["key"], result, chunk)
            while error is None:
                yield self._reader.value(result), None
        except (ResultLost, ResultNotTrusted, UsageError) as known:
            error = known
        while True:
            yield None, error

    @cached_property
    def _in_order(self) -> bool:
        return all(one <= other for one, other in pairwise(self._tasks))

    @cached_property
    def _index(self) -> dict[int, list[int]]:
        index: dict[int, list[int]] = {}
        for place, task in enumerate(self._tasks):
            index.setdefault(task, []).append(place)
        return index

    def _places(self, task: int) -> Sequence[int]:
        """Return the indices of a task: several for a chunk, or if a record came several times."""
        if not self._in_order:
            return self._index[task]
        return range(bisect_left(self._tasks, task), bisect_right(self._tasks, task))

    def _places_by_task(self) -> Iterator[tuple[int, range]]:
        start = 0
        for task, same in groupby(self._tasks):
            end = start + sum(1 for _ in same)
            yield task, range(start, end)
            start = end

    def _move(self, name: str, **words: object) -> int:
        """Move the tasks of the calls with a statement; return how many it moved."""
        tasks = self._each_task()
        campaign = self.campaign.campaign_id
        return in_chunks(self._database, name, campaign=campaign, tasks=tasks, **words)

    def _each_task(self) -> list[int]:
        return [task for task, _ in groupby(self._tasks)]

    def _has_chunks(self) -> bool:
        several = (task for task, places in self._places_by_task() if len(places) > 1)
        rows = task_rows(self._database, self.campaign.campaign_id, several)
        return any(calls_of(row["payload"]) is not None for row in rows)

    def _of_run(self, tasks: array[int]) -> list[bool]:
        """Return which tasks of a page, in order, are of the run: mostly all are."""
        if not self._in_order:
            return [task in self._index for task in tasks]
        place = bisect_left(self._tasks, tasks[0])
        if self._tasks[place : place + len(tasks)] == tasks:
            return [True] * len(tasks)
        end = bisect_left(self._tasks, tasks[-1] + 1, place)
        return [*map({*self._tasks[place:end]}.__contains__, tasks)]


def _within(part: str, name: str) -> str:
    """Return the full dotted name of a field, which may be given in full."""
    return name if name.startswith(("result.", "payload.")) else f"{part}.{name}"
