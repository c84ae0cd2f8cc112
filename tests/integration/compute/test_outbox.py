"""`submit` does not wait for the queue. Calls that gather meanwhile are stored together."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import CancelledError, Future
from pathlib import Path

import pytest

import taskq
from taskq import Client, Executor, Unavailable
from taskq.compute import functions
from taskq.model import seed
from taskq.model.errors import NotFound, UsageError
from taskq.model.seed import MAX_PAYLOAD_BYTES
from tests.helpers.postgres import Postgres
from tests.helpers.waiting import wait_until
from tests.integration.compute.test_tracker import fail_once
from tests.payloads import called

WAIT_S = 120.0
LARGE = "x" * MAX_PAYLOAD_BYTES


def test_calls_that_gather_are_stored_together(
    queue: Client, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls that come while one is being stored share a statement, in their order."""
    statements = Counter[str]()
    rows = queue.queries.rows

    def counting(name: str, /, **values: object) -> list[dict[str, object]]:
        statements[name] += 1
        return rows(name, **values)

    assert queue.submit(called.same, -1).task
    monkeypatch.setattr(queue.queries, "rows", counting)
    with postgres.transaction():
        postgres.execute("lock table taskq.spec in access exclusive mode")
        futures = [queue.submit(called.same, 0)]
        wait_until(lambda: statements["submit_calls"] == 1)
        futures += [queue.submit(called.same, n) for n in range(1, 50)]
    tasks = [future.task for future in futures]
    assert tasks == sorted(tasks)
    assert statements["submit_calls"] == 2
    assert "task_ids" not in statements


def test_calls_are_stored_once_in_the_very_campaign_that_they_are_for(queue: Client) -> None:
    """The same calls again add nothing; a campaign that took the place of another gets none."""
    campaign = queue.create_campaign("/calls")
    tasks = '[{"key": "b", "payload": {}}, {"key": "a", "payload": {}}]'
    about = {"path": "/calls", "campaign": campaign.campaign_id, "tasks": tasks}
    first = queue.queries.rows("submit_calls", **about)
    assert {row["key"]: row["added"] for row in first} == {"a": 2, "b": 2}
    again = queue.queries.rows("submit_calls", **about)
    assert [row | {"added": 2} for row in again] == first
    assert {row["added"] for row in again} == {0}
    campaign.remove()
    queue.create_campaign("/calls")
    with pytest.raises(NotFound):
        queue.queries.rows("submit_calls", **about)
    assert queue.campaign("/calls").status().total == 0


def test_call_that_is_refused_harms_no_other(
    queue: Client, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database refuses a payload that this client accepts."""
    assert queue.submit(called.same, "first").task
    for module in (functions, seed):
        monkeypatch.setattr(module, "MAX_PAYLOAD_BYTES", 2 * MAX_PAYLOAD_BYTES)
    with postgres.transaction():
        postgres.execute("lock table taskq.spec in access exclusive mode")
        futures = [queue.submit(called.same, value) for value in (1, 2, LARGE, 3, 4)]
    assert isinstance(futures[2].exception(WAIT_S), UsageError)
    with pytest.raises(UsageError):
        _ = futures[2].task
    assert not futures[2].cancel()
    assert all(futures[place].task for place in (0, 1, 3, 4))
    assert queue.submit(called.same, 5).task


def test_why_calls_are_not_stored_is_known_to_their_futures_and_the_next_submit(
    queue: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After that error, `submit` works again."""
    assert queue.submit(called.same, "first").task
    fail_once(monkeypatch, queue.queries, lambda name: name == "submit_calls")
    ended = list[Future[object]]()
    future = queue.submit(called.same, 1)
    future.add_done_callback(ended.append)
    assert isinstance(future.exception(WAIT_S), Unavailable)
    assert ended == [future]
    with pytest.raises(Unavailable, match="the server is away"):
        queue.submit(called.same, 2)
    assert queue.submit(called.same, 2).task


def test_callback_may_cancel_calls_that_failed_with_its_own(
    queue: Client, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The callback does not wait for any of them."""
    assert queue.submit(called.same, "first").task
    begun = list[str]()

    def is_second(name: str) -> bool:
        begun.extend([name] * (name == "submit_calls"))
        return name == "submit_calls" and len(begun) > 1

    fail_once(monkeypatch, queue.queries, is_second)
    with postgres.transaction():
        postgres.execute("lock table taskq.spec in access exclusive mode")
        stored = queue.submit(called.same, 0)
        wait_until(lambda: len(begun) == 1)
        futures = [queue.submit(called.same, n) for n in (1, 2, 3)]
        cancelled = list[bool]()
        futures[0].add_done_callback(
            lambda _: cancelled.extend(future.cancel() for future in futures)
        )
    for future in futures:
        assert isinstance(future.exception(WAIT_S), Unavailable)
    assert cancelled == [False] * 3
    assert stored.task


def test_call_that_is_not_on_its_way_is_never_stored_once_cancelled(
    queue: Client, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that is on its way is stored, then cancelled. Callbacks may cancel once more."""
    stored = queue.submit(called.same, 0)
    assert stored.task
    called_for = list[str]()
    rows = queue.queries.rows

    def noting(name: str, /, **values: object) -> list[dict[str, object]]:
        called_for.append(name)
        return rows(name, **values)

    monkeypatch.setattr(queue.queries, "rows", noting)
    with postgres.transaction():
        postgres.execute("lock table taskq.spec in access exclusive mode")
        sent = queue.submit(called.same, 1)
        wait_until(lambda: "submit_calls" in called_for)
        waiting = queue.submit(called.same, 2)
        for future in (waiting, sent):
            future.add_done_callback(lambda future: future.cancel())
        assert waiting.cancel()
        assert not sent.running()
    for future in (waiting, sent):
        assert future.cancel()
        with pytest.raises(CancelledError):
            future.result(WAIT_S)
    with pytest.raises(CancelledError):
        _ = waiting.task
    queue.close()
    with taskq.connect(queue.database.dsn) as again:
        status = again.campaign(stored.campaign.path).status()
    assert (status.waiting, status.cancelled, status.total) == (1, 1, 2)


PROGRAM = """
import os, sys, taskq
queue = taskq.connect()
futures = [queue.submit(pow, 2, n, path="/calls") for n in range(100)]
executor = taskq.Executor(queue, path="/executor")
futures += [executor.submit(pow, 2, n) for n in range(100)]
if sys.argv[1] == "forked" and os.fork() == 0:
    try:
        queue.submit(pow, 3, 3)
    except taskq.UsageError:
        sys.exit(0)  # and stores nothing
"""


@pytest.mark.parametrize("how", ["alone", "forked"])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # since Python 3.12
def test_end_of_a_program_stores_its_calls(
    dsn: str, queue: Client, tmp_path: Path, how: str
) -> None:
    """Programs that wait for no value, and programs that have forked, store theirs as well."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    subprocess.run(
        [sys.executable, "-W", "ignore", str(program), how],
        env=os.environ | {"TASKQ_DSN": dsn},
        check=True,
        timeout=WAIT_S,
    )
    for path in ("/calls", "/executor"):
        assert queue.campaign(path).status().waiting == 100


def test_executor_reports_what_it_could_not_store(
    queue: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end does not wait for values of such calls."""
    executor = Executor(queue)
    fail_once(monkeypatch, queue.queries, lambda name: name == "submit_calls")
    future = executor.submit(called.square, 2)
    assert isinstance(future.exception(WAIT_S), Unavailable)
    executor.shutdown()
