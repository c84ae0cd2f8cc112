"""Withdrawing: done tasks are tried again, and rankings, indexes and cursors drop their results."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskq import Campaign, Cursor, Seed
from taskq.model.errors import UsageError
from taskq.results.following import WithdrawnResult
from taskq.results.id_set import IdSet
from taskq_agent.protocol import DONE
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, expire, silence, statuses
from tests.helpers.scripted_agent import ScriptedAgent

pytestmark = pytest.mark.usefixtures("true_counts")

WHERE = 'host = "bad" and status = done'


@pytest.fixture
def done(campaign: Campaign, hire: Hire) -> tuple[ScriptedAgent, ScriptedAgent]:
    """Give agents on two hosts that have done five tasks each, of eleven."""
    campaign.seed(Seed({"n": n}, f"k{n:02}") for n in range(11))
    bad, good = hire(host="bad"), hire(host="good")
    for agent in (bad, good):
        for task in agent.claim(5):
            agent.done(task, {"score": 0 if agent is bad else task.payload["n"]})
    return bad, good


@pytest.mark.both_transports
@pytest.mark.usefixtures("done")
def test_results_of_a_host_are_withdrawn(campaign: Campaign, postgres: Postgres) -> None:
    """A filter that names the status does it. No other retry moves a done task."""
    for where in ('host = "bad"', 'host = "bad" and not state = "failed"', "attempts = 1"):
        assert campaign.retry(where=where) == 0
    assert campaign.retry() == campaign.retry(status="delayed") == 0
    assert campaign.retry(where=WHERE, dry_run=True) == 5
    assert campaign.status().done == 10
    assert campaign.retry(where=WHERE) == 5
    assert campaign.retry(where=WHERE) == 0
    assert {key for key, status in statuses(postgres).items() if status == "done"} == {
        f"k{n:02}" for n in range(5, 10)
    }
    assert [result.key for result in campaign.results()] == [f"k{n:02}" for n in range(5, 10)]
    (attempt,) = campaign.attempts("k00")
    assert (attempt.outcome, attempt.result, attempt.host) == ("withdrawn", {"score": 0}, "bad")


def test_withdrawn_tasks_go_to_other_hosts_first(
    campaign: Campaign, done: tuple[ScriptedAgent, ScriptedAgent]
) -> None:
    """The new result is the only one. The numbers of attempts go on."""
    bad, good = done
    assert campaign.retry(status="done", keys=["k00", "k07", "k10"], dry_run=True) == 2
    assert campaign.retry(status="done", keys=["k00", "k07", "k10"]) == 2
    bad.forget_position()
    assert {task.key for task in bad.claim(9)} == {"k07", "k10"}
    good.forget_position()
    (again,) = good.claim(9)
    assert (again.key, again.attempt) == ("k00", 2)
    assert good.done(again, {"score": 7}) == "accepted"
    assert [attempt.outcome for attempt in campaign.attempts("k00")] == ["withdrawn", "done"]
    assert next(iter(campaign.results())).result == {"score": 7}


def test_loss_stays_one_after_its_late_result_is_withdrawn(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """The next result makes the task done again, with the loss of its first attempt."""
    campaign.change(replace(campaign.spec(), late_results="salvage"))
    campaign.seed([Seed({}, "a")])
    lost, agent = hire(), hire()
    (task,) = lost.claim(1)
    silence(postgres, lost.session)
    assert expire(postgres) == 1
    assert agent.done(task, {"score": 0}) == "accepted"
    assert campaign.retry(status="done") == 1
    (again,) = agent.claim(1)
    assert agent.done(again, {"score": 1}) == "accepted"
    assert [(attempt.outcome, attempt.error_class) for attempt in campaign.attempts("a")] == [
        ("withdrawn", "agent-lost"),
        ("done", None),
    ]
    assert campaign.task("a").losses == 1


def test_repeated_report_of_a_withdrawn_result_changes_nothing(
    campaign: Campaign, hire: Hire
) -> None:
    """A report that an agent repeats after a failover does not restore the result."""
    campaign.seed([Seed({}, "a")])
    agent = hire()
    (task,) = agent.claim(1)
    agent.done(task, {"score": 0})
    assert campaign.retry(status="done") == 1
    assert agent.report(task, DONE, result={"score": 0}) == "duplicate"
    assert campaign.status().waiting == 1


def test_all_results_are_withdrawn_in_chunks(
    campaign: Campaign, done: tuple[ScriptedAgent, ScriptedAgent], postgres: Postgres
) -> None:
    """Each call moves one chunk, and returns where the next one begins."""
    _, good = done
    query = "select moved, last from taskq.retry(%s, 'done', null, null, %s, 4)"
    moved, last = [], 0
    while last is not None:
        row = postgres.execute(query, [campaign.campaign_id, last]).fetchone()
        assert row is not None
        moved.append(row["moved"])
        last = row["last"]
    assert moved == [4, 4, 2]
    assert campaign.status().waiting == 11
    with pytest.raises(UsageError, match="no class of error"):
        campaign.retry(status="done", error_class="Odd")
    for task in good.claim(11):
        good.done(task, {})


@pytest.mark.both_transports
def test_cursor_reports_withdrawn_results_and_gives_the_next_ones(
    campaign: Campaign, done: tuple[ScriptedAgent, ScriptedAgent]
) -> None:
    """It reports each withdrawal once, and only of results that it has given."""
    bad, good = done
    cursor = Cursor()
    assert len(list(campaign.results(since=cursor))) == 10
    campaign.retry(status="done", keys=["k00", "k03"])
    cursor = Cursor.of_text(cursor.text)
    gone = list(campaign.results(since=cursor))
    assert all(isinstance(result, WithdrawnResult) and result.withdrawn for result in gone)
    assert [(result.key, result.attempt, result.result) for result in gone] == [
        ("k00", 1, None),
        ("k03", 1, None),
    ]
    cursor = Cursor.of_text(cursor.text)
    assert list(campaign.results(since=cursor)) == []
    good.forget_position()
    for task in good.claim(11):
        good.done(task, {"score": 1})
    new = list(campaign.results(since=cursor))
    assert [(result.key, result.attempt) for result in new] == [("k00", 2), ("k03", 2), ("k10", 1)]
    assert len(cursor) == 11
    assert list(campaign.results(since=Cursor.of_text(cursor.text))) == []
    assert len(list(campaign.results(since=Cursor()))) == 11
    for agent in (bad, good):  # between two looks: the cursor has only the first of these results
        assert campaign.retry(status="done", keys=["k00"]) == 1
        agent.forget_position()
        agent.done(agent.claim(1)[0])
    assert campaign.retry(status="done", keys=["k00"]) == 1
    found = list(campaign.results(since=cursor))
    assert [(result.key, result.attempt) for result in found] == [("k00", 2)]
    bad.forget_position()
    bad.done(bad.claim(1)[0])
    assert [(result.key, result.attempt) for result in campaign.results(since=cursor)] == [
        ("k00", 5)
    ]


@pytest.mark.parametrize("gone", [[], [1], [5], [3, 4], [1, 5, 9], [2, 3, 10], list(range(1, 12))])
def test_ids_are_taken_out_of_a_set(gone: list[int]) -> None:
    """Ids that the set does not have change nothing. A range is split if an id is within it."""
    ids, there = IdSet(), {1, 2, 3, 4, 5, 8, 9, 10}
    for number in there:
        ids.add(number)
    ids.remove(gone)
    assert {number for number in range(1, 12) if number in ids} == there - set(gone)
    assert len(ids) == len(there - set(gone))
