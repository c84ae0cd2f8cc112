"""Steps of refillers and gateways with the pool in transactions that may stay open."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.property.concurrent_scene import (
    COMMIT,
    CONNECTION,
    HOLD,
    INDEX,
    ConcurrentScene,
    fetch,
)
from tests.property.pooled_model import POOL, Fence
from tests.property.queue_scene import pick
from tests.property.tracked_connections import Lock

_LEASE = "select entries from taskq.lease_ahead(%(epoch)s, %(campaign)s, %(most)s)"
_NAME = """
    select taskq.name_ahead(
               %(sessions)s::bigint[], %(campaigns)s::bigint[], %(tasks)s::bigint[],
               %(leases)s::uuid[]) as n
"""
_RETURN = """
    select taskq.return_ahead(
               %(campaigns)s::bigint[], %(tasks)s::bigint[], %(leases)s::uuid[]) as n
"""


class ConcurrentPool(ConcurrentScene):
    """A refiller, gateways that pop what it has leased, and the deadline of what they lose."""

    @rule(number=CONNECTION, most=st.integers(1, 3), hold=HOLD)
    def lease_ahead(self, number: int, most: int, hold: bool) -> None:
        """Lease tasks ahead."""
        connection = self.connections.begin(number)
        values = {
            "epoch": self.pool.state["epoch"],
            "campaign": self.campaign.campaign_id,
            "most": most,
        }
        row = self.do(connection, fetch(_LEASE, values))
        leased = [self.pool.read(entry) for entry in row["entries"] or ()]
        model = self.connections.free()
        poolable = {task.task: bool(task.avoids) for task in model.poolable()}
        got = [task.task for task in leased]
        assert set(got) <= set(poolable)
        for again in (
            False,
            True,
        ):  # those that have failed come last, as long as a position is known
            kind = [task for task in got if poolable[task] == again]
            assert kind == [task for task in poolable if task in kind]
        assert min(1, len(poolable)) <= len(got) <= most
        for claim in leased:
            task = model.tasks[claim.task]
            model.claim(task, POOL, claim.lease)
            assert (claim.attempt, claim.key) == (task.attempt, task.key)
        connection.at_end.append(
            lambda _: self.fences.extend((task.task, task.lease) for task in leased)
        )
        self.done(connection, model, hold=hold)

    @rule(number=CONNECTION, which=INDEX, some=st.lists(INDEX, min_size=1, max_size=3), hold=HOLD)
    def name(self, number: int, which: int, some: list[int], hold: bool) -> None:
        """Let a gateway tell who has got what it handed out."""
        connection = self.connections.begin(number)
        session, fences = pick(self.agents, which).session, self.popped(some)
        values = {"sessions": [session] * len(fences), **self._columns(fences)}
        row = self.do(connection, fetch(_NAME, values))
        model = self.connections.free()
        assert row["n"] == model.name(session, fences)
        self.done(connection, model, hold=hold)

    @rule(number=CONNECTION, some=st.lists(INDEX, min_size=1, max_size=3), hold=HOLD)
    def return_ahead(self, number: int, some: list[int], hold: bool) -> None:
        """Let a gateway give back what it has in hand."""
        connection = self.connections.begin(number)
        fences = self.popped(some)
        row = self.do(connection, fetch(_RETURN, self._columns(fences)))
        model = self.connections.free()
        assert row["n"] == model.return_ahead(fences)
        self.done(connection, model, hold=hold)

    @rule(number=CONNECTION, hold=HOLD, commit=COMMIT)
    def pass_deadline(self, number: int, hold: bool, commit: bool) -> None:
        """Let the pool's deadline pass, and its keeper look through all that is leased."""
        sweep: Lock = ("sweep",)
        for other in self.connections.open():
            if sweep in other.locks:  # there is but one keeper
                self.connections.end(other, commit=commit)
        connection = self.connections.begin(number)
        with self.at_the_deadline():
            row = self.do(connection, fetch("select taskq.expire_ahead() as n", {}))
        connection.locks.add(sweep)
        model = self.connections.free()
        assert row["n"] == model.pass_deadline()
        self.done(connection, model, hold=hold)

    def _columns(self, fences: list[Fence]) -> dict[str, Any]:
        return {
            "campaigns": [self.campaign.campaign_id] * len(fences),
            "tasks": [task for task, _ in fences],
            "leases": [lease for _, lease in fences],
        }
