"""Waits of submitters for the ends of calls: requests that are answered when a task has ended.

A wait costs a future, no connection and no statement of its own. Reports that pass through this
gateway end it at once. Tasks may also end elsewhere: by another gateway, a direct agent, or a
manager who cancels them. So one statement asks for many waits together (see ended_among.sql): soon
after the latest wait has begun, then after pauses that grow with its age, and never for more than a
tenth of the time. If more tasks are waited for than it asks about, they take turns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Final

from taskq.dispatch.endings import Closing, cancel, resolve
from taskq.gateway.http.errors import Busy
from taskq.gateway.metrics import Metrics
from taskq.gateway.statement_pool import StatementPool
from taskq.model.loop_faults import LoopFaults
from taskq.model.pauses import grown
from taskq_agent.protocol import ACCEPTED, DUPLICATE, Ack

log: Final = logging.getLogger(__name__)

#: Longest wait, in seconds.
MOST_WAIT_S: Final = 30.0
#: Tasks of one wait.
MOST_WAITED_TASKS: Final = 32
#: Waits at a time: in all, and of one token.
MOST_WAITS: Final = 8_192
MOST_WAITS_OF_TOKEN: Final = 256
#: The shortest pause between statements, in seconds; it grows with the age of the latest wait.
FIRST_PAUSE_S: Final = 0.02
#: After a statement, the next one rests for this many times its length.
REST: Final = 10
#: Tasks that one statement asks about.
MOST_ASKED: Final = 2_000


class EndWait:
    """One wait. ended: set when one of its tasks has ended, or nobody waits any more."""

    def __init__(self, token: str, campaign: int, tasks: Sequence[int], metrics: Metrics) -> None:
        self.token = token
        self.campaign = campaign
        self.tasks = tasks
        self._metrics = metrics
        self.ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def wait(self, seconds: float) -> None:
        """Wait until one of the tasks has ended, the time is up, or `give_up` was called."""
        timer = asyncio.get_running_loop().call_later(seconds, self.give_up)
        self._metrics.awaiting += 1
        try:
            await self.ended
        finally:
            self._metrics.awaiting -= 1
            timer.cancel()

    def give_up(self) -> None:
        """End the wait."""
        resolve(self.ended, False)


class EndWaits(Closing):
    """The waits at one gateway; for one asyncio loop."""

    def __init__(self, statements: StatementPool, metrics: Metrics) -> None:
        self._statements = statements
        self._metrics = metrics
        # In the order in which to ask about them.
        self._waits: dict[EndWait, None] = {}
        self._of_task: dict[tuple[int, int], set[EndWait]] = {}
        self._of_token: dict[str, int] = {}
        self._latest_at = 0.0
        self._asking: asyncio.Task[None] | None = None
        self._begun = asyncio.Event()
        self._faults = LoopFaults(log, "looking for ended tasks")
        self._draining = False

    @contextmanager
    def begun(self, token: str, campaign: int, tasks: Sequence[int]) -> Iterator[EndWait]:
        """Provide a wait, which notes all ends from now on; raise `Busy` if there are too many."""
        count = self._of_token.get(token, 0)
        if self._draining or len(self._waits) >= MOST_WAITS or count >= MOST_WAITS_OF_TOKEN:
            raise Busy
        self._latest_at = asyncio.get_running_loop().time()
        wait = EndWait(token, campaign, tasks, self._metrics)
        self._of_token[token] = count + 1
        self._waits[wait] = None
        for task in tasks:
            self._of_task.setdefault((campaign, task), set()).add(wait)
        self._begun.set()
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._ask_while_waiting())
        try:
            yield wait
        finally:
            self._leave(wait)

    def reported(self, acks: Iterable[Ack]) -> None:
        """End the waits for tasks on which a report was accepted."""
        if self._of_task:
            good = (ACCEPTED, DUPLICATE)
            self._end((ack.campaign, ack.task) for ack in acks if ack.verdict in good)

    def drain(self) -> None:
        """End all waits, now and from now on."""
        self._draining = True
        for wait in self._waits:
            wait.give_up()
        self._begun.set()

    async def close(self) -> None:
        """End all waits."""
        self.drain()
        await cancel([self._asking] if self._asking is not None else [])

    def _leave(self, wait: EndWait) -> None:
        del self._waits[wait]
        for task in wait.tasks:
            others = self._of_task.get((wait.campaign, task))
            if others is not None:
                others.discard(wait)
                if not others:
                    del self._of_task[wait.campaign, task]
        self._of_token[wait.token] -= 1
        if not self._of_token[wait.token]:
            del self._of_token[wait.token]

    def _end(self, ended: Iterable[tuple[int, int]]) -> None:
        for task in ended:
            for wait in self._of_task.get(task, ()):
                resolve(wait.ended, True)

    async def _ask_while_waiting(self) -> None:
        clock = asyncio.get_running_loop().time
        rested_at = clock()
        try:
            while self._waits and not self._draining:
                due_at = clock() + grown(clock() - self._latest_at, FIRST_PAUSE_S)
                while await self._is_begun_before(max(due_at, rested_at)):
                    due_at = min(due_at, clock() + FIRST_PAUSE_S)
                asked_at = clock()
                with self._faults.noted(), suppress(Busy):
                    await self._ask()
                rested_at = clock() + REST * (clock() - asked_at)
        finally:
            self._asking = None

    async def _is_begun_before(self, moment: float) -> bool:
        """Return true as soon as a wait begins, false at a moment."""
        self._begun.clear()
        with suppress(asyncio.TimeoutError):
            left_s = moment - asyncio.get_running_loop().time()
            return not self._draining and await asyncio.wait_for(self._begun.wait(), left_s)
        return False

    async def _ask(self) -> None:
        """Ask which of the tasks have ended, those first that were asked about least lately."""
        campaigns: list[int] = []
        tasks: list[int] = []
        for wait in list(islice(self._waits, MOST_ASKED)):
            if len(tasks) + len(wait.tasks) > MOST_ASKED:
                break
            campaigns += [wait.campaign] * len(wait.tasks)
            tasks += wait.tasks
            self._waits[wait] = self._waits.pop(wait)  # the last from now on
        if tasks:
            rows = await self._statements.rows("ended_among", campaigns=campaigns, tasks=tasks)
            self._end((row["campaign_id"], row["task_id"]) for row in rows)
