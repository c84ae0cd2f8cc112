"""The queue against its model while transactions are open: who sees what, passes over, or waits."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from taskq import Seed
from taskq.db.connections import Database
from taskq_agent.protocol import DONE
from tests.property.concurrent_agents import ConcurrentAgents, Word
from tests.property.concurrent_pool import ConcurrentPool
from tests.property.concurrent_scene import COMMIT, CONNECTION, HOLD, INDEX
from tests.property.concurrent_upkeep import ConcurrentUpkeep
from tests.property.exploring import explore
from tests.property.queue_scene import pick
from tests.property.queue_tasks import Task

pytestmark = pytest.mark.thorough

log = logging.getLogger(__name__)


class ConcurrentMachine(ConcurrentAgents, ConcurrentPool, ConcurrentUpkeep):
    """Each step is one function in a transaction of its own, which may stay open for a while."""

    @initialize(late=st.sampled_from(["salvage", "salvage", "reject"]))
    def begin(self, late: str) -> None:
        """Begin with tasks that wait, are worked on, again or not, or leased ahead."""
        self.choose(late)
        self.campaign.seed(Seed({}, f"k{n}", priority=n % 2) for n in range(8))
        for view in self.campaign.tasks():
            task = Task(view.task_id, view.key, view.priority, view.priority)
            self.connections.model.tasks[view.task_id] = task
        for which, want in enumerate((2, 1, 1)):
            self.come()
            self.claim(0, which, want, again=False, hold=False, commit=True)
        self.expire(0, 0, hold=False)
        self.claim(1, 1, 1, again=False, hold=False, commit=True)  # from the first task on
        self.lease_ahead(2, 2, hold=False)

    @rule(number=CONNECTION, which=INDEX, hold=HOLD, commit=COMMIT)
    def withdraw(self, number: int, which: int, hold: bool, commit: bool) -> None:
        """Withdraw all results, to which one is added before if something is at work."""
        tasks = self.connections.model.tasks
        is_late = self.connections.model.is_late
        held = [(task, lease) for task, lease in self.fences if not is_late(tasks[task], lease)]
        if held:
            self._report(number, which, {pick(held, which): Word(DONE)}, hold=False, commit=commit)
        self.retry(number, DONE, hold, commit)

    @rule(
        how=st.sampled_from(["come", "fold", "leave", "promote"]),
        number=CONNECTION,
        which=INDEX,
        hold=HOLD,
        commit=COMMIT,
    )
    def happen(self, how: str, number: int, which: int, hold: bool, commit: bool) -> None:
        """Let happen what happens now and then."""
        act: Callable[[int, int, bool, bool], None] = getattr(self, how)
        act(number, which, hold, commit)


def test_open_transactions_do_what_the_model_says(database: Database) -> None:
    """Whatever is under way, waits, commits or is undone."""
    with psycopg.connect(database.dsn, autocommit=True) as postgres:  # so that it can be over
        postgres.execute("alter table taskq.front drop constraint front_pool_range")
    ConcurrentMachine.database = database
    begun = time.monotonic()
    try:
        explore(ConcurrentMachine, 40)
    finally:
        log.info("%d steps in %.0f s", ConcurrentMachine.steps, time.monotonic() - begun)
