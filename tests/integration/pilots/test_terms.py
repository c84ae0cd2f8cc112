"""Terms of pilots' loops, and what looking at pilots costs."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from taskq.db.catalogue import statement
from taskq.pilots import loop as loops
from taskq.pilots.loop import PERIOD_S, TERM_S, PilotLoop
from taskq.pilots.reconcile import SeenJob
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres
from tests.helpers.scripted_batch import ScriptedBatch
from tests.helpers.waiting import wait_until
from tests.integration.pilots.support import PilotScene

_HELD = "select extract(epoch from held_until)::double precision as until from taskq.pilot"


def test_killed_loop_is_followed_within_20_s() -> None:
    """By one that looks once a period."""
    assert TERM_S + PERIOD_S < 20


def test_batch_system_is_asked_once_for_all_its_pilots(scene: PilotScene) -> None:
    """One command a round, however many pilots and jobs there are."""
    for name in ("a", "b", "c"):
        scene.queue.pilots.create(name, "slurm", "/c", scene.settings())
    scene.seed(100)
    loop = scene.loop()
    assert [pilot_round.submitted for pilot_round in loop.round()] == [4, 4, 4]
    scene.batch.asked.clear()
    loop.round()
    assert [len(names) for names in scene.batch.asked] == [12]


def test_batch_system_that_hangs_holds_up_no_other(scene: PilotScene) -> None:
    """The loop goes on with the others, and does not ask the hanging one again meanwhile."""
    hung, stop, answer = ScriptedBatch(), threading.Event(), threading.Event()
    for name in ("hung", "well"):
        scene.queue.pilots.create(name, "slurm", "/c", scene.settings(max_jobs=1))
    scene.seed(100)
    batches = {"hung": hung, "well": scene.batch}
    loop = PilotLoop(scene.queries, {}, make=lambda pilot, *_: batches[pilot.name])
    loop.round()
    honest = hung.jobs

    def hang(names: list[str]) -> Mapping[str, SeenJob]:
        hung.asked.append(names)
        answer.wait(60)
        return honest(names)

    hung.jobs = hang  # type: ignore[assignment, method-assign]
    hung.asked.clear()
    scene.batch.asked.clear()
    thread = threading.Thread(target=loop.run, args=(stop, 0.05))
    thread.start()
    try:
        wait_until(lambda: len(scene.batch.asked) > 3)
        assert len(hung.asked) == 1
    finally:
        stop.set()
        answer.set()
        thread.join()


@pytest.mark.thorough
def test_loop_that_waits_for_its_batch_system_keeps_its_term(
    scene: PilotScene, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For many terms; no other acts meanwhile, and no error says that another does."""
    monkeypatch.setattr(loops, "TERM_S", 3.0)
    scene.add()
    scene.seed(5)
    busy = scene.loop()
    scene.round(busy)
    asked, answer, stop = threading.Event(), threading.Event(), threading.Event()
    honest = scene.batch.jobs

    def slow(names: list[str]) -> Mapping[str, SeenJob]:
        asked.set()
        answer.wait(60)
        return honest(names)

    monkeypatch.setattr(scene.batch, "jobs", slow)
    thread = threading.Thread(target=busy.run, args=(stop, 0.1))
    thread.start()
    try:
        assert asked.wait(60)
        begun = postgres.execute(_HELD).fetchone()
        wait_until(lambda: postgres.execute(_HELD).fetchone()["until"] > begun["until"] + 6)  # type: ignore[index]
        (other,) = scene.loop().round()
        assert (other.acted, "another loop acts" in (other.trouble or "")) == (False, True)
        scene.batch.become("running")
        answer.set()
        wait_until(lambda: scene.statuses() == ["running"] * 3)
    finally:
        answer.set()
        stop.set()
        thread.join()


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


@pytest.mark.parametrize("statistics", ["absent", "true"])
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
