"""Terms of loops: one that is busy keeps its own, one that is gone is followed soon."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from taskq.pilots import loop as loops
from taskq.pilots.loop import PERIOD_S, TERM_S
from taskq.pilots.reconcile import SeenJob
from tests.helpers.postgres import Postgres
from tests.helpers.waiting import wait_until
from tests.integration.pilots.support import PilotScene

_HELD = "select extract(epoch from held_until)::double precision as until from taskq.pilot"


def test_a_killed_loop_is_followed_within_20_s() -> None:
    """By one that looks once a period."""
    assert TERM_S + PERIOD_S < 20


def test_a_loop_that_waits_for_its_batch_system_keeps_its_term(
    scene: PilotScene, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For many terms; no other acts meanwhile, and it is not told that another does."""
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
