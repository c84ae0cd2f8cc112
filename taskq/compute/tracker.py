"""Finds the tasks of a campaign that have ended, with few statements.

A look reads the campaign's counters, and nothing else if they have not moved. If they have, it
looks up pages of pending tasks by their ids, from the lowest on: agents claim in this order, so
tasks that end are among the first pending ones. The pages go on while they find some. One more page
at a cursor finds tasks that ended elsewhere, for example in the order of priorities. So the cost of
a look depends on the tasks that ended since the last one, not on the number of pending tasks.

If few tasks are pending, at least every other look asks for their results and for nothing else:
most calls succeed, and one statement then finds the end and the result. Over a gateway each
statement is a request.
"""

from __future__ import annotations

import math
import time
from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from taskq.db.access import Queries
from taskq.db.rows import Row
from taskq.model.errors import CampaignPaused
from taskq.model.pauses import grown
from taskq.model.views import Status

_COMPACT_ABOVE: Final = 1_024

SMALLEST_PAGE: Final = 32
LARGEST_PAGE: Final = 1_000
#: Pages of one look, so that it ends: 10,000 ended tasks.
MOST_PAGES: Final = 10

#: The shortest pause between looks, in seconds.
FIRST_PAUSE_S: Final = 0.001
#: Longest pause after a look that found something: as long as the look took, so that calls which
#: end in great numbers are found many at a time.
BUSY_PAUSE_S: Final = 0.05
#: Seconds after a reading of the counters in which looks that find no result read none.
COUNTED_S: Final = 0.02


class Pending:
    """A sorted set of ids that shrinks mostly from its beginning."""

    def __init__(self) -> None:
        self._ids = array("q")
        self._gone = bytearray()
        self._left = 0

    def __len__(self) -> int:
        return self._left

    def __contains__(self, task: int) -> bool:
        place = bisect_left(self._ids, task)
        return place < len(self._ids) and self._ids[place] == task and not self._gone[place]

    def add(self, tasks: Iterable[int]) -> None:
        """Add ids; an id that is there changes nothing."""
        for task in tasks:
            if not self._ids or task > self._ids[-1]:
                self._ids.append(task)
                self._gone.append(0)
                self._left += 1
            elif task not in self:
                self._compact()
                insort(self._ids, task)
                self._gone.append(0)
                self._left += 1

    def discard(self, task: int) -> bool:
        """Remove an id; return whether it was there."""
        place = bisect_left(self._ids, task)
        if place == len(self._ids) or self._ids[place] != task or self._gone[place]:
            return False
        self._gone[place] = 1
        self._left -= 1
        if len(self._ids) > _COMPACT_ABOVE and self._left < len(self._ids) // 2:
            self._compact()
        return True

    def after(self, task: int, count: int) -> list[int]:
        """Return the next ids above an id, in order, `count` at most."""
        found: list[int] = []
        for place in range(bisect_right(self._ids, task), len(self._ids)):
            if not self._gone[place]:
                found.append(self._ids[place])
                if len(found) == count:
                    break
        return found

    def _compact(self) -> None:
        if self._left < len(self._ids):
            kept = zip(self._ids, self._gone, strict=True)
            self._ids = array("q", [task for task, gone in kept if not gone])
            self._gone = bytearray(len(self._ids))


@dataclass(frozen=True, slots=True)
class EndedCall:
    """A task that has ended. row: its result, if it is done.

    status: done, failed or cancelled; a task that was removed counts as cancelled.
    """

    task: int
    status: str
    row: Row | None = None


class Tracker:
    """Looks for the end of tasks of one campaign. Not thread-safe.

    campaign_id, path: the campaign; tasks of campaigns below it do not count.
    """

    def __init__(self, database: Queries, campaign_id: int, path: str) -> None:
        self._database = database
        self.campaign_id = campaign_id
        self.path = path
        self.pending = Pending()
        self._cursor = 0
        self._seen: tuple[int, ...] | None = None
        self._before: tuple[int, ...] = (0, 0, 0)
        self._counted_at = -math.inf
        self._is_counting_due = True
        self.status: Status | None = None

    def add(self, tasks: Iterable[int]) -> None:
        """Wait for further tasks."""
        self.pending.add(tasks)
        self._seen = None

    def look(self, *, reported: bool = False) -> list[EndedCall]:
        """Return tasks that have ended since the last look, each once, in the order of seeding.

        A look that fails loses nothing: the next one finds the same tasks again. reported: an agent
        has just reported, so results of the first pending tasks are likely; counters are read only
        if there are none. Raise `CampaignPaused` if the campaign has paused itself and no task of
        it is at work, `UnknownCampaign` if it was removed.
        """
        if not self.pending:
            return []
        is_counted = time.monotonic() < self._counted_at + COUNTED_S
        few = len(self.pending) <= SMALLEST_PAGE and (is_counted or not self._is_counting_due)
        if reported or few:
            if done := self._done(self.pending.after(0, SMALLEST_PAGE)):
                return [end for end in done if self.pending.discard(end.task)]
            if few or is_counted:
                self._is_counting_due = True
                return []
        self._counted_at, self._is_counting_due = time.monotonic(), False
        status = self.own_status()
        moved = (status.done, status.failed, status.cancelled)
        found: list[EndedCall] = []
        if moved != self._seen:
            swept, complete = self._sweep(status, moved)
            found = [end for end in swept if self.pending.discard(end.task)]
            # If all had ended, tasks still pending were retried meanwhile.
            settled = complete and (status.unfinished or not self.pending)
            self._seen = moved if settled else None
            self._before = moved
        if not found and status.paused_why is not None and not status.working:
            raise CampaignPaused(self.path, status.paused_why)
        return found

    @property
    def is_working(self) -> bool:
        """Whether an agent had a task of the campaign at the last look."""
        return self.status is not None and self.status.working > 0

    def own_status(self) -> Status:
        """Return the campaign's own counts."""
        row = self._database.rows("counts", path=self.path, depth=0)[0]
        if row["children"]:
            row = self._database.rows("counts", path=self.path, depth=None)[0]
        self.status = Status(**row)
        return self.status

    def _sweep(self, status: Status, moved: tuple[int, ...]) -> tuple[list[EndedCall], bool]:
        """Return the tasks found, and whether all pending tasks were looked up."""
        news = sum(moved) - sum(self._before)
        page = 2 * (status.working + status.delayed) + news
        page = max(SMALLEST_PAGE, min(LARGEST_PAGE, page))
        found: list[EndedCall] = []
        after = pages = 0
        while tasks := self.pending.after(after, page):
            ended = self._page(tasks, status)
            found += ended
            after, pages = tasks[-1], pages + 1
            if status.unfinished and (not ended or pages >= MOST_PAGES):
                break
        else:
            return found, True
        tasks = self.pending.after(max(self._cursor, after), LARGEST_PAGE)
        self._cursor = tasks[-1] if tasks else 0
        found += self._page(tasks, status) if tasks else []
        return found, not self.pending.after(after, 1)

    def _done(self, tasks: list[int]) -> list[EndedCall]:
        rows = self._database.rows("results_of", campaign=self.campaign_id, tasks=tasks)
        return [EndedCall(row["task_id"], "done", row) for row in rows]

    def _page(self, tasks: list[int], status: Status) -> list[EndedCall]:
        found = self._done(tasks)
        done = {end.task for end in found}
        rest = [task for task in tasks if task not in done]
        if rest and (status.failed or status.cancelled or not status.unfinished):
            rows = self._database.rows("unsuccessful", campaign=self.campaign_id, tasks=rest)
            found += [
                EndedCall(row["task_id"], "failed" if row["status"] == "failed" else "cancelled")
                for row in rows
            ]
        found.sort(key=attrgetter("task"))
        return found


class Pauses:
    """Lengths of the pauses between looks, which grow with the time waited.

    So the end of a call is noticed after a quarter more than it took at most, and the first seconds
    of any wait cost some 30 looks. clock: returns monotonic seconds. first_s: the shortest pause
    after a look that found nothing.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, first_s: float = FIRST_PAUSE_S
    ) -> None:
        self._clock = clock
        self._first_s = first_s
        self._since = self._look_at = clock()

    def next_s(self, *, found: bool) -> float:
        """Return how long to pause before the next look; found: whether the last found an end."""
        now = self._clock()
        if found:
            self._since, pause_s = now, min(BUSY_PAUSE_S, now - self._look_at)
        else:
            pause_s = grown(now - self._since, self._first_s)
        pause_s = max(FIRST_PAUSE_S, pause_s)
        self._look_at = now + pause_s
        return pause_s
