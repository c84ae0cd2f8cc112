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
from taskq.dispatch.exchange_request import ExchangeRequest
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
Callback: TypeAlias = Callable[[Answer | Exception], None]
#: What became of the reports: an answer with their verdicts, or why there are none.
Reported: TypeAlias = Answer | TransportFailed
_NOTHING: Final = Answer()


@dataclass(slots=True)
class _Whole(Submitted):
    """An exchange that the database does as a whole, if it can. There are thousands a second."""

    fronted: Fronted | None = None

    def resolve(self, outcome: Answer | Exception) -> None:
        """Tell how it ended, or let the front have a try."""
        fronted, self.fronted = self.fronted, None
        if fronted is None or (isinstance(outcome, Answer) and outcome.tasks):
            Submitted.resolve(self, outcome)
        else:
            fronted.on_answer(self, outcome)


class Fronted:
    """Exchanges of one asyncio loop, by a batcher, which is the caller's to close, and a pool."""

    def __init__(self, batcher: Batcher, pool: Pool, statements: StatementPool) -> None:
        self._batcher = batcher
        self.pool = pool
        self._statements = statements
        self._bindings = Bindings(statements)
        # Who waits to learn what the tasks of a campaign share.
        self._asking: dict[int, list[tuple[Submitted, Reported, list[Task]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to look after the pool and what comes from it, in the background."""
        await self.pool.start()
        self._spawn(self._bindings.keep())

    async def close(self) -> None:
        """End that; what is under way goes on in the database."""
        await cancel(self._tasks)
        for waiting in self._asking.values():
            for submitted, _, _ in waiting:
                submitted.resolve(TransportFailed("the gateway ends"))
        await self.pool.close()

    @property
    def heartbeat_s(self) -> float:
        """How often agents must beat, so that what they got is named well before its deadline."""
        return self.pool.pool_s / 4

    def submit(self, exchange: ExchangeRequest, callback: Callback) -> Submitted:
        """Report and claim; see `Batcher.submit`."""
        self._bindings.reported(exchange.fences)
        if not exchange.want or self._bindings.has_ended(exchange.session):
            return self._batcher.submit(exchange, callback)
        submitted = Submitted(exchange, callback)
        if not exchange.reports:
            if not self._claim_from_front(submitted, _NOTHING):
                return self._batcher.submit(exchange, callback)
        elif self._batcher.under_way >= CROWDED or not self.pool.has_entries(exchange.scope):
            submitted = _Whole(exchange, callback, None, self)
            self._batcher.put(submitted)
        else:
            reports = exchange._replace(want=0)
            submitted.part = self._batcher.submit(reports, partial(self._reported, submitted))
        return submitted

    def on_answer(self, submitted: Submitted, outcome: Answer | Exception) -> None:
        """Take an answer of the database without tasks; the front may have some."""
        if isinstance(outcome, TransportFailed):
            self._claim(submitted, outcome)
            return
        if (
            isinstance(outcome, Answer)
            and not outcome.tasks
            and self.pool.has_entries(submitted.exchange.scope)
            and self._claim_from_front(submitted, outcome, otherwise=outcome)
        ):
            return  # all that waits is leased ahead
        submitted.resolve(outcome)

    def _reported(self, submitted: Submitted, outcome: Answer | Exception) -> None:
        if isinstance(outcome, (Answer, TransportFailed)):
            self._claim(submitted, outcome)
        else:
            submitted.resolve(outcome)

    def _claim(self, submitted: Submitted, reported: Reported) -> None:
        if submitted.callback is not None and not self._claim_from_front(submitted, reported):
            self._miss(submitted, reported)

    def _claim_from_front(
        self, submitted: Submitted, reported: Reported, otherwise: Answer | None = None
    ) -> bool:
        """Claim from the front; say whether that is possible. otherwise: if it has nothing."""
        exchange = submitted.exchange
        taken = partial(self._taken, submitted, reported, otherwise)
        return self.pool.submit(
            exchange.session, exchange.lease, exchange.want, exchange.scope, taken
        )

    def _taken(
        self,
        submitted: Submitted,
        reported: Reported,
        otherwise: Answer | None,
        tasks: list[Task],
    ) -> None:
        if not tasks and otherwise is not None:
            submitted.resolve(otherwise)
            return
        if not tasks:
            self._miss(submitted, reported)
            return
        campaign = self._batcher.campaign_cache.of(tasks[0])
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
        if submitted.callback is None:
            # Its client has gone. It gets the same tasks if it asks again soon.
            return
        for task in tasks:
            task.revision = campaign.revision  # leased before the campaign was changed, perhaps
        self._bindings.note(submitted.exchange.session, tasks)
        told = _NOTHING if isinstance(reported, TransportFailed) else reported
        answer = Answer(told.acks, tuple(tasks), (campaign,), timeline=told.timeline)
        submitted.resolve(answer)

    async def _describe(self, campaign: int) -> None:
        """Learn what the tasks of a campaign share, and go on with who waits for that."""
        try:
            rows = await self._statements.rows("campaign_by_id", campaign=campaign)
        except Exception as error:
            if not isinstance(error, (TaskqError, Busy)):
                log.exception("a campaign could not be looked up")
            for submitted, _, _ in self._asking.pop(campaign):
                submitted.resolve(TransportFailed(str(error)))  # the tasks go back by themselves
            return
        for submitted, reported, tasks in self._asking.pop(campaign):
            if rows:
                known = self._batcher.campaign_cache.put(rows[0])
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
            submitted.resolve(reported)
        elif submitted.callback is not None:
            claim = submitted.exchange._replace(reports=(), fences=())
            submitted.part = self._batcher.submit(claim, partial(_claimed, submitted, reported))


def _claimed(submitted: Submitted, reported: Answer, outcome: Answer | Exception) -> None:
    if reported.acks and isinstance(outcome, Answer):
        outcome.acks, outcome.timeline = reported.acks, reported.timeline
    elif reported.acks and isinstance(outcome, TransportFailed):
        outcome = reported  # the reports have their verdicts; claim again
    submitted.resolve(outcome)
