"""Cursors: they record which results of a campaign were given, and read those that have come since.

Attempts are recorded when they end. So in the gaps of a cursor, and behind its last task, the key
of attempts holds only new results and failures, and no waiting tasks. A look costs the rows that it
finds, a look-up for each gap, and the failures.
"""

from __future__ import annotations

import heapq
import json
import time
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from taskq.db.access import PAGE, Queries
from taskq.db.address import Row
from taskq.files.destination import opened
from taskq.model.errors import Conflict, UsageError
from taskq.model.pauses import sleep
from taskq.model.views import Result, Status

#: The largest possible id.
LAST_ID: Final = 2**63 - 1


class IdSet:
    """A set of positive ids that grows; 16 bytes for each range of neighbours."""

    def __init__(self) -> None:
        self._firsts = array("q")
        self._lasts = array("q")
        self._new = array("q")

    @classmethod
    def of_steps(cls, steps: Iterable[int]) -> IdSet:
        """Return the set that `steps` describes; raise `ValueError` for invalid steps."""
        found, at = cls(), 0
        numbers = iter(steps)
        for left_out in numbers:
            within = next(numbers, 0)
            if left_out < (1 if found._firsts else 0) or within < 1:
                raise ValueError("these are not the steps of a set")
            found._firsts.append(at + left_out + 1)
            at += left_out + within
            if at > LAST_ID:
                raise ValueError("the ids are too large")
            found._lasts.append(at)
        return found

    def steps(self) -> Iterator[int]:
        """Yield alternately how many ids are left out, from 1 on, and how many are in the set."""
        self.settle()
        at = 0
        for first, last in zip(self._firsts, self._lasts, strict=True):
            yield first - at - 1
            yield last - first + 1
            at = last

    def __len__(self) -> int:
        self.settle()
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def __contains__(self, one: int) -> bool:
        """Return whether an id is in the set, ignoring ids added since the last `settle`."""
        place = bisect_left(self._lasts, one)
        return place < len(self._lasts) and self._firsts[place] <= one

    def add(self, one: int) -> None:
        """Add an id."""
        self._new.append(one)

    def gaps(self, after: int, count: int) -> list[tuple[int, int]]:
        """Return the next ranges of ids above `after` that are not in the set, `count` at most.

        A range is its first and last id; the last one of all ends with `LAST_ID`. Ids added since
        the last `settle` count as not in the set.
        """
        found: list[tuple[int, int]] = []
        place = bisect_right(self._lasts, after)
        begin = after + 1
        while len(found) < count and begin <= LAST_ID:
            end = self._firsts[place] - 1 if place < len(self._firsts) else LAST_ID
            if begin <= end:
                found.append((begin, end))
            begin = self._lasts[place] + 1 if place < len(self._lasts) else LAST_ID + 1
            place += 1
        return found

    def remove(self, some: Iterable[int]) -> None:
        """Remove ids, in time linear in the number of ranges."""
        self.settle()
        gone = sorted(set(some))
        place, firsts, lasts = 0, array("q"), array("q")
        for first, last in zip(self._firsts, self._lasts, strict=True):
            begin = first
            place = bisect_left(gone, first, place)
            while place < len(gone) and gone[place] <= last:
                if begin < gone[place]:
                    firsts.append(begin)
                    lasts.append(gone[place] - 1)
                begin = gone[place] + 1
                place += 1
            if begin <= last:
                firsts.append(begin)
                lasts.append(last)
        self._firsts, self._lasts = firsts, lasts

    def settle(self) -> None:
        """Merge added ids into the ranges, in time linear in the number of ranges."""
        if not self._new:
            return
        added = ((one, one) for one in sorted(self._new))
        ranges = heapq.merge(zip(self._firsts, self._lasts, strict=True), added)
        firsts, lasts = array("q"), array("q")
        for first, last in ranges:
            if lasts and first <= lasts[-1] + 1:
                lasts[-1] = max(last, lasts[-1])
            else:
                firsts.append(first)
                lasts.append(last)
        self._firsts, self._lasts, self._new = firsts, lasts, array("q")


_VERSION: Final = 1
#: The cursor of five million results in a random order takes 10 MB.
MAX_BYTES: Final = 256 << 20


class Cursor:
    """The set of results given of a campaign, and of those below it; empty at first.

    `text` is for a database that keeps the cursor in one transaction with the results; `write`
    keeps it in a file. Its size is some bytes for each group of neighbours among tasks that ended
    in the order of seeding, as most do, and 2 bytes for each result in a random order.
    """

    def __init__(self) -> None:
        self._of: tuple[str, datetime] | None = None
        self._given: defaultdict[int, IdSet] = defaultdict(IdSet)
        self._withdrawn: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)

    def __len__(self) -> int:
        """Return how many results were given."""
        return sum(map(len, self._given.values()))

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        path = self._of[0] if self._of else "no campaign"
        return f"<Cursor of {path}: {len(self):,} results>"

    @classmethod
    def read(cls, path: str | Path) -> Cursor:
        """Return the cursor that `write` has written; a new one if the file is empty or absent."""
        try:
            with Path(path).open("rb") as file:
                data = file.read(MAX_BYTES)
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise UsageError(f"{str(path)!r} cannot be read: {error.strerror}") from None
        if not data:
            return cls()
        try:
            return cls.of_text(data.decode(errors="replace"))
        except UsageError as error:
            raise UsageError(f"{str(path)!r}: {error}; name another file") from None

    @classmethod
    def of_text(cls, text: str) -> Cursor:
        """Return the cursor of a `text`."""
        try:
            return cls._of_json(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise UsageError("this is not a cursor") from None

    @classmethod
    def _of_json(cls, value: Any) -> Cursor:
        if value["taskq_cursor"] != _VERSION:
            raise UsageError("this cursor is of another release of taskq")
        cursor = cls()
        for campaign, steps in value["given"].items():
            if not all(type(one) is int for one in steps):
                raise TypeError(steps)
            cursor._given[int(campaign)] = IdSet.of_steps(steps)
        for campaign, pairs in value.get("withdrawn", {}).items():
            cursor._withdrawn[int(campaign)] = {
                (int(task), int(attempt)) for task, attempt in pairs
            }
        if value["campaign"]:
            cursor._of = str(value["campaign"]), datetime.fromisoformat(value["created_at"])
        return cursor

    @property
    def text(self) -> str:
        """The cursor as one line of JSON.

        For each campaign, by its id, the numbers give alternately how many ids of tasks were left
        out, and how many were given. Withdrawn results that it knows are pairs of task and attempt.
        """
        path, created_at = "", ""
        if self._of:
            path, created_at = self._of[0], self._of[1].isoformat()
        given = {str(key): list(one.steps()) for key, one in sorted(self._given.items())}
        value: dict[str, Any] = {"taskq_cursor": _VERSION, "campaign": path}
        value |= {"created_at": created_at, "given": given}
        if withdrawn := {str(key): sorted(some) for key, some in sorted(self._withdrawn.items())}:
            value["withdrawn"] = withdrawn
        return json.dumps(value, separators=(",", ":"))

    def write(self, path: str | Path) -> None:
        """Write it to a file, which it replaces as a whole."""
        with opened(path) as stream:
            stream.write(f"{self.text}\n".encode())

    def begin(self, path: str, created_at: datetime) -> None:
        """Begin to give results of a campaign.

        Raises:
            Conflict: The cursor is of another campaign.
        """
        its = path, created_at.astimezone(timezone.utc)  # servers return any time zone
        self._of = self._of or its
        if self._of[0] != path:
            raise Conflict(f"this cursor is of {self._of[0]}, not of {path}; name another")
        if self._of != its:
            raise Conflict(
                f"this cursor is of another campaign {path}, created at {self._of[1]}; this one "
                f"was created at {its[1]}: begin with a new cursor"
            )

    def given(self, campaign_id: int) -> IdSet:
        """Return the set of tasks whose results were given; callers add further ones to it."""
        return self._given[campaign_id]

    def withdrawn(self, campaign_id: int) -> set[tuple[int, int]]:
        """Return the withdrawn results that it knows: tasks and attempts; callers add others."""
        return self._withdrawn[campaign_id]


@dataclass(frozen=True, slots=True)
class WithdrawnResult(Result):
    """A result that a cursor has given and an operator has withdrawn since; `result` is None.

    The task's next result follows when there is one.
    """

    withdrawn: bool = True


#: Limits of one statement: gaps that it looks into, and attempts that it reads.
GAPS: Final = 1_000
SCAN: Final = 5_000
POLL_S: Final = 0.5
#: The pause after a look, as a multiple of its duration.
REST: Final = 9


def look(
    database: Queries,
    campaigns: Iterable[tuple[int, str]],
    cursor: Cursor,
    on_page: Callable[[], object] = lambda: None,
) -> Iterator[Row]:
    """Yield results that the cursor does not have, campaign by campaign and ordered by task.

    Each campaign begins with the results that the cursor has and that were withdrawn since, marked
    `withdrawn` and without the result. Results count as given when the next is requested, and
    withdrawn ones a page at a time. on_page: called when all so far are given.
    """
    for campaign, path in campaigns:
        given, known = cursor.given(campaign), cursor.withdrawn(campaign)
        for row in _withdrawn(database, campaign, cursor):
            yield {"campaign": path, **row, "withdrawn": True}
        for tasks in _new_tasks(database, campaign, given):
            for start in range(0, len(tasks), PAGE):
                page = tasks[start : start + PAGE]
                rows = database.rows("results_of", campaign=campaign, tasks=page)
                known.update(_withdrawn_before(database, campaign, rows))
                for row in rows:
                    yield {"campaign": path, **row}
                    given.add(row["task_id"])
                on_page()


def follow(
    database: Queries,
    counts: Callable[[], list[Status]],
    cursor: Cursor,
    on_page: Callable[[], object] = lambda: None,
) -> Iterator[Row]:
    """Yield results as they come, until no task is unfinished; see `look`.

    counts: returns the own counts of each campaign. A look is followed by a pause nine times as
    long.
    """
    looked: dict[int, int] = {}
    rested_at = 0.0
    while True:
        nodes = counts()
        done = {one.campaign_id: one.done for one in nodes}
        ended = not any(one.unfinished for one in nodes)
        began = time.monotonic()
        if ended or (done != looked and began >= rested_at):
            moved = (
                (one.campaign_id, one.path)
                for one in nodes
                if ended or one.done != looked.get(one.campaign_id, 0)
            )
            yield from look(database, moved, cursor, on_page)
            looked, now = done, time.monotonic()
            rested_at = now + REST * (now - began)
        on_page()
        if ended:
            return
        sleep(POLL_S)


def _withdrawn(database: Queries, campaign: int, cursor: Cursor) -> Iterator[Row]:
    """Yield withdrawn results that were given; then they count as not given."""
    given, known = cursor.given(campaign), cursor.withdrawn(campaign)
    given.settle()
    last = {"task": 0, "attempt": 0}
    while page := database.rows("withdrawals", campaign=campaign, limit=PAGE, **last):
        last = {"task": page[-1]["task_id"], "attempt": page[-1]["attempt"]}
        gone = [pair for row in page if (pair := (row["task_id"], row["attempt"])) not in known]
        # Of several, the first: it made room for the others, which were not given.
        had: dict[int, int] = {}
        for task, attempt in gone:
            if task in given:
                had.setdefault(task, attempt)
        words = {"tasks": [*had], "attempts": [*had.values()]}
        rows = database.rows("withdrawn_results", campaign=campaign, **words) if had else []
        try:
            yield from rows
        finally:
            # Even if the reader stops within the page: later results of these tasks then follow.
            if gone:
                given.remove(task for task, _ in gone)
                known.update(gone)


def _withdrawn_before(
    database: Queries, campaign: int, rows: list[Row]
) -> Iterator[tuple[int, int]]:
    """Yield (task, attempt) of the withdrawn results that the results in these rows replace."""
    given = {row["task_id"]: row["attempt"] for row in rows}
    for row in database.rows("withdrawals_of", campaign=campaign, tasks=list(given)):
        if row["attempt"] != given[row["task_id"]]:
            yield row["task_id"], row["attempt"]


def _new_tasks(database: Queries, campaign: int, given: IdSet) -> Iterator[list[int]]:
    given.settle()
    after = 0
    while after < LAST_ID:
        gaps = given.gaps(after, GAPS)
        if not gaps:
            return
        firsts, lasts = (list(ids) for ids in zip(*gaps, strict=True))
        words = {"campaign": campaign, "firsts": firsts, "lasts": lasts, "scan": SCAN}
        (row,) = database.rows("done_within", **words)
        if row["tasks"]:
            yield row["tasks"]
        after = lasts[-1] if row["last"] is None else row["last"]
