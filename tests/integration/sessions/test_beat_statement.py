"""One statement for the beats of many sessions: whole or not at all, by key, never in a circle."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from taskq import Campaign
from taskq_agent.protocol import new_lease
from tests.fixtures.queues import Hire
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres, last_beats, value
from tests.helpers.scripted_agent import ScriptedAgent
from tests.helpers.waiting import wait_until

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("true_counts")]

BATCH = "select * from taskq.beat(%s)"


def test_beat_that_says_nothing_of_tasks_only_lives_on(
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
        '[{"session": 1, "held": [[1, 2]]}]',
        '[{"session": 1, "held": [[1, 2, "no lease"]]}]',
        '[{"session": 1, "held": [[null, 2, "00000000-0000-7000-8000-000000000001"]]}]',
        '[{"session": 1, "held": [], "pending": [null]}]',
        '[{"session": 1, "held": [], "drawn": "x"}]',
        '[{"session": 1}, {"session": 1}]',
    ],
)
def test_what_is_no_beat_changes_nothing(
    broken: str, agents: list[ScriptedAgent], postgres: Postgres
) -> None:
    """An error of its own class, whatever is wrong, and nobody's beat is half done."""
    agents[0].claim(1)
    before = last_beats(postgres)
    with pytest.raises(psycopg.Error) as refused:
        postgres.execute(BATCH, [broken])
    assert refused.value.sqlstate == "TQ400"
    assert last_beats(postgres) == before


def test_sessions_are_locked_in_their_order_whatever_the_batch_says(
    agents: list[ScriptedAgent], dsn: str, postgres: Postgres
) -> None:
    """So two gateways that beat for the same sessions never wait for each other in a circle."""
    lowest, *higher = sorted(agent.session for agent in agents)
    said = json.dumps([{"session": session} for session in (*reversed(higher), lowest)])
    with psycopg.connect(dsn) as other, ThreadPoolExecutor(1) as pool:
        other.execute("select from taskq.session where session_id = %s for update", [lowest])
        beat = pool.submit(lambda: postgres.execute(BATCH, [said]).fetchall())
        wait_until(lambda: waits_for_a_lock(other))
        free = other.execute(
            "select session_id from taskq.session where session_id = any (%s)"
            " for update skip locked",
            [higher],
        ).fetchall()
        assert sorted(session for (session,) in free) == higher
        other.commit()
        assert beat.result(60) == []


def test_session_that_ends_at_this_moment_is_not_revived(
    agents: list[ScriptedAgent], dsn: str, postgres: Postgres
) -> None:
    """The beat waits for the end and then reports it; the others' beats count."""
    ending, other = agents[:2]
    said = json.dumps(
        [{"session": agent.session, "held": [], "drawn": None} for agent in (ending, other)]
    )
    with psycopg.connect(dsn) as leaving, ThreadPoolExecutor(1) as pool:
        leaving.execute("select taskq.end_session(%s)", [ending.session])
        beat = pool.submit(lambda: postgres.execute(BATCH, [said]).fetchall())
        wait_until(lambda: waits_for_a_lock(leaving))
        leaving.commit()
        assert [(row["session_id"], row["ended"]) for row in beat.result(60)] == [
            (ending.session, True)
        ]


def waits_for_a_lock(connection: psycopg.Connection) -> bool:
    """Return whether anybody waits for what this transaction has locked."""
    row = connection.execute(
        "select count(*) from pg_stat_activity where pg_backend_pid() = any (pg_blocking_pids(pid))"
    ).fetchone()
    return row is not None and row[0] > 0


@pytest.mark.parametrize("statistics", ["true", "absent", "empty", "cached"])
def test_beats_go_by_key_whatever_the_statistics_say(
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
                    "held": [[one.campaign, one.task, one.lease] for one in mine[:tasks]],
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
