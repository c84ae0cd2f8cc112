"""The end of an outage for 20,000 agents: soon for each, and not for all at the same moment."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable

import pytest

from taskq.gateway.errors import retry_after_s
from taskq_agent.core.call_state import CallState
from taskq_agent.errors import TransportFailed

AGENTS = 20_000
OUTAGE_S = 16.0
SOON_S = 5.0
#: Exchanges a second that a gateway with a database on two cores serves are 20,000.
MOST_PER_S = 9_000


def gone() -> TransportFailed:
    """Return what an agent hears where nobody listens."""
    return TransportFailed("connection refused")


def away() -> TransportFailed:
    """Return what a gateway answers without its database; an agent has two connections."""
    return TransportFailed("the database does not answer now", retry_after_s(2 * AGENTS))


@pytest.mark.thorough
@pytest.mark.parametrize("error", [gone, away])
def test_agents_are_back_within_seconds_and_not_at_once(
    error: Callable[[], TransportFailed], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks during the outage fails; all ask again within 5 s of its end."""
    drawn = random.Random(0)
    monkeypatch.setattr("random.uniform", drawn.uniform)
    due = [(drawn.random(), number) for number in range(AGENTS)]
    heapq.heapify(due)
    agents = [CallState(drawn.random) for _ in due]
    tries: Counter[int] = Counter()
    answered = []
    while due:
        now, number = heapq.heappop(due)
        if now >= OUTAGE_S:
            answered.append(now - OUTAGE_S)
            continue
        tries[int(now)] += 1
        agents[number].failed(now, error())
        heapq.heappush(due, (agents[number].ready_at() or 0.0, number))

    assert len(answered) == AGENTS
    assert max(answered) <= SOON_S
    assert max(Counter(map(int, answered)).values()) <= MOST_PER_S
    settled = [tries[second] for second in range(8, int(OUTAGE_S))]
    assert max(settled) <= MOST_PER_S
