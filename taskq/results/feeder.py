"""The live funnel: a stage that gets the best results of the stage before while that still runs.

A feeder keeps no state that has to outlive it. Each look chooses the best so far among all results
and seeds them, which adds what is new. The look after the end of the first stage chooses the best
of all, and cancels the other tasks that came from that stage. So a feeder may be killed at any
moment and begun again, several at a time do no harm, and no result is missed, however late its
report committed. A feeder could go on from an order of arrival, but that would cost each report an
index. Looks read all results, but are so far apart that they take a tenth of the time.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import chain, islice
from typing import Final, TypeAlias

from taskq.db.access import MOVE_CHUNK, PAGE, Queries, in_chunks, pages, task_ids, task_rows
from taskq.db.rows import Row
from taskq.ingest import seeding
from taskq.ingest.seeding import Conflicts
from taskq.model.errors import UsageError
from taskq.model.pauses import sleep
from taskq.model.seed import NOT_BEGUN, NamedCampaign, Seed
from taskq.model.views import Result, Status
from taskq.results.ranking import Best
from taskq.results.selection import Selection, stage

#: Seconds between checks whether the first stage has moved.
POLL_S: Final = 0.5
#: A feeder rests this many times as long as its last look took.
REST: Final = 9.0
#: Most keys named of tasks that had begun.
NAMED: Final = 20

#: Seeds results, best first, as tasks of the next stage; returns their task ids in this order.
#: The flag is true for the best of all, false for the best so far.
Put: TypeAlias = Callable[[Iterator[Result], bool], "array[int]"]


@dataclass(frozen=True, slots=True)
class Fed:
    """How far a feeder has come.

    Attributes:
        done: Tasks of the first stage that are done.
        unfinished: Tasks of the first stage that are not final.
        paused: Campaigns of it that hold unfinished tasks and are not open.
        chosen: How many results, or groups, were chosen.
        ranked: Out of how many they were chosen.
        left_out: Results without the value.
        cancelled: At the end: its tasks in the next stage that do not belong to the best.
        begun: At the end: such tasks that an agent already had.
        some_begun: Keys of some of them.
        tasks: At the end: ids of the chosen ones, best first.
    """

    done: int
    unfinished: int
    _: KW_ONLY
    paused: tuple[str, ...] = ()
    chosen: int = 0
    ranked: int = 0
    left_out: int = 0
    cancelled: int = 0
    begun: int = 0
    some_begun: tuple[str, ...] = ()
    tasks: array[int] = field(default_factory=lambda: array("q"), repr=False)

    @property
    def complete(self) -> bool:
        """Whether the first stage has ended."""
        return not self.unfinished


class Feeder:
    """Feeds a campaign with the best results of another one that still runs.

    At the end, it cancels tasks from there that are not among the best of all and have not begun.

    below: whether campaigns below `source` count; `target` may be one of them, and does not count.
    put: seeds results as tasks; by default with their payload and key.

    Raise `UsageError` for a campaign that would feed itself, `Forbidden` if the login may not
    cancel.
    """

    def __init__(
        self,
        database: Queries,
        source: NamedCampaign,
        target: NamedCampaign,
        wanted: Best,
        *,
        below: bool = True,
        put: Put | None = None,
    ) -> None:
        if source.path == target.path:
            raise UsageError(f"{target.path} cannot be seeded from itself")
        self._database = database
        self._source = source
        self._target = target
        self._wanted = wanted
        self._below = below
        self._put = self._seed if put is None else put
        self._move("cancel", [], begun=False)

    def run(
        self,
        on_look: Callable[[Fed], None] = lambda _: None,
        pause: Callable[[float], None] = sleep,
    ) -> Fed:
        """Feed until the first stage has ended; return the outcome.

        on_look: called every half second. pause: called to sleep so many seconds; it may raise to
        end the feeding.
        """
        fed, looked, rested_at = Fed(0, 1), 0, 0.0
        while True:
            nodes = self._nodes()
            done, unfinished = _counts(nodes)
            began = time.monotonic()
            if not unfinished or (done != looked and began >= rested_at):
                fed, looked = self.look(nodes), done
                now = time.monotonic()
                rested_at = now + REST * (now - began)
            else:
                fed = replace(fed, done=done, unfinished=unfinished, paused=_paused(nodes))
            on_look(fed)
            if fed.complete:
                return fed
            pause(POLL_S)

    def look(self, nodes: Sequence[Status] | None = None) -> Fed:
        """Seed the best so far; if the first stage has ended, settle the next one."""
        nodes = self._nodes() if nodes is None else nodes
        done, unfinished = _counts(nodes)
        fed = Fed(done, unfinished, paused=_paused(nodes))
        if unfinished and not done:
            return fed
        wanted = self._wanted.so_far(done, done + unfinished)
        wanted.number(done)  # raises at once if it is too many
        best = Selection(self._database, nodes, wanted)
        tasks = self._put(_if_any(best) if unfinished else iter(best), not unfinished)
        fed = replace(fed, chosen=len(tasks), ranked=best.ranked, left_out=best.left_out)
        if unfinished:
            return fed
        self._move("retry", tasks, status="cancelled", error_class=None, dry_run=False)
        return self._cancel_others(replace(fed, tasks=tasks), nodes)

    def _nodes(self) -> list[Status]:
        return stage(self._database, self._source, below=self._below, but=self._target.path)

    def _seed(self, results: Iterator[Result], final: bool) -> array[int]:
        """Seed results; a key with another payload is an error only at the end.

        Before, its result may turn out not to belong to the best.
        """
        tasks = array("q")
        while chunk := [Seed(result.payload, result.key) for result in islice(results, MOVE_CHUNK)]:
            seeding.seed(
                self._database,
                self._target.campaign_id,
                self._target.path,
                chunk,
                conflicts=Conflicts("fail" if final else "skip"),
                on_bad=None,
                on_progress=None,
            )
            keys = [str(seed.key) for seed in chunk]
            known = task_ids(self._database, self._target.campaign_id, keys)
            tasks.extend(known[key] for key in keys)
        return tasks

    def _cancel_others(self, fed: Fed, nodes: Sequence[Status]) -> Fed:
        """Cancel tasks of the first stage's keys, unless they are chosen or have begun."""
        chosen, cancelled, begun = set(fed.tasks), 0, []
        rows = pages(self._database, "tasks", campaign=self._target.campaign_id, status=None)
        others = (
            row for row in rows if row["task_id"] not in chosen and row["status"] != "cancelled"
        )
        while page := list(islice(others, PAGE)):
            page = self._of_first(page, nodes)
            waiting = [row["task_id"] for row in page if row["status"] in NOT_BEGUN]
            moved = self._move("cancel", waiting, begun=False)
            cancelled += moved
            begun += [row["key"] for row in page if row["status"] not in NOT_BEGUN]
            if moved < len(waiting):  # an agent, or another feeder, came first
                again = task_rows(self._database, self._target.campaign_id, waiting)
                begun += [row["key"] for row in again if row["status"] != "cancelled"]
        return replace(fed, cancelled=cancelled, begun=len(begun), some_begun=tuple(begun[:NAMED]))

    def _of_first(self, page: list[Row], nodes: Sequence[Status]) -> list[Row]:
        keys = [row["key"] for row in page]
        known: set[str] = set()
        for node in nodes:
            known |= task_ids(self._database, node.campaign_id, keys).keys()
        return [row for row in page if row["key"] in known]

    def _move(self, how: str, tasks: Sequence[int], **words: object) -> int:
        """Cancel or retry tasks of the next stage; return how many."""
        campaign = self._target.campaign_id
        return in_chunks(self._database, how, campaign=campaign, tasks=tasks, **words)


def _counts(nodes: Sequence[Status]) -> tuple[int, int]:
    return sum(node.done for node in nodes), sum(node.unfinished for node in nodes)


def _paused(nodes: Sequence[Status]) -> tuple[str, ...]:
    return tuple(node.path for node in nodes if node.unfinished and node.state != "open")


def _if_any(best: Selection) -> Iterator[Result]:
    """Return the chosen results; empty if no result has the value yet."""
    results = iter(best)
    try:
        first = list(islice(results, 1))
    except UsageError:
        return iter(())
    return chain(first, results)
