"""Exchanges whose claims are served from the front, where it has tasks.

Reports go to the database first: its verdict is final. Then the claim takes tasks leased ahead from
the front. If the front has none, the claim goes to the database, so agents do not notice whether
there is a front. While the database is away, claims are still served; reports then get no verdict
and stay with the agent, which sends them again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from taskq.dispatch.batching import Batcher, Callback, Submitted
from taskq.dispatch.endings import cancel
from taskq.dispatch.exchange_request import ExchangeRequest
from taskq.front.pool import Pool
from taskq.gateway.bindings import Bindings
from taskq.gateway.http.errors import Busy
from taskq.gateway.statement_pool import StatementPool
from taskq.model.errors import TaskqError
from taskq_agent.errors import TransportFailed
from taskq_agent.protocol import Answer, CampaignTerms, Task

log = logging.getLogger(__name__)

#: From this many exchanges under way, claims go to the database with their reports: they cost less
#: in a large batch than apart from it.
CROWDED: Final = 16
#: The result of the reports: an answer with their verdicts, or the error that prevented them.
Reported: TypeAlias = Answer | TransportFailed
_NOTHING: Final = Answer()


@dataclass(slots=True)
class _Whole(Submitted):
    """An exchange sent to the database as a whole; the front is tried if that brings no tasks."""

    fronted: Fronted | None = None

    def resolve(self, outcome: Answer | Exception) -> None:
        """Pass an answer with tasks to the callback; otherwise try the front."""
        fronted, self.fronted = self.fronted, None
        if fronted is None or (isinstance(outcome, Answer) and outcome.tasks):
            Submitted.resolve(self, outcome)
        else:
            fronted.on_answer(self, outcome)


class Fronted:
    """Runs exchanges of one asyncio loop by a batcher and a pool; the caller closes the batcher."""

    def __init__(self, batcher: Batcher, pool: Pool, statements: StatementPool) -> None:
        self._batcher = batcher
        self.pool = pool
        self._statements = statements
        self._bindings = Bindings(statements)
        # The exchanges that wait for the terms of a campaign.
        self._asking: dict[int, list[tuple[Submitted, Reported, list[Task]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start the pool and the binding of its tasks, in the background."""
        await self.pool.start()
        self._spawn(self._bindings.keep())

    async def close(self) -> None:
        """Stop the background tasks and close the pool; the batcher goes on."""
        await cancel(self._tasks)
        for waiting in self._asking.values():
            for submitted, _, _ in waiting:
                submitted.resolve(TransportFailed("the gateway ends"))
        await self.pool.close()

    @property
    def heartbeat_s(self) -> float:
        """Seconds between heartbeats that name tasks well before the pool's deadline."""
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
            submitted = _Whole(exchange, callback, fronted=self)
            self._batcher.put(submitted)
        else:
            reports = exchange._replace(want=0)
            submitted.part = self._batcher.submit(reports, partial(self._reported, submitted))
        return submitted

    def on_answer(self, submitted: Submitted, outcome: Answer | Exception) -> None:
        """Handle an answer of the database without tasks: the front may have some."""
        if isinstance(outcome, TransportFailed):
            self._claim(submitted, outcome)
            return
        if (
            isinstance(outcome, Answer)
            and not outcome.tasks
            and self.pool.has_entries(submitted.exchange.scope)
            and self._claim_from_front(submitted, outcome, otherwise=outcome)
        ):
            return  # every waiting task is leased ahead
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
        """Claim from the front; return whether it may have tasks.

        otherwise: the answer if the front turns out to have none; None means to claim in the
        database.
        """
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
            task.revision = campaign.revision  # the task may have been leased under an older one
        self._bindings.note(submitted.exchange.session, tasks)
        verdicts = _NOTHING if isinstance(reported, TransportFailed) else reported
        answer = Answer(verdicts.acks, tuple(tasks), (campaign,), timeline=verdicts.timeline)
        submitted.resolve(answer)

    async def _describe(self, campaign: int) -> None:
        """Look up the terms of a campaign, then answer the exchanges that wait for them."""
        try:
            rows = await self._statements.rows("campaign_by_id", campaign=campaign)
        except Exception as error:
            if not isinstance(error, (TaskqError, Busy)):
                log.exception("a campaign could not be looked up")
            for submitted, _, _ in self._asking.pop(campaign):
                submitted.resolve(TransportFailed(str(error)))  # the tasks' leases expire
            return
        for submitted, reported, tasks in self._asking.pop(campaign):
            if rows:
                known = self._batcher.campaign_cache.put(rows[0])
                self._answer(submitted, reported, tasks, known)
            else:  # removed just now, with its tasks
                self._miss(submitted, reported)

    def _spawn(self, steps: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(steps)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _miss(self, submitted: Submitted, reported: Reported) -> None:
        """Claim in the database, since the front has no tasks."""
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
