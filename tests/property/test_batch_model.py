"""The queue against its model where many tasks have one start, under any order of what happens."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize

from taskq.db.connections import Database
from taskq.model.campaign_spec import LATE_RESULTS
from tests.property.exploring import explore
from tests.property.queue_batches import QueueBatches
from tests.property.queue_limits import QueueLimits
from tests.property.queue_operators import QueueOperators


class BatchMachine(QueueBatches, QueueOperators, QueueLimits):
    """Does each step to the queue and to the model, and compares all that can be seen of them."""

    @initialize(
        late=st.sampled_from(LATE_RESULTS),
        batch=st.sampled_from([2, 4, 16]),
        most=st.none() | st.integers(1, 3),
    )
    def begin(self, late: str, batch: int, most: int | None) -> None:
        """Begin with some tasks and an agent, and perhaps a limit that the campaign names."""
        self.change_batch(late, set(), 2, batch)
        self.limit_starts(most, named=True)
        self.seed(5, [0, 1, 0, 0, 0])
        self.come("node1", "here")


def test_batches_do_what_their_model_says_in_a_few_runs(database: Database) -> None:
    BatchMachine.database = database
    explore(BatchMachine, 3, 15)


@pytest.mark.thorough
def test_batches_do_what_their_model_says(database: Database) -> None:
    """Whatever agents, operators and keepers do, in whatever order."""
    BatchMachine.database = database
    explore(BatchMachine, 60)
