"""Long changes rest between their steps while others are at work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from taskq import Client
from taskq.db import pacing
from taskq.db.connections import Database
from taskq.db.pacing import PacedChange
from tests.helpers.waiting import wait_until


@contextmanager
def at_work(database: Database) -> Iterator[None]:
    """Commit transactions, as agents do."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            database.rows("installation")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.thorough
def test_change_rests_while_others_are_at_work_and_only_then(
    queue: Client, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are all that commit, whatever they do."""
    monkeypatch.setattr(pacing, "MAX_REST_S", 0.01)
    pace = PacedChange(queue.database)

    def step() -> bool:
        with pace.step():
            pass
        return pace.busy

    with at_work(database):
        wait_until(step)
    wait_until(lambda: not step())


@pytest.mark.thorough
def test_change_rests_within_a_transaction_of_its_own(
    queue: Client, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many rests there are: they count as no transactions."""
    monkeypatch.setattr(pacing, "MAX_REST_S", 0.01)
    pace = PacedChange(queue.database)

    def rest() -> bool:
        pace.rest()
        return pace.busy

    with at_work(database):
        wait_until(rest)
    wait_until(lambda: not rest())


def test_change_of_one_step_asks_nothing(queue: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled task costs no statement more."""
    asked: list[str] = []
    monkeypatch.setattr(type(queue.database), "value", lambda _, name: asked.append(name))
    pace = PacedChange(queue.database)
    with pace.step():
        pass
    assert not asked
    with pace.step():
        pass
    assert asked == ["transactions"]
    assert not pace.busy
