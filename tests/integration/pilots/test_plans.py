"""Looking at pilots costs what their jobs cost, not what all sessions do."""

from __future__ import annotations

import pytest

from taskq.db.catalogue import statement
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres
from tests.helpers.variants import rest_thorough
from tests.integration.pilots.support import PilotScene

_SESSIONS = """
    insert into taskq.session (
           key, campaign_id, opened_at, heartbeat_at, lease_s, ended_at, slots, pid, agent, host,
           site, release)
    select gen_random_uuid(), c.campaign_id, now(), now(), 120,
           case when n % 2 = 0 then now() end, 1, 1,
           case when n % 10 = 0 then format('taskq-other-00000000-%s', n) else 'agent' end,
           'h', '', ''
      from taskq.campaign c, generate_series(1, 5000) n
     where c.path = '/c'
"""


@pytest.mark.parametrize("statistics", rest_thorough(["absent", "true"]))
def test_sessions_of_others_are_not_read(
    scene: PilotScene, postgres: Postgres, statistics: str
) -> None:
    """Neither with right statistics nor without any."""
    scene.add(max_jobs=20, backlog=20)
    scene.seed(40)
    scene.round()
    scene.batch.become("running")
    scene.round()
    postgres.execute(_SESSIONS)
    if statistics == "true":
        postgres.execute("analyze taskq.session")
        postgres.execute("analyze taskq.pilot_job")
    pilot = scene.pilot()
    note = [{"number": job.number, "status": "running"} for job in scene.jobs()]
    holder = postgres.execute("select holder from taskq.pilot").fetchall()[0]["holder"]
    with watched(postgres) as seen:
        postgres.execute(statement("pilots"), {"pilot": None})
        postgres.execute(statement("pilot_jobs"), {"pilot": pilot.pilot_id, "ended": 20})
        postgres.execute(
            "select taskq.note_pilot(%s, %s, %s::jsonb)",
            [pilot.pilot_id, holder, str(note).replace("'", '"')],
        )
    sessions = seen.to("session")
    assert sessions.access_paths == {"session by session_pilot"}
    assert sessions.widest is not None
    assert sessions.widest.rows <= 1
    assert len(sessions.accesses) >= 3
