"""An order to stop is about a lease, not about a task.

DIRAC registered a kill for a job whose pilot was stalled; the job was rescheduled, and its next
attempt received the kill (DIRACGrid/DIRAC#5849).
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from taskq import Campaign
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres
from tests.helpers.scripted_agent import Claimed, ScriptedAgent
from tests.interleavings.meeting import calling, cancelling, claiming, in_turn, meet


def beating(agent: ScriptedAgent, *held: Claimed) -> Callable[[Postgres], list[object]]:
    """Return an act that beats for an agent, and returns the leases that are to stop."""
    said = [task.fence for task in held]
    beat = json.dumps([{"session": agent.session, "held": said, "drawn": agent.drawn}])
    query = (
        "select coalesce(jsonb_agg(s -> 2), '[]')"
        " from taskq.beat(%s) b cross join lateral jsonb_array_elements(b.stop) s"
    )
    return calling(query, beat)


@pytest.mark.parametrize("whose", ["own", "other"])
def test_next_attempt_is_not_stopped_for_the_one_before(
    whose: str,
    agent: ScriptedAgent,
    held: list[Claimed],
    campaign: Campaign,
    hire: Hire,
    postgres: Postgres,
    dsn: str,
) -> None:
    """A beat meets a cancellation, a retry and a new claim: only the old lease is void."""
    heir = agent if whose == "own" else hire()
    retry = "select moved from taskq.retry(%s, 'cancelled', null, null, 0, 10)"
    again = in_turn(
        cancelling(campaign.campaign_id),
        calling(retry, campaign.campaign_id),
        claiming(heir, 2),
    )
    # In hand before any of it has committed: it knows of nothing, and stops nothing.
    met = meet(dsn, again, beating(agent, *held))
    assert (met.waited, met.second) == (False, [])
    anew: list[Claimed] = met.first[2]
    assert [task.task for task in anew] == [task.task for task in held]
    mine = anew if heir is agent else []
    assert beating(agent, *held, *mine)(postgres) == [task.lease for task in held]
    if heir is not agent:
        assert heir.heartbeat(anew) == set()
    assert [heir.done(task) for task in anew] == ["accepted"] * 2


def test_order_to_stop_that_is_undone_was_never_given(
    agent: ScriptedAgent, held: list[Claimed], campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """A beat next to a cancellation that is still open says nothing of it."""
    beat = beating(agent, *held)
    assert meet(dsn, cancelling(campaign.campaign_id), beat, undo=True).second == []
    assert beat(postgres) == []
    assert agent.done(held[0]) == "accepted"
