"""What refillers and gateways do with the pool in transactions that may stay open."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.property.concurrent_scene import (
    COMMIT,
    HOLD,
    INDEX,
    LINE,
    ConcurrentScene,
    fetch,
    pick,
)
from tests.property.open_lines import Lock
from tests.property.pooled_model import POOL, Fence

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

    @rule(number=LINE, most=st.integers(1, 3), hold=HOLD)
    def lease_ahead(self, number: int, most: int, hold: bool) -> None:
        """Lease tasks ahead."""
        line = self.lines.begin(number)
        values = {
            "epoch": self.pool.state["epoch"],
            "campaign": self.campaign.campaign_id,
            "most": most,
        }
        row = self.do(line, fetch(_LEASE, values))
        leased = [self.pool.read(entry) for entry in row["entries"] or ()]
        model = self.lines.free()
        poolable = [task.task for task in model.poolable()]
        got = [one.task for one in leased]
        assert got == [task for task in poolable if task in got]
        assert min(1, len(poolable)) <= len(got) <= most
        for one in leased:
            task = model.tasks[one.task]
            model.claim(task, POOL, one.lease)
            assert (one.attempt, one.key) == (task.attempt, task.key)
        line.at_end.append(lambda _: self.fences.extend((one.task, one.lease) for one in leased))
        self.done(line, model, hold=hold)

    @rule(number=LINE, which=INDEX, some=st.lists(INDEX, min_size=1, max_size=3), hold=HOLD)
    def name(self, number: int, which: int, some: list[int], hold: bool) -> None:
        """Let a gateway tell who has got what it handed out."""
        line = self.lines.begin(number)
        session, fences = pick(self.agents, which).session, self.popped(some)
        values = {"sessions": [session] * len(fences), **self._columns(fences)}
        row = self.do(line, fetch(_NAME, values))
        model = self.lines.free()
        assert row["n"] == model.name(session, fences)
        self.done(line, model, hold=hold)

    @rule(number=LINE, some=st.lists(INDEX, min_size=1, max_size=3), hold=HOLD)
    def return_ahead(self, number: int, some: list[int], hold: bool) -> None:
        """Let a gateway give back what it has in hand."""
        line = self.lines.begin(number)
        fences = self.popped(some)
        row = self.do(line, fetch(_RETURN, self._columns(fences)))
        model = self.lines.free()
        assert row["n"] == model.return_ahead(fences)
        self.done(line, model, hold=hold)

    @rule(number=LINE, hold=HOLD, commit=COMMIT)
    def pass_deadline(self, number: int, hold: bool, commit: bool) -> None:
        """Let the pool's deadline pass, and its keeper look through all that is leased."""
        sweep: Lock = ("sweep",)
        for other in self.lines.open_lines():
            if sweep in other.locks:  # there is but one keeper
                self.lines.end(other, commit=commit)
        line = self.lines.begin(number)
        with self.at_the_deadline():
            row = self.do(line, fetch("select taskq.expire_ahead() as n", {}))
        line.locks.add(sweep)
        model = self.lines.free()
        assert row["n"] == model.pass_deadline()
        self.done(line, model, hold=hold)

    def _columns(self, fences: list[Fence]) -> dict[str, Any]:
        return {
            "campaigns": [self.campaign.campaign_id] * len(fences),
            "tasks": [task for task, _ in fences],
            "leases": [lease for _, lease in fences],
        }
