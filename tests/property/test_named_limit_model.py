"""Limits that campaigns share under any order of claims, reports, losses and changes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from taskq import Campaign, CampaignSpec, Client
from taskq.db.connections import Database
from tests.helpers.scripted_agent import Claimed, ScriptedAgent, report_of
from tests.helpers.variants import rest_thorough
from tests.property.exploring import explore

COUNT = st.integers(1, 6)
NUMBER = st.integers(0, 2)
SLOTS = (1, 2, 9)


@dataclass
class Serving:
    """A campaign, the limits that it names, its only agent, and what that holds.

    counted: for each task held, the limits that the campaign named when it was claimed.
    """

    campaign: Campaign
    agent: ScriptedAgent
    slots: int
    names: tuple[str, ...]
    waiting: int = 0
    counted: list[tuple[Claimed, tuple[str, ...]]] = field(default_factory=list)

    def held(self, name: str) -> int:
        """Return how many of its tasks count towards a limit."""
        return sum(name in names for _, names in self.counted)


class NamedLimitMachine(RuleBasedStateMachine):
    """Three campaigns, with an agent each, and two limits."""

    numbers = itertools.count()
    database: ClassVar[Database]

    def __init__(self) -> None:
        super().__init__()
        number = next(self.numbers)
        self.queue = Client(self.database)
        self.limits = {f"l{number}-{n}": most for n, most in enumerate((3, 5))}
        for name, most in self.limits.items():
            self.queue.limits.set(name, most)
        first, second = self.limits
        self.keys = itertools.count()
        self.all = [
            self._serving(f"/l{number}/{n}", slots, names)
            for n, (slots, names) in enumerate(
                zip(SLOTS, ((first,), (first, second), (second,)), strict=True)
            )
        ]

    def _serving(self, path: str, slots: int, names: tuple[str, ...]) -> Serving:
        campaign = self.queue.create_campaign(CampaignSpec(path, named_limits=names))
        return Serving(
            campaign, ScriptedAgent(self.database, path, slots=slots), slots, tuple(sorted(names))
        )

    def teardown(self) -> None:
        """Close the connections."""
        for serving in self.all:
            serving.agent.close()

    def _used(self, name: str) -> int:
        return sum(min(it.slots, it.held(name)) for it in self.all)

    def _gets(self, serving: Serving, want: int) -> int:
        """Return how many tasks a claim gets."""
        fits = want
        for name in serving.names:
            held, left = serving.held(name), self.limits[name] - self._used(name)
            if min(serving.slots, held + fits) - min(serving.slots, held) > left:
                fits = max(0, left)
        return min(fits, serving.waiting)

    @rule(number=NUMBER, count=COUNT)
    def seed(self, number: int, count: int) -> None:
        """Seed a chunk."""
        self.all[number].campaign.seed([{"n": next(self.keys)} for _ in range(count)])
        self.all[number].waiting += count

    @rule(number=NUMBER, want=COUNT, done=st.integers(0, 3))
    def exchange(self, number: int, want: int, done: int) -> None:
        """Report some tasks and claim others at once: exactly what the limits leave."""
        serving = self.all[number]
        ended, serving.counted = serving.counted[:done], serving.counted[done:]
        expected = self._gets(serving, want)
        answer = serving.agent.exchange([report_of(task, "done") for task, _ in ended], want)
        tasks = serving.agent.claimed(answer)
        assert len(tasks) == expected
        serving.waiting -= expected
        serving.counted += [(task, serving.names) for task in tasks]

    @rule(number=NUMBER)
    def leave(self, number: int) -> None:
        """End the session: all that it holds goes back, and another agent comes."""
        serving = self.all[number]
        assert serving.agent.leave() == len(serving.counted)
        serving.waiting += len(serving.counted)
        serving.counted = []
        serving.agent.close()
        serving.agent = ScriptedAgent(self.database, serving.campaign.path, slots=serving.slots)

    @rule(number=NUMBER, chosen=st.lists(st.integers(0, 1), max_size=2, unique=True))
    def rename(self, number: int, chosen: list[int]) -> None:
        """Name other limits: what was claimed under the old ones counts there until it ends."""
        serving = self.all[number]
        names = tuple(sorted([*self.limits][n] for n in chosen))
        serving.campaign.change(CampaignSpec(serving.campaign.path, named_limits=names))
        serving.names = names

    @rule(number=st.integers(0, 1), most=st.integers(0, 6))
    def change(self, number: int, most: int) -> None:
        """Change a limit; it takes nothing back."""
        name = [*self.limits][number]
        self.queue.limits.set(name, most)
        self.limits[name] = most

    @invariant()
    def limits_show_what_runs(self) -> None:
        """List exactly what counts."""
        shown = {limit.name: limit for limit in self.queue.limits.list()}
        for name, most in self.limits.items():
            limit = shown[name]
            assert (limit.used, limit.most) == (self._used(name), most)
            assert limit.is_full is (limit.used >= most)
            assert sum(held.tasks for held in limit.holders) == sum(
                it.held(name) for it in self.all
            )


@pytest.mark.parametrize("examples", rest_thorough([6, 40]))
def test_named_limits_hold_in_any_order(database: Database, examples: int) -> None:
    """A claim gets exactly what the limits of its campaign leave over all campaigns."""
    NamedLimitMachine.database = database
    explore(NamedLimitMachine, examples)
