from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq_agent.protocol import DONE, Heartbeat, Held, LeaseIds, Report, Request, dumps


@given(st.lists(st.integers(0, 2**60), min_size=2, max_size=20))
def test_lease_ids_rise_whatever_the_clock_does(clock: list[int]) -> None:
    """A beat can say "all leases up to this one" even if the clock is set back in between."""
    readings = iter(clock)
    draw = LeaseIds(lambda: next(readings))
    leases = [draw() for _ in clock]
    assert leases == sorted(set(leases))
    assert [uuid.UUID(lease).int for lease in leases] == sorted(uuid.UUID(x).int for x in leases)
    assert {(uuid.UUID(lease).version, uuid.UUID(lease).variant) for lease in leases} == {
        (7, uuid.RFC_4122)
    }


def test_lease_ids_of_two_agents_differ() -> None:
    """Agents that start in the same millisecond do not draw the same id."""
    assert LeaseIds(lambda: 0)() != LeaseIds(lambda: 0)()


def test_message_is_written_with_what_it_holds() -> None:
    """Messages within messages become objects, tuples become lists."""
    request = Request(1, (Report(2, 3, "lease", DONE, result={"é": [1.5, None]}),), want=4)
    written = json.loads(dumps(request))
    assert written["want"] == 4
    assert written["reports"][0]["result"] == {"é": [1.5, None]}
    assert json.loads(dumps(Heartbeat(1, (Held(2, 3, "lease"),))))["held"] == [
        {"campaign": 2, "task": 3, "lease": "lease"}
    ]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1}, Path("/"), object()])
def test_what_json_cannot_say_is_refused(value: object) -> None:
    """A result that the queue could not store never becomes a message."""
    with pytest.raises((TypeError, ValueError)):
        dumps(Report(1, 1, "lease", DONE, result={"value": value}))
