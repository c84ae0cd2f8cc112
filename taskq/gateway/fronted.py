"""Exchanges of which the claims are served from the front, where it has tasks.

Reports go to the database first, whose verdict is final; then the claim pops what was leased
ahead. What the front has not got is claimed in the database, so that nobody notices whether there
is one. While the database is away, tasks go out all the same, and reports without a verdict stay
with the agent, which sends them again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from taskq.dispatch.batching import Batcher, Submitted
from taskq.dispatch.closing import cancel
from taskq.dispatch.exchange_request import Asked
from taskq.errors import TaskqError
from taskq.front.pool import Pool
from taskq.gateway.bindings import Bindings
from taskq.gateway.db_pool import StatementPool
from taskq.gateway.errors import Busy
from taskq_agent.errors import TransportFailed
from taskq_agent.protocol import Answer, CampaignTerms, Task

log = logging.getLogger(__name__)

#: Where so many exchanges are under way together, claims may as well go along with reports: in a
#: large statement they cost less than they would apart from it.
CROWDED: Final = 16
Tell: TypeAlias = Callable[[Answer | Exception], None]
#: What became of the reports: an answer with their verdicts, or why there are none.
Reported: TypeAlias = Answer | TransportFailed
_NOTHING: Final = Answer()


@dataclass(slots=True)
class _Whole(Submitted):
    """An exchange that the database does as a whole, if it can. There are thousands a second."""

    fronted: Fronted | None = None

    def settle(self, outcome: Answer | Exception) -> None:
        """Tell how it ended, or let the front have a try."""
        fronted, self.fronted = self.fronted, None
        if fronted is None or (isinstance(outcome, Answer) and outcome.tasks):
            Submitted.settle(self, outcome)
        else:
            fronted.exchanged(self, outcome)


class Fronted:
    """Exchanges of one asyncio loop, by a gatherer, which is the caller's to close, and a pool."""

    def __init__(self, gatherer: Batcher, pool: Pool, lines: StatementPool) -> None:
        self._gatherer = gatherer
        self.pool = pool
        self._lines = lines
        self._handed_out = Bindings(lines)
        # Who waits to learn what the tasks of a campaign share.
        self._asking: dict[int, list[tuple[Submitted, Reported, list[Task]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to look after the pool and what comes from it, in the background."""
        await self.pool.start()
        self._spawn(self._handed_out.keep())

    async def close(self) -> None:
        """End that; what is under way goes on in the database."""
        await cancel(self._tasks)
        for waiting in self._asking.values():
            for submitted, _, _ in waiting:
                submitted.settle(TransportFailed("the gateway ends"))
        await self.pool.close()

    @property
    def heartbeat_s(self) -> float:
        """How often agents must beat, so that what they got is named well before its deadline."""
        return self.pool.pool_s / 4

    def submit(self, asked: Asked, tell: Tell) -> Submitted:
        """Report and claim; see `Gatherer.submit`."""
        self._handed_out.reported(asked.fences)
        if not asked.want or self._handed_out.has_ended(asked.session):
            return self._gatherer.submit(asked, tell)
        submitted = Submitted(asked, tell)
        if not asked.reports:
            if not self._pops(submitted, _NOTHING):
                return self._gatherer.submit(asked, tell)
        elif self._gatherer.under_way >= CROWDED or not self.pool.stocked(asked.serving):
            submitted = _Whole(asked, tell, None, self)
            self._gatherer.put(submitted)
        else:
            reports = asked._replace(want=0)
            submitted.part = self._gatherer.submit(reports, partial(self._reported, submitted))
        return submitted

    def exchanged(self, submitted: Submitted, outcome: Answer | Exception) -> None:
        """Take an answer of the database without tasks; the front may have some."""
        if isinstance(outcome, TransportFailed):
            self._claim(submitted, outcome)
            return
        if (
            isinstance(outcome, Answer)
            and not outcome.tasks
            and self.pool.stocked(submitted.asked.serving)
            and self._pops(submitted, outcome, otherwise=outcome)
        ):
            return  # all that waits is leased ahead
        submitted.settle(outcome)

    def _reported(self, submitted: Submitted, outcome: Answer | Exception) -> None:
        if isinstance(outcome, (Answer, TransportFailed)):
            self._claim(submitted, outcome)
        else:
            submitted.settle(outcome)

    def _claim(self, submitted: Submitted, reported: Reported) -> None:
        if submitted.tell is not None and not self._pops(submitted, reported):
            self._miss(submitted, reported)

    def _pops(
        self, submitted: Submitted, reported: Reported, otherwise: Answer | None = None
    ) -> bool:
        """Claim from the front; say whether that is possible. otherwise: if it has nothing."""
        asked = submitted.asked
        taken = partial(self._taken, submitted, reported, otherwise)
        return self.pool.submit(asked.session, asked.lease, asked.want, asked.serving, taken)

    def _taken(
        self,
        submitted: Submitted,
        reported: Reported,
        otherwise: Answer | None,
        tasks: list[Task],
    ) -> None:
        if not tasks and otherwise is not None:
            submitted.settle(otherwise)
            return
        if not tasks:
            self._miss(submitted, reported)
            return
        campaign = self._gatherer.described.of(tasks[0])
        if campaign is not None:
            self._answer(submitted, reported, tasks, campaign)
            return
        number = tasks[0].campaign
        waiting = self._asking.setdefault(number, [])
        waiting.append((submitted, reported, tasks))
        if len(waiting) == 1:
            self._spawn(self._describe(number))

    def _answer(
        self, submitted: Submitted, reported: Reported, tasks: list[Task], campaign: CampaignTerms
    ) -> None:
        if submitted.tell is None:  # its client has gone; it gets the same if it asks again soon
            return
        for task in tasks:
            task.revision = campaign.revision  # leased before the campaign was changed, perhaps
        self._handed_out.note(submitted.asked.session, tasks)
        told = _NOTHING if isinstance(reported, TransportFailed) else reported
        answer = Answer(told.acks, tuple(tasks), (campaign,), timeline=told.timeline)
        submitted.settle(answer)

    async def _describe(self, campaign: int) -> None:
        """Learn what the tasks of a campaign share, and go on with who waits for that."""
        try:
            rows = await self._lines.rows("campaign_by_id", campaign=campaign)
        except Exception as error:
            if not isinstance(error, (TaskqError, Busy)):
                log.exception("a campaign could not be looked up")
            for submitted, _, _ in self._asking.pop(campaign):
                submitted.settle(TransportFailed(str(error)))  # the tasks go back by themselves
            return
        for submitted, reported, tasks in self._asking.pop(campaign):
            if rows:
                known = self._gatherer.described.put(rows[0])
                self._answer(submitted, reported, tasks, known)
            else:  # removed just now; nobody misses its tasks
                self._miss(submitted, reported)

    def _spawn(self, steps: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(steps)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _miss(self, submitted: Submitted, reported: Reported) -> None:
        """Claim in the database, what the front has not got."""
        if isinstance(reported, TransportFailed):
            submitted.settle(reported)
        elif submitted.tell is not None:
            claim = submitted.asked._replace(reports=(), fences=())
            submitted.part = self._gatherer.submit(claim, partial(_claimed, submitted, reported))


def _claimed(submitted: Submitted, reported: Answer, outcome: Answer | Exception) -> None:
    if reported.acks and isinstance(outcome, Answer):
        outcome.acks, outcome.timeline = reported.acks, reported.timeline
    elif reported.acks and isinstance(outcome, TransportFailed):
        outcome = reported  # the reports have their verdicts; claim again
    submitted.settle(outcome)
