"""Somebody who follows a task in two windows, which ask for its output at the same moment."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.helpers.postgres import Postgres, value
from tests.helpers.scripted_agent import Claimed
from tests.interleavings.meeting import calling, meet


def following(task: Claimed) -> Callable[[Postgres], str]:
    """Return an act that asks for the output of a task, and returns its status."""
    return calling("select status::text from taskq.follow(%s, %s)", task.campaign, task.task)


@pytest.mark.parametrize("undo", [False, True])
def test_second_first_call_is_answered_as_the_first(
    undo: bool, held: list[Claimed], postgres: Postgres, dsn: str
) -> None:
    """Whether that commits or not, they follow one task."""
    met = meet(dsn, following(held[0]), following(held[0]), undo=undo)
    assert (met.waited, met.first, met.second) == (True, "working", "working")
    assert value(postgres, "select array_agg(lease_id::text) from taskq.followed") == [
        held[0].lease
    ]
