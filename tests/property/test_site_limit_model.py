"""Limits of a campaign and of its sites under any order of claims, reports and changes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    rule,
)

from taskq import CampaignSpec, Client
from taskq.db.connections import Database
from tests.helpers.scripted_agent import Claimed, ScriptedAgent, report_of
from tests.helpers.variants import rest_thorough
from tests.property.exploring import explore

COUNT = st.integers(1, 6)
SITES = "aab"
AGENT = st.integers(0, len(SITES) - 1)


@dataclass
class Held:
    """An agent, its site, and its tasks."""

    agent: ScriptedAgent
    site: str
    tasks: list[Claimed] = field(default_factory=list)


class SiteLimitMachine(RuleBasedStateMachine):
    """A campaign, two agents at one site and one at another."""

    numbers = itertools.count()
    database: ClassVar[Database]

    def __init__(self) -> None:
        super().__init__()
        self.path = f"/s{next(self.numbers)}"
        self.campaign = Client(self.database).create_campaign(
            CampaignSpec(self.path, max_running_per_site=3)
        )
        self.limit, self.per_site = 1_000, 3
        self.keys = itertools.count()
        self.waiting = 0
        self.agents = [
            Held(ScriptedAgent(self.database, self.path, site=site), site) for site in SITES
        ]

    def teardown(self) -> None:
        """Close the connections."""
        for held_task in self.agents:
            held_task.agent.close()

    def _working(self, site: str = SITES) -> int:
        return sum(len(held_task.tasks) for held_task in self.agents if held_task.site in site)

    @rule(count=COUNT)
    def seed(self, count: int) -> None:
        """Seed a chunk."""
        self.campaign.seed([{"n": next(self.keys)} for _ in range(count)])
        self.waiting += count

    @rule(number=AGENT, want=COUNT, done=st.integers(0, 3))
    def exchange(self, number: int, want: int, done: int) -> None:
        """Report some tasks and claim others at once: exactly what limits and tasks leave."""
        held_task = self.agents[number]
        ended, held_task.tasks = held_task.tasks[:done], held_task.tasks[done:]
        rooms = self.per_site - self._working(held_task.site), self.limit - self._working()
        answer = held_task.agent.exchange([report_of(task, "done") for task in ended], want)
        tasks = held_task.agent.claimed(answer)
        assert len(tasks) == max(0, min(want, self.waiting, *rooms))
        self.waiting -= len(tasks)
        held_task.tasks += tasks

    @rule(number=AGENT)
    def hand_back(self, number: int) -> None:
        """Hand a task back; it is out of its bundle then."""
        held_task = self.agents[number]
        if held_task.tasks:
            assert held_task.agent.release(held_task.tasks.pop(), started=False) == "accepted"
            self.waiting += 1
            for other in self.agents:
                other.agent.forget_position()

    @rule(limit=st.none() | COUNT, per_site=COUNT)
    def change(self, limit: int | None, per_site: int) -> None:
        """Change both limits; who has more than that keeps it."""
        spec = CampaignSpec(self.path, max_running=limit, max_running_per_site=per_site)
        self.campaign.change(spec)
        self.limit, self.per_site = limit or 1_000, per_site


@pytest.mark.parametrize("examples", rest_thorough([6, 40]))
def test_limits_of_sites_hold_in_any_order(database: Database, examples: int) -> None:
    """A claim gets exactly what the limits leave, in all and at its site."""
    SiteLimitMachine.database = database
    explore(SiteLimitMachine, examples)
