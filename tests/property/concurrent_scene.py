"""A stage for the model with open transactions: who is there, and what must hold at any moment."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Final

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from psycopg.rows import dict_row

from taskq import CampaignSpec, Client, RetryPolicy
from taskq.db.connections import Database
from tests.helpers.campaigns import TRUE
from tests.helpers.postgres import Postgres, assert_counts_are_true
from tests.helpers.scripted_agent import ScriptedAgent
from tests.helpers.scripted_pool import ScriptedPool
from tests.property.pooled_model import Fence, PooledModel
from tests.property.queue_model import MAX_ATTEMPTS, MAX_LOSSES
from tests.property.queue_scene import pick
from tests.property.queue_tasks import WORKING
from tests.property.tracked_connections import Lock, TrackedConnection, TrackedConnections

# A delay is over when the test says so.
POLICY: Final = RetryPolicy(
    max_attempts=MAX_ATTEMPTS, max_losses=MAX_LOSSES, backoff_s=86_400, backoff_max_s=864_000
)
#: Of sessions that fall silent only when the test says so.
LONG_S: Final = 86_400.0
POOL_S: Final = 120.0
CONNECTIONS: Final = 3
INDEX = st.integers(0, 10_000)
CONNECTION = st.integers(0, CONNECTIONS - 1)
HOLD = COMMIT = st.booleans()

_WITH_DEADLINE = "update taskq.front set pool_s = %s"
_TASKS = """
    select task_id, status::text, attempt, failures, losses,
           case when status = 'working' then session_id end as session,
           case when status = 'working' then lease_id::text end as lease
      from taskq.state where campaign_id = %s order by task_id
"""
_ATTEMPTS = """
    select task_id, attempt, lease_id::text, session_id, outcome::text, error_class
      from taskq.attempt where campaign_id = %s order by task_id, attempt
"""


class ConcurrentScene(RuleBasedStateMachine):
    """A campaign, its agents, some connections; and the model of it all.

    No rule has a precondition: what a claim gets depends on how much time has passed, and
    hypothesis wants to draw the same again. A step that makes no sense does nothing.

    fences: of attempts whose claim has ended, committed or not. claims: whose, under which lease.
    """

    numbers = itertools.count()

    database: ClassVar[Database]
    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        database = self.database
        self.connections = TrackedConnections(database, CONNECTIONS)
        self.queue = Client(database)
        self.postgres = psycopg.connect(database.dsn, autocommit=True, row_factory=dict_row)
        self.campaign = self.queue.create_campaign(f"/i{next(self.numbers)}")
        self.pool = ScriptedPool(database, self.campaign.campaign_id, POOL_S)
        self.agents: list[ScriptedAgent] = []
        self.fences: list[Fence] = []
        self.claims: list[tuple[ScriptedAgent, str]] = []

    def teardown(self) -> None:
        """End what is open; leave nothing that is silent, over its deadline or due."""
        self.connections.close()
        for agent in self.agents:
            agent.leave()
            agent.close()
        with self.at_the_deadline():
            self.postgres.execute("select taskq.expire_ahead()")
        self.postgres.execute(
            "select taskq.promote_delayed()"
        )  # what was due, and whose promotion is undone
        self.postgres.close()

    @rule(which=INDEX, commit=COMMIT)
    def end(self, which: int, commit: bool) -> None:
        """Commit a transaction, or undo it."""
        if held := self.connections.open():
            self.connections.end(pick(held, which), commit=commit)

    def do(
        self,
        connection: TrackedConnection,
        act: Callable[[Postgres], Any],
        needs: Iterable[Lock] = (),
        *,
        first: Lock = None,
        commit: bool = True,
    ) -> Any:
        """Act on a connection; see TrackedConnections.run()."""
        type(self).steps += 1
        return self.connections.run(connection, act, needs, first=first, commit=commit)

    def choose(self, late: str) -> None:
        """Choose what late results are worth."""
        spec = CampaignSpec(self.campaign.path, handler=TRUE, retry=POLICY, late_results=late)
        self.campaign.change(replace(spec, hedge=0.5 if late == "salvage" else None))
        self.connections.model.salvages = late == "salvage"

    def popped(self, some: list[int]) -> list[Fence]:
        """Return for some numbers a lease each of what is in the pool: the present one, or an old.

        In it is what is leased ahead, was so before what is open, or will be after it.
        """
        pooled = sorted({*self.connections.model.pooled(), *self.connections.coming().pooled()})
        tasks = {task for task, _ in pooled}
        fences = [*pooled, *(fence for fence in self.fences if fence[0] in tasks)]
        return sorted({pick(fences, index) for index in some}) if fences else []

    @contextmanager
    def at_the_deadline(self, *, is_over: bool = True) -> Iterator[None]:
        """Let all that is leased ahead be older than it may be, if the deadline is over."""
        if not is_over:
            yield
            return
        self.postgres.execute(_WITH_DEADLINE, [0.0])
        try:
            self.postgres.execute("select pg_sleep(0.002)")  # leases tell milliseconds
            yield
        finally:
            self.postgres.execute(_WITH_DEADLINE, [POOL_S])

    def done(self, connection: TrackedConnection, model: PooledModel, *, hold: bool) -> None:
        """Note what came of it; hold: leave the transaction open."""
        self.connections.changed(connection, model)
        if not hold:
            self.connections.end(connection, commit=True)

    # What must hold after every step, whatever is open

    @invariant()
    def all_that_is_committed_is_as_the_model_says(self) -> None:
        """Compare tasks, attempts and counts."""
        tasks = self.connections.model.tasks
        campaign = [self.campaign.campaign_id]
        rows = self.postgres.execute(_TASKS, campaign).fetchall()
        assert [tuple(row.values()) for row in rows] == [
            (
                *(task.task, task.status, task.attempt, *task.against),
                *((task.session, task.lease) if task.status == WORKING else (None, None)),
            )
            for task in tasks.values()
        ]
        rows = self.postgres.execute(_ATTEMPTS, campaign).fetchall()
        assert [tuple(row.values()) for row in rows] == [
            (task.task, end.attempt, end.lease, end.session, end.outcome, end.error_class)
            for task in tasks.values()
            for end in task.ended
        ]
        assert_counts_are_true(self.postgres, self.campaign.path)


def fetch(query: str, values: dict[str, Any]) -> Callable[[Postgres], Any]:
    """Return an act that returns the row of a query."""
    return lambda connection: connection.execute(query.encode(), values).fetchone()


def fetch_all(query: str, values: dict[str, Any]) -> Callable[[Postgres], Any]:
    """Return an act that returns the rows of a query."""
    return lambda connection: connection.execute(query.encode(), values).fetchall()
