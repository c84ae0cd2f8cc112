"""The queue against a model of it, under any order of what agents, operators and keepers do.

`--hypothesis-profile=soak` goes on for much longer.
"""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize

from taskq.db.connections import Database
from taskq.model.campaign_spec import LATE_RESULTS
from tests.property.exploring import explore
from tests.property.queue_agents import QueueAgents
from tests.property.queue_limits import QueueLimits
from tests.property.queue_operators import QueueOperators

pytestmark = pytest.mark.thorough


class QueueMachine(QueueAgents, QueueOperators, QueueLimits):
    """Does each step to the queue and to the model, and compares all that can be seen of them."""

    @initialize(late=st.sampled_from(LATE_RESULTS), most=st.none() | st.integers(1, 3))
    def begin(self, late: str, most: int | None) -> None:
        """Begin with some tasks and an agent, and perhaps a limit that the campaign names."""
        self.change(late, set(), 2)
        self.limit_starts(most, named=True)
        self.seed(3, [0, 1, 0])
        self.come("node1", "here")


class SlotsMachine(QueueMachine):
    """The same with agents that start several tasks at a time."""

    slots = 3


def test_queue_does_what_its_model_says(database: Database) -> None:
    """Whatever agents, operators and keepers do, in whatever order."""
    QueueMachine.database = database
    explore(QueueMachine, 80)


def test_queue_of_agents_with_slots_does_what_its_model_says(database: Database) -> None:
    """Of which a limit counts the starts that run, not the tasks that they hold."""
    SlotsMachine.database = database
    explore(SlotsMachine, 40)
