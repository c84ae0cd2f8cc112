"""A clock that was read before a wait tells a time at which what is recorded had not happened."""

from __future__ import annotations

from datetime import datetime

import pytest

from taskq import Campaign
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, expire, promote, silence, value
from tests.helpers.scripted_agent import Claimed, ScriptedAgent
from tests.interleavings.meeting import calling, locking, meet

CLOCK = "select clock_timestamp()"
LOCK = "select session_id from taskq.session where session_id = %s for update"
ENDED = "select ended_at from taskq.session where session_id = %s"


def test_shorter_delay_begins_after_the_failure(
    agent: ScriptedAgent, held: list[Claimed], campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """A task that failed again while others were waited for is not due before that."""
    for task in held:
        agent.fail(task)
    postgres.execute("update taskq.campaign set backoff_s = 0 where path = '/c'")
    first, second = held

    def fail_again(_: Postgres) -> None:
        postgres.execute("update taskq.campaign set backoff_s = 9 where path = '/c'")
        postgres.execute(
            "update taskq.task set due_at = clock_timestamp() where task_id = %s", [second.task]
        )
        assert value(postgres, "select taskq.promote_delayed()") == 1
        agent.forget_position()
        (again,) = agent.claim()
        assert again.task == second.task
        agent.fail(again)

    shorten = calling("select moved from taskq.shorten_delays(%s, 0, 10)", campaign.campaign_id)
    met = meet(dsn, locking(first.task), shorten, meanwhile=fail_again)
    assert (met.waited, met.second) == (True, 2)
    query = """
        select t.due_at > a.ended_at
          from taskq.task t
          join taskq.attempt a using (campaign_id, task_id, attempt)
         where t.task_id = %s
    """
    assert value(postgres, query, second.task) is True
    assert promote(postgres) == 2


@pytest.mark.parametrize(
    "ending",
    [
        "select taskq.end_session(%(session)s)",
        "select taskq.end_sessions(array[%(session)s], '{x}', '{0}', '{0}')",
    ],
)
def test_session_ends_when_it_is_ended(
    ending: str, agent: ScriptedAgent, postgres: Postgres, dsn: str
) -> None:
    """The keeper looks through sessions that ended since its last round, and finds it."""
    end = calling(ending.replace("%(session)s", str(agent.session)))
    freed: list[datetime] = []
    met = meet(
        dsn,
        calling(LOCK, agent.session),
        end,
        meanwhile=lambda _: freed.append(value(postgres, CLOCK)),
    )
    assert met.waited
    assert value(postgres, ENDED, agent.session) > freed[0]


def test_recovery_ends_sessions_when_it_gets_to_them(
    agent: ScriptedAgent, hire: Hire, campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """After it has waited for the tasks that it retries."""
    postgres.execute("update taskq.campaign set max_losses = 1 where path = '/c'")
    agent.claim()
    silence(postgres, agent.session)
    assert (expire(postgres), campaign.status().failed) == (1, 1)
    silent = hire()
    silence(postgres, silent.session)
    freed: list[datetime] = []
    seeding = calling("select taskq.seed_begin(%s)", campaign.campaign_id)
    recovering = calling("select sessions from taskq.recover('/c', null, 0.5, '-infinity', false)")
    met = meet(dsn, seeding, recovering, meanwhile=lambda _: freed.append(value(postgres, CLOCK)))
    assert (met.waited, met.second) == (True, 1)
    assert value(postgres, ENDED, silent.session) > freed[0]
