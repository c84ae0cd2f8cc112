"""Two seed a campaign at the same moment, perhaps with the same file."""

from __future__ import annotations

import pytest

from taskq import Campaign, Seed
from tests.interleavings.meeting import calling, meet

FIRST = """
    select taskq.submit('/c', '[{"key": "a", "payload": {}}, {"key": "b", "payload": {}}]')
"""


@pytest.mark.parametrize(("undo", "added"), [(False, 1), (True, 3)])
def test_seed_that_meets_another_adds_what_that_leaves(
    undo: bool, added: int, campaign: Campaign, dsn: str
) -> None:
    """It waits before it asks which keys are there: none of them makes it fail, or is twice."""
    records = [Seed({}, key) for key in "bca"]
    met = meet(dsn, calling(FIRST), lambda _: campaign.seed(records).added, undo=undo)
    assert (met.waited, met.first, met.second) == (True, 2, added)
    assert campaign.status().waiting == 3
