"""A run: calls of a function requested together, and their outcomes."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from functools import cached_property, partial
from itertools import groupby, islice, pairwise
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from taskq.campaign.campaign import Campaign
from taskq.compute import frames, progress, waiting
from taskq.compute.best_calls import BestCalls
from taskq.compute.outcomes import Outcome, OutcomeReader
from taskq.compute.result_folder import taken
from taskq.compute.tracker import LARGEST_PAGE, EndedCall, Tracker
from taskq.compute.trust import ResultReader
from taskq.db.access import Queries, in_chunks, task_rows
from taskq.db.rows import Row
from taskq.files.large_results import Fetching
from taskq.model.errors import ResultLost, ResultNotTrusted, TaskqError, UsageError
from taskq.model.run_times import ran_s
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
            near=lambda digest: taken((agent.result_folder for agent in agents), digest),
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
        return (outcome.value for outcome in self.outcomes(timeout, progress=progress))

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
                    came.update((end.task, end) for end in found)
                    while at < len(page) and page[at][0] in came:
                        yield from self._outcomes(page[at][1], came[page[at][0]])
                        at += 1

    def as_completed(
        self, timeout: float | None = None, *, progress: bool | None = None
    ) -> Iterator[Outcome[T]]:
        """Iterate over values and exceptions as they come, each once.

        An exception does not end the iteration: its outcome has an `error`, and `value` raises it.
        """
        tracker = self._tracker(self._tasks)
        for end in self._ended(tracker, timeout, progress=progress):
            yield from self._outcomes(self._places(end.task), end)

    def wait(self, timeout: float | None = None, *, progress: bool | None = None) -> Status:
        """Wait until all calls have ended; return the counts.

        Raises:
            TimeoutError: Calls are unfinished after `timeout` seconds.
        """
        tracker = self._tracker(self._tasks)
        for _ in self._ended(tracker, timeout, progress=progress):
            pass
        return tracker.own_status()

    def status(self) -> Status:
        """Return the counts of the run's campaign, without those below it."""
        return self.campaign.status(below=False)

    def failures(self) -> Iterator[Failure]:
        """Iterate over the tasks of the campaign that have failed until now, ordered by task."""
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
        by, group = _within("result", by), group and _within("payload", group)
        wanted = Best(by, n=n, percent=percent, lowest=lowest, group=group)
        return BestCalls(
            self._database,
            self.campaign,
            wanted,
            self._reader.plain_argument,
            wait=self.wait,
            timeout=timeout,
            agents=self._agents,
        )

    def frame(
        self,
        timeout: float | None = None,
        *,
        so_far: bool = False,
        progress: bool | None = None,
    ) -> Any:
        """Return the results as a `pandas.DataFrame`, once all calls have ended; needs pandas.

        Each result is a row, in the order of seeding: its key, the argument's fields, the result's
        fields (or `value`), and attempt, host and seconds. A field of the result with the name of
        an argument's field gets `_result` behind its name. Calls that failed or were cancelled have
        no row; a warning says how many.

        Args:
            timeout: Seconds to wait.
            so_far: Return what is done now, without waiting and without a warning.
            progress: Whether to show it; by default in a terminal or notebook.

        Raises:
            TimeoutError: The time is over.
        """
        return frames.frame(self._pages(timeout, so_far=so_far, progress=progress).rows())

    def arrow(
        self,
        batch_rows: int = frames.BATCH_ROWS,
        timeout: float | None = None,
        *,
        so_far: bool = False,
        progress: bool | None = None,
    ) -> Any:
        """Return the results as a `pyarrow.RecordBatchReader`, streamed; needs pyarrow.

        Columns and the other arguments as in `frame`, with the types of the first 1,000 rows; later
        values that do not fit are in the column `rest`, as JSON. Memory is bounded by a batch, for
        any number of rows.
        """
        return frames.arrow(self._pages(timeout, so_far=so_far, progress=progress), batch_rows)

    def _pages(
        self, timeout: float | None, *, so_far: bool, progress: bool | None
    ) -> frames.ResultPages:
        """Return the results, once all calls have ended, unless `so_far`."""
        left_out: Counter[str] = Counter()  # calls without a row, by what became of them
        if not so_far:
            for end in self._ended(self._tracker(self._tasks), timeout, progress=progress):
                if end.status != "done":
                    left_out[end.status] += len(self._places(end.task))

        def at_end() -> None:
            if not so_far:
                frames.warn_of(left_out, len(self), self.path)

        rows_of = partial(self._rows, left_out)
        number = self.campaign.campaign_id
        return frames.ResultPages(self._database, number, self._of_run, rows_of, at_end)

    def _rows(self, left_out: Counter[str], stored: Row) -> Iterator[dict[str, Any]]:
        """Yield the row of a result; of a chunk, those of its calls that have values.

        left_out: counts the others.
        """
        result = Result(campaign=self.path, **self._fetching.of(stored))
        read_of = (result.task_id, result.attempt)
        if (chunk := calls_of(result.payload)) is None:
            argument = self._reader.argument(result.payload)
            yield frames.row(result, argument, self._reader.value(*read_of, result.result))
            return
        ends = self._reader.ends(*read_of, result.key, result.result, len(chunk))
        for payload, (value, error) in zip(chunk, ends, strict=True):
            if error is None:
                yield frames.row(result, self._reader.argument(payload), value)
            else:
                left_out["failed"] += 1

    def __repr__(self) -> str:
        try:
            counts = progress.text(self.status())
        except TaskqError as error:
            counts = str(error)
        return f"<Run {self.path}: {self.name}, {len(self):,} calls; campaign: {counts}>"

    def _repr_html_(self) -> str:
        return progress.view_html(self.campaign, self.status())

    def _ipython_display_(self) -> None:
        progress.LiveView(
            self.campaign, repr(self), self.cancel, lambda: self._database.is_closed
        ).show()

    def _display(self, wanted: bool | None) -> Any:
        return progress.display(self.campaign, wanted)

    def _ended(
        self, tracker: Tracker, timeout: float | None, *, progress: bool | None
    ) -> Iterator[EndedCall]:
        """Yield the tasks as they end, until none is pending."""
        deadline = waiting.Deadline(timeout)
        with self._display(progress) as shown:
            for found in waiting.ended(self._database, tracker, deadline, shown, self._agents):
                yield from found

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
            seconds = ran_s(row["phases"], row["claimed_at"], row["ended_at"])
        chunk = calls_of(row["payload"])
        if chunk is not None and seconds is not None:
            seconds /= len(chunk)
        payloads = [row["payload"]] * len(places) if chunk is None else chunk
        ends = self._ends(row, error, None if chunk is None else len(chunk))
        about = {"attempt": row["attempt"], "host": row.get("host"), "seconds": seconds}
        for index, payload, (value, known) in zip(places, payloads, ends, strict=False):
            argument = self._reader.argument(payload)
            yield Outcome(
                index, row["key"], ended.status, argument, error=known, _value=value, **about
            )

    def _ends(
        self, row: Row, error: BaseException | None, chunk: int | None
    ) -> Iterator[tuple[Any, BaseException | None]]:
        """Yield value or error of each call of a chunk, or of a single call again and again."""
        try:
            read_of = (row["task_id"], row["attempt"])
            result = None if error is not None else self._fetching.of(row)["result"]
            if error is None and chunk is not None:
                yield from self._reader.ends(*read_of, row["key"], result, chunk)
            while error is None:
                yield self._reader.value(*read_of, result), None
        except (ResultLost, ResultNotTrusted, UsageError) as known:
            error = known
        while True:
            yield None, error

    @cached_property
    def _in_order(self) -> bool:
        return all(task <= other for task, other in pairwise(self._tasks))

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
