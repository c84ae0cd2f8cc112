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
from tests.property.queue_operators import QueueOperators

pytestmark = pytest.mark.thorough


class QueueMachine(QueueAgents, QueueOperators):
    """Does each step to the queue and to the model, and compares all that can be seen of them."""

    @initialize(late=st.sampled_from(LATE_RESULTS))
    def begin(self, late: str) -> None:
        """Begin with some tasks and an agent."""
        self.change(late, set(), 2)
        self.seed(3, [0, 1, 0])
        self.come("node1", "here")


def test_queue_does_what_its_model_says(database: Database) -> None:
    """Whatever agents, operators and keepers do, in whatever order."""
    QueueMachine.database = database
    explore(QueueMachine, 80)
