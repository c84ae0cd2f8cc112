"""Steps about a limit that the campaign of the model shares with another one."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from taskq import CampaignSpec
from tests.helpers.postgres import value
from tests.helpers.scripted_agent import Claimed, ScriptedAgent, report_of
from tests.property.queue_scene import QueueScene

_SLOTS = 2


class QueueLimits(QueueScene):
    """Each step is done to the queue and to the model, whose answers must be the same.

    A neighbour at a site of its own, whose agent starts two tasks at a time, names the limit if
    there is one. next_door: what it holds, with whether that counts.
    """

    def __init__(self) -> None:
        super().__init__()
        name = f"neighbour{self.campaign.campaign_id}"
        self.limit = name
        self.neighbour = self.queue.create_campaign(CampaignSpec(f"/{name}"))
        self.visitor = ScriptedAgent(
            self.database, f"/{name}", lease_s=86_400, host="far", site="away", slots=_SLOTS
        )
        self.payloads = itertools.count()
        self.next_door: list[tuple[Claimed, bool]] = []

    def _close(self) -> None:
        if self.model.limit.most is not None:
            self.queue.limits.remove(self.limit)
        self.visitor.close()
        super()._close()

    @rule(most=st.none() | st.integers(0, 4), named=st.booleans())
    def limit_starts(self, most: int | None, named: bool) -> None:
        """Set the limit, which the campaign names or not, or remove it: that takes nothing back."""
        limit = self.model.limit
        if most is not None:
            self.queue.limits.set(self.limit, most)
        elif limit.most is not None:
            self.queue.limits.remove(self.limit)
        limit.most, limit.named = most, most is not None and named
        self.change_to(named_limits=(self.limit,) if limit.named else ())
        names = () if most is None else (self.limit,)
        self.neighbour.change(replace(self.neighbour.spec(), named_limits=names))

    @rule(done=st.integers(0, 4), want=st.integers(0, 4))
    def work_elsewhere(self, done: int, want: int) -> None:
        """Let the agent of the other campaign report some tasks, and claim what is left."""
        limit, tasks = self.model.limit, self.model.tasks.values()
        ended, kept = self.next_door[:done], self.next_door[done:]
        held = sum(counts for _, counts in kept)
        limit.elsewhere = min(_SLOTS, held)
        used = limit.used(tasks, self.model.slots)
        gets = limit.fits(want, held=held, slots=_SLOTS, used=used)
        self.neighbour.seed({"n": next(self.payloads)} for _ in range(want))
        answer = self.visitor.exchange([report_of(task, "done") for task, _ in ended], want)
        claimed = self.visitor.claimed(answer)
        assert len(claimed) == gets
        self.next_door = [*kept, *((task, limit.most is not None) for task in claimed)]
        limit.elsewhere = min(_SLOTS, sum(counts for _, counts in self.next_door))

    @rule()
    def free_limits(self) -> None:
        """Let the keeper look for what has ended, which nobody can see."""
        self.postgres.execute("select taskq.free_limits()")

    @invariant()
    def limit_counts_what_runs(self) -> None:
        """Compare the starts that are shown; what decides about claims never counts fewer."""
        limit, tasks = self.model.limit, self.model.tasks.values()
        shown = {named.name: named for named in self.queue.limits.list()}.get(self.limit)
        assert (shown and shown.most) == limit.most
        if shown is not None:
            used = limit.used(tasks, self.model.slots)
            assert (shown.used, shown.is_full) == (used, used >= shown.most)
            held = {
                self.campaign.path: sum(limit.held(tasks).values()),
                self.neighbour.path: sum(counts for _, counts in self.next_door),
            }
            assert {holder.path: holder.tasks for holder in shown.holders} == +Counter(held)
            assert value(self.postgres, "select taskq.starts_in_limit(0, %s)", self.limit) >= used
