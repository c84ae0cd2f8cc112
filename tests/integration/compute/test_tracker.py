"""Trackers of runs, and runs whose inputs are other runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import taskq
from taskq import Client, Executor, Seed
from taskq.compute import futures
from taskq.compute.tracker import Tracker
from taskq.db.access import Queries
from taskq.model.errors import CampaignPaused, TaskFailed, Unavailable
from tests.fixtures.queues import Hire
from tests.helpers.waiting import wait_until
from tests.payloads import called
from tests.payloads.called import BadLigand

WAIT_S = 120.0


def fail_once(
    monkeypatch: pytest.MonkeyPatch, database: Queries, when: Callable[[str], bool]
) -> list[str]:
    """Have one statement fail; return the list of those that have."""
    rows, failed = database.rows, list[str]()

    def failing(name: str, /, **values: object) -> list[Any]:
        if not failed and when(name):
            failed.append(name)
            raise Unavailable("the server is away")
        return rows(name, **values)

    monkeypatch.setattr(database, "rows", failing)
    return failed


def test_failed_calls_are_found_among_other_failed_ones(queue: Client, hire: Hire) -> None:
    """Those of other arguments, seeded before them, are not theirs."""
    queue.map(called.refuse, range(1, 80, 2), name="/c")
    agent = hire()
    for task in agent.claim(40):
        agent.fail(task, retry=False)
    ended = queue.map(called.refuse, [1, 41, 79], name="/c").outcomes(WAIT_S)
    assert [(outcome.status, type(outcome.error)) for outcome in ended] == [
        ("failed", TaskFailed)
    ] * 3


@pytest.mark.thorough
def test_failures_are_reported_while_an_earlier_call_runs(
    served_queue: Client, tmp_path: Path
) -> None:
    """One after another, however many there were."""
    with Executor(served_queue) as executor:
        first = executor.submit(called.wait_for, str(tmp_path / "go"))
        for n in range(1, 8, 2):
            assert isinstance(executor.submit(called.refuse, n).exception(WAIT_S), BadLigand)
        assert not first.done()
        (tmp_path / "go").touch()
        assert first.result(WAIT_S) is None


@pytest.fixture
def ended(queue: Client, hire: Hire) -> Iterator[Tracker]:
    """Give a tracker of 99 tasks, of which two in three are done, and the first pages are full."""
    campaign = queue.create_campaign("/c")
    campaign.seed({"n": n} for n in range(99))
    agent = hire()
    for task in agent.claim(99):
        if task.payload["n"] % 3:
            agent.done(task)
    tracker = Tracker(queue.queries, campaign.campaign_id, campaign.path)
    tracker.add(task.task_id for task in campaign.tasks())
    return tracker


def test_look_that_fails_forgets_nothing(
    ended: Tracker, queue: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next look knows what the first page has found."""
    monkeypatch.setattr("taskq.compute.tracker.LARGEST_PAGE", 32)
    pages: list[str] = []
    failed = fail_once(
        monkeypatch,
        queue.queries,
        lambda name: name == "results_of" and (pages.append(name) or len(pages) == 2),
    )
    with pytest.raises(Unavailable):
        ended.look()
    assert failed
    found = ended.look()
    while more := ended.look():
        found += more
    assert sorted(call.task for call in found) == sorted({call.task for call in found})
    assert (len(found), len(ended.pending)) == (66, 33)


def test_reports_without_results_seldom_read_the_counters(
    queue: Client, hire: Hire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents report often, and the last look has mostly found what they did; failures are found."""
    campaign = queue.create_campaign("/c")
    campaign.seed([{}])
    (listed,) = campaign.tasks()
    looks = Tracker(queue.queries, campaign.campaign_id, campaign.path)
    looks.add([listed.task_id])
    assert looks.look() == []
    agent, asked, rows = hire(), list[str](), queue.queries.rows
    (task,) = agent.claim(1)
    agent.fail(task, retry=False)
    monkeypatch.setattr(
        queue.queries, "rows", lambda what, **how: asked.append(what) or rows(what, **how)
    )
    monkeypatch.setattr("taskq.compute.tracker.COUNTED_S", WAIT_S)
    assert looks.look(reported=True) == []
    assert asked == ["results_of"]
    monkeypatch.setattr("taskq.compute.tracker.COUNTED_S", 0.0)
    assert [ended.status for ended in looks.look(reported=True)] == ["failed"]


def test_removed_tasks_count_as_cancelled_and_retried_ones_as_unfinished(
    queue: Client, hire: Hire
) -> None:
    """Who is gone counts as cancelled; what was tried again is waited for."""
    campaign = queue.create_campaign("/c")
    campaign.seed({"n": n} for n in range(3))
    agent = hire()
    for task in agent.claim(3):
        agent.fail(task, retry=False)
    tasks = [task.task_id for task in campaign.tasks()]
    rows = queue.queries.rows(
        "unsuccessful", campaign=campaign.campaign_id, tasks=[tasks[2], 10**9, tasks[0]]
    )
    assert [(row["task_id"], row["status"]) for row in rows] == [
        (tasks[2], "failed"),
        (10**9, "removed"),
        (tasks[0], "failed"),
    ]
    assert campaign.retry() == 3
    assert queue.queries.rows("unsuccessful", campaign=campaign.campaign_id, tasks=tasks) == []
    assert campaign.cancel() == 3
    tracker = Tracker(queue.queries, campaign.campaign_id, campaign.path)
    tracker.add([*tasks, 10**9])
    assert [call.status for call in tracker.look()] == ["cancelled"] * 4
    assert not tracker.pending


@pytest.mark.thorough
def test_server_that_is_away_is_no_end_of_a_call(
    served_queue: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The future waits for what the call has raised."""
    monkeypatch.setattr(futures, "AWAY_S", 0.01)
    failed = fail_once(monkeypatch, served_queue.queries, lambda name: name == "attempts")
    future = served_queue.submit(called.refuse, 77)
    assert isinstance(future.exception(WAIT_S), BadLigand)
    wait_until(lambda: failed == ["attempts"])


@pytest.mark.thorough
def test_best_calls_are_the_next_stage(served_queue: Client, name: str) -> None:
    """Mappings keep their keys, other arguments are themselves; of equal ones the first."""
    ligands = [Seed({"smiles": "C" * (1 + n % 3), "n": n}, f"t{n}") for n in range(9)]
    run = served_queue.map(called.scored, ligands, name=name)
    run.wait(WAIT_S)  # else the best so far may begin, with warnings, that are not the best of all
    best = run.best(percent=100, by="score", group="smiles", timeout=WAIT_S)
    again = served_queue.map(called.scored, best, name=f"{name}/next")
    outcomes = list(again.outcomes(WAIT_S))
    assert sorted(outcome.key for outcome in outcomes) == ["t0", "t1", "t2"]
    scores = [outcome.value["score"] for outcome in outcomes]
    assert scores == sorted(scores)
    squares = served_queue.map(called.square, [3, 1, 2], name=f"{name}/squares")
    assert list(squares.best(n=2, by="value", timeout=WAIT_S)) == [1, 2]


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:.*had begun and are not among the best")  # at times
def test_next_stage_goes_while_the_first_does(near_queue: Client, name: str) -> None:
    """Asked while calls run, `map` waits with agents at work; what is left is that of the end."""
    run = near_queue.map(called.scored, [{"smiles": "C" * n} for n in range(1, 41)], name=name)
    best = run.best(percent=10, by="score", timeout=WAIT_S)
    with taskq.local_agents(near_queue, 2, name):
        refined = near_queue.map(called.scored, best, name=f"{name}/next")
        outcomes = list(refined.outcomes(WAIT_S))
    assert not run.status().unfinished
    chosen = [hit.payload for hit in run.best(percent=10, by="score")]
    assert [outcome.argument for outcome in outcomes] == chosen
    assert len(outcomes) == 4
    again = near_queue.map(called.scored, run.best(percent=10, by="score"), name=f"{name}/next")
    assert [outcome.key for outcome in again.outcomes(WAIT_S)] == [
        outcome.key for outcome in outcomes
    ]


def test_stage_that_pauses_ends_the_wait_for_its_best(near_queue: Client, name: str) -> None:
    """Nobody would wait for ever."""
    near_queue.create_campaign(name).pause()  # agents of other tests serve all that is open
    first = f"{name}/first"
    run = near_queue.map(called.scored, [{"smiles": "C"}], name=first)
    with pytest.raises(TimeoutError):
        near_queue.map(called.scored, run.best(n=1, by="score", timeout=0.1), name=f"{name}/next")
    run.campaign.pause()
    with psycopg.connect(near_queue.database.dsn) as connection:
        connection.execute("update taskq.campaign set paused_why = 'why' where path = %s", [first])
    with pytest.raises(CampaignPaused, match="why"):
        near_queue.map(called.scored, run.best(n=1, by="score"), name=f"{name}/next")
