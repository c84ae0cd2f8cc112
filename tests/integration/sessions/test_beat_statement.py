"""One statement for the beats of many sessions: whole or not at all, by key, never in a circle."""

from __future__ import annotations

import json

import psycopg
import pytest

from taskq import Campaign
from taskq_agent.lease_ids import new_lease
from tests.fixtures.queues import Hire
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres, last_beats, value
from tests.helpers.scripted_agent import ScriptedAgent
from tests.interleavings.meeting import calling, meet

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("true_counts")]

BATCH = "select * from taskq.beat(%s)"


def test_heartbeat_without_tasks_only_keeps_its_session(
    agents: list[ScriptedAgent], postgres: Postgres
) -> None:
    """Also in the company of others that do."""
    silent, other = agents[:2]
    (task,) = silent.claim(1)
    said = [
        {"session": silent.session, "held": None, "pending": None, "drawn": silent.drawn},
        {"session": other.session, "held": [], "pending": [], "drawn": None},
    ]
    assert postgres.execute(BATCH, [json.dumps(said)]).fetchall() == []
    assert silent.done(task) == "accepted"


@pytest.mark.parametrize(
    "broken",
    [
        "5",
        '{"session": 1}',
        '[{"held": []}]',
        '[{"session": "x"}]',
        '[{"session": 99999999999999999999}]',
        '[{"session": 1, "held": 3}]',
        '[{"session": 1, "held": [[1, 2, "00000000-0000-7000-8000-000000000001"]]}]',
        '[{"session": 1, "held": [{"campaign": 1, "task": 2}]}]',
        '[{"session": 1, "held": [{"campaign": 1, "task": 2, "lease": "no lease"}]}]',
        f'[{{"session": 1, "held": [{{"campaign": null, "task": 2, "lease": "{new_lease()}"}}]}}]',
        '[{"session": 1, "held": [], "pending": [null]}]',
        '[{"session": 1, "held": [], "drawn": "x"}]',
        '[{"session": 1}, {"session": 1}]',
    ],
)
def test_malformed_heartbeat_changes_nothing(
    broken: str, agents: list[ScriptedAgent], postgres: Postgres
) -> None:
    """It ends in an error of its own class, and no other heartbeat is half done."""
    agents[0].claim(1)
    before = last_beats(postgres)
    with pytest.raises(psycopg.Error) as refused:
        postgres.execute(BATCH, [broken])
    assert refused.value.sqlstate == "TQ400"
    assert last_beats(postgres) == before


def test_sessions_are_locked_in_their_order_whatever_the_batch_says(
    agents: list[ScriptedAgent], dsn: str
) -> None:
    """So two gateways that beat for the same sessions never wait for each other in a circle."""
    lowest, *higher = sorted(agent.session for agent in agents)
    said = json.dumps([{"session": session} for session in (*reversed(higher), lowest)])
    lock = "select session_id from taskq.session where session_id = any (%s) for update skip locked"

    def look_behind(connection: Postgres) -> None:
        free = connection.execute(lock, [higher]).fetchall()
        assert sorted(row["session_id"] for row in free) == higher

    beat = calling("select count(*) from taskq.beat(%s)", said)
    met = meet(dsn, calling(lock, [lowest]), beat, meanwhile=look_behind)
    assert (met.waited, met.second) == (True, 0)


@pytest.mark.parametrize("statistics", ["true", "absent", "empty", "cached"])
def test_heartbeats_go_by_key_whatever_the_statistics_are(
    statistics: str, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """A batch reaches its own sessions and attempts, next to 5,000 others, and nothing else."""
    many = [hire() for _ in range(60)]
    campaign.seed({"n": n} for n in range(10))
    if statistics in {"empty", "cached"}:
        postgres.execute("analyze")
    batch = json.dumps([{"session": many[0].session, "held": [], "drawn": new_lease()}])
    if statistics == "cached":
        for _ in range(6):
            postgres.execute(BATCH, [batch])
    campaign.seed({"n": n} for n in range(10, 5_500))
    crowd = hire()
    for _ in range(5):
        crowd.claim(1_000)
    claimed = [agent.claim(3) for agent in many]
    if statistics == "true":
        postgres.execute("analyze")

    def say(tasks: int) -> str:
        return json.dumps(
            [
                {
                    "session": agent.session,
                    "held": [task.fence for task in mine[:tasks]],
                    "pending": [],
                    "drawn": agent.drawn,
                }
                for agent, mine in zip(many, claimed, strict=True)
            ]
        )

    postgres.execute(BATCH, [say(3)])  # planning reads the catalogues
    with watched(postgres) as seen:
        # One of three goes back, and none is void.
        assert postgres.execute(BATCH, [say(2)]).fetchall() == []
    assert value(postgres, "select count(*) from taskq.state where status = 'waiting'") > 60
    hot = seen.to("task", "span", "bundle", "session", "spec", "attempt")
    assert hot.access_paths <= {
        "task by task_working",
        "task by task_pkey",
        "task by ctid",
        "bundle by bundle_pkey",
        "bundle by bundle_task",  # of what goes back
        "spec by spec_pkey",  # its priority
        "session by session_pkey",
        "session by session_open",
    }
    assert hot.widest is not None
    assert hot.widest.rows <= 3 * len(many), hot.widest
    assert seen.buffers <= 80 * len(many)
