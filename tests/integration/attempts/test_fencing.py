"""The fence: of all that is reported about an attempt, exactly one word counts."""

from __future__ import annotations

import itertools
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest

from taskq import Campaign, Client, Seed
from taskq.model.errors import UsageError
from taskq_agent.protocol import DONE, FAILED, RELEASED
from tests.fixtures.queues import Hire
from tests.helpers.postgres import (
    Postgres,
    assert_counts_are_true,
    expire,
    promote,
    silence,
    statuses,
    task_row,
    value,
)
from tests.helpers.scripted_agent import Claimed, ScriptedAgent, report_of
from tests.helpers.variants import rest_thorough

pytestmark = pytest.mark.usefixtures("true_counts")

OUTCOMES = [DONE, FAILED, RELEASED]


@pytest.fixture
def task(agent: ScriptedAgent) -> Claimed:
    """Give a task in the agent's hands."""
    (claimed,) = agent.claim(1)
    return claimed


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_report_that_is_sent_twice_is_a_duplicate(
    agent: ScriptedAgent, task: Claimed, campaign: Campaign, outcome: str
) -> None:
    """An agent whose acknowledgement was lost reports again; that changes nothing."""
    assert agent.report(task, outcome) == "accepted"
    before = campaign.task("a"), campaign.attempts("a")
    assert agent.report(task, outcome) == "duplicate"
    assert (campaign.task("a"), campaign.attempts("a")) == before


@pytest.mark.parametrize(
    ("first", "second"), rest_thorough([*itertools.permutations(OUTCOMES, 2)], 3)
)
def test_second_word_about_an_attempt_is_superseded(
    agent: ScriptedAgent, task: Claimed, campaign: Campaign, first: str, second: str
) -> None:
    """The first report counts, whatever a later one says."""
    assert agent.report(task, first) == "accepted"
    before = campaign.task("a"), campaign.attempts("a")
    assert agent.report(task, second) == "superseded"
    assert (campaign.task("a"), campaign.attempts("a")) == before


def test_handing_back_unstarted_twice_changes_nothing_more(
    agent: ScriptedAgent, task: Claimed, campaign: Campaign
) -> None:
    """It leaves no record that could tell a repetition from a stranger; both verdicts are final."""
    assert agent.release(task, started=False) == "accepted"
    assert agent.release(task, started=False) == "superseded"
    assert campaign.task("a").attempt == 0


def test_late_report_of_an_expired_attempt_is_superseded(
    agent: ScriptedAgent, task: Claimed, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """The task belongs to anyone who claimed it since, and only that agent's word counts."""

    def report_late() -> set[str]:
        return {agent.report(task, outcome) for outcome in OUTCOMES}

    silence(postgres, agent.session)
    assert expire(postgres) == 1
    assert report_late() == {"superseded"}
    other = hire()
    again = other.claim(2)[0]
    assert (again.key, again.attempt) == ("a", 2)
    assert report_late() == {"superseded"}
    assert other.done(again, {"by": "other"}) == "accepted"
    assert report_late() == {"superseded"}
    assert [result.result for result in campaign.results()] == [{"by": "other"}]


@pytest.mark.parametrize("hinted", [False, True])
def test_claim_that_comes_too_late_gives_no_lease_twice(
    agent: ScriptedAgent, campaign: Campaign, hire: Hire, postgres: Postgres, hinted: bool
) -> None:
    """Else what a gateway sends again about the old attempt would count for the new one."""
    lease, other = agent.draw_lease(), hire()
    campaign.cancel(["b"])
    (first,) = agent.claim(1, lease=lease)
    assert agent.fail(first) == "accepted"
    assert promote(postgres) == 1
    (second,) = other.claim(1)
    assert other.fail(second) == "accepted"
    assert promote(postgres) == 1
    if hinted:  # the connection looks behind a position, as it does for most claims
        campaign.seed([Seed({}, "c", priority=1)])
        agent.forget_position()
        agent.claim(1)
    assert agent.claim(1, lease=lease) == agent.claim(2, lease=lease) == []
    assert agent.fail(first) == "duplicate"
    assert campaign.task("a").failures == 2
    other.forget_position()
    assert [(claim.key, claim.attempt) for claim in other.claim(1)] == [("a", 3)]


def test_report_under_a_foreign_lease_is_superseded(
    agent: ScriptedAgent, task: Claimed, campaign: Campaign
) -> None:
    """Knowing the task is not enough."""
    stranger = Claimed(task.campaign, task.task, agent.draw_lease(), 1, task.key, {})
    assert agent.done(stranger) == "superseded"
    assert campaign.task("a").status == "working"


def test_report_of_a_task_that_does_not_exist_is_unknown(
    agent: ScriptedAgent, task: Claimed, hire: Hire, queue: Client
) -> None:
    """Also one of another campaign: a report names its campaign."""
    assert agent.done(Claimed(task.campaign, 10**9, task.lease, 1, "", {})) == "unknown"
    queue.create_campaign("/other")
    assert hire("/other").done(task) == "unknown"


def test_report_on_a_task_that_nobody_claimed_is_superseded(
    agent: ScriptedAgent, task: Claimed, postgres: Postgres
) -> None:
    """A lease opens only what was claimed under it."""
    unclaimed = value(postgres, "select task_id from taskq.state where status = 'waiting'")
    assert agent.done(Claimed(task.campaign, unclaimed, task.lease, 1, "b", {})) == "superseded"


@pytest.mark.parametrize("outcome", ["lost", "cancelled"])
def test_agents_cannot_decide_what_the_queue_decides(
    agent: ScriptedAgent, task: Claimed, campaign: Campaign, outcome: str
) -> None:
    """Whether an attempt is lost or cancelled is not the agent's to say."""
    assert agent.report(task, outcome) == "superseded"
    assert campaign.task("a").status == "working"


def test_unknown_outcome_is_refused_as_a_whole(
    agent: ScriptedAgent, task: Claimed, campaign: Campaign
) -> None:
    """A report that cannot be read changes nothing, nor do those next to it."""
    (other,) = agent.claim(1)
    with pytest.raises(UsageError, match="perhaps"):
        agent.exchange([report_of(other, DONE), report_of(task, "perhaps")])
    assert campaign.status().working == 2


@pytest.mark.thorough
@pytest.mark.parametrize(("first", "second"), list(itertools.product(OUTCOMES, repeat=2)))
def test_of_two_reports_of_one_attempt_in_one_exchange_the_first_counts(
    agent: ScriptedAgent, task: Claimed, campaign: Campaign, first: str, second: str
) -> None:
    """The second is answered as if it had come later."""
    verdicts = agent.exchange([report_of(task, first), report_of(task, second)])["acks"]
    assert verdicts == ["accepted", "duplicate" if first == second else "superseded"]
    (attempt,) = campaign.attempts("a")
    assert attempt.outcome == first
    status = campaign.status()
    assert (status.working, status.failures) == (0, first == "failed")


def test_task_handed_back_twice_in_one_exchange_is_counted_once(
    agent: ScriptedAgent, task: Claimed, campaign: Campaign
) -> None:
    """Though no attempt is recorded for a task that was not begun."""
    unstarted = report_of(task, "released", started=False)
    before = campaign.status()
    assert agent.exchange([unstarted, unstarted])["acks"] == ["accepted", "superseded"]
    after = campaign.status()
    assert (after.working, after.waiting) == (before.working - 1, before.waiting + 1)


def test_verdicts_come_in_the_order_of_the_reports(
    agent: ScriptedAgent, campaign: Campaign
) -> None:
    """Whatever order the tasks have, and whatever becomes of each."""
    campaign.seed({"n": n} for n in range(20))
    tasks = agent.claim(22)
    assert len(tasks) == 22
    for task in tasks[::3]:
        agent.done(task)
    lost = Claimed(tasks[0].campaign, 10**9, tasks[0].lease, 1, "", {})
    mixed = [*reversed(tasks), lost]
    acks = agent.exchange([report_of(task, DONE) for task in mixed])["acks"]
    ended = tasks[::3]
    assert acks == [
        "unknown" if task is lost else "duplicate" if task in ended else "accepted"
        for task in mixed
    ]


@pytest.mark.thorough
def test_of_many_words_at_once_exactly_one_is_accepted(
    agent: ScriptedAgent, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Eight connections report the same attempts at the same moment, each in its own way."""
    campaign.seed({"n": n} for n in range(50))
    tasks = agent.claim(52)
    speakers = [hire() for _ in range(8)]
    start = Barrier(len(speakers))

    def speak(number: int) -> list[str]:
        start.wait()
        return [
            speakers[number].report(task, OUTCOMES[(number + turn) % 3])
            for turn, task in enumerate(tasks)
        ]

    with ThreadPoolExecutor(len(speakers)) as pool:
        verdicts = list(pool.map(speak, range(len(speakers))))
    for words in zip(*verdicts, strict=True):
        assert Counter(words)["accepted"] == 1
    assert value(postgres, "select count(*) from taskq.attempt") == len(tasks)


@pytest.mark.thorough
def test_reports_in_opposite_orders_do_not_deadlock(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Overlapping batches, and a cancellation, lock in the order of the tasks."""
    campaign.seed({"n": n} for n in range(400))
    owner = hire()
    tasks = owner.claim(400)
    speakers = [hire() for _ in range(4)]
    start = Barrier(len(speakers) + 1)

    def cancel() -> int:
        start.wait()
        return campaign.cancel(task.key for task in tasks[350:])

    def speak(number: int) -> Counter[str]:
        verdicts: Counter[str] = Counter()
        start.wait()
        for begin in range(0, len(tasks), 40):
            batch = tasks[begin : begin + 60]
            if number % 2:
                batch = batch[::-1]
            reports = [report_of(task, OUTCOMES[number % 3], retry=False) for task in batch]
            verdicts.update(speakers[number].exchange(reports, want=3)["acks"])
        return verdicts

    with ThreadPoolExecutor(len(speakers) + 1) as pool:
        cancelling = pool.submit(cancel)
        verdicts = sum(pool.map(speak, range(len(speakers))), Counter[str]())
    ended = value(
        postgres, "select count(*) from taskq.attempt where lease_id = %s", tasks[0].lease
    )
    assert ended == 400
    cancelled = value(postgres, "select count(*) from taskq.attempt where outcome = 'cancelled'")
    assert verdicts["accepted"] + cancelled == 400
    assert cancelling.result() >= cancelled


def test_sql_verbs_keep_the_same_fence(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """A client that speaks SQL has claim, complete, fail and release, by path."""

    def say(query: str, *values: object) -> object:
        return value(postgres, f"select {query}", *values)

    lease = agent.draw_lease()
    rows = postgres.execute(
        "select * from taskq.claim('/c', %s, %s, 2)", [agent.session, lease]
    ).fetchall()
    first, second = sorted(row["task_id"] for row in rows)
    assert {row["key"]: row["payload"] for row in rows} == {"a": {"n": 1}, "b": {"n": 2}}
    done = "taskq.complete('/c', %s, %s, '{\"x\": 1}')"
    assert say(done, first, lease) == "accepted"
    assert say(done, first, lease) == "duplicate"
    assert say("taskq.fail('/c', %s, %s, 'Boom')", first, lease) == "superseded"
    assert say("taskq.fail('/c', %s, %s, 'Boom', 'bad', false)", second, lease) == "accepted"
    assert say("taskq.release('/c', %s, %s)", second, lease) == "superseded"
    assert statuses(postgres) == {"a": "done", "b": "failed"}
    assert [result.result for result in campaign.results()] == [{"x": 1}]


def test_sql_verbs_refuse_an_ended_session_and_an_absent_campaign(
    agent: ScriptedAgent, postgres: Postgres
) -> None:
    """Each error has a code of its own, for scripts."""
    lease = agent.draw_lease()
    agent.leave()
    with pytest.raises(psycopg.Error, match="has ended; open another") as ended:
        postgres.execute("select taskq.claim('/c', %s, %s)", [agent.session, lease])
    assert ended.value.sqlstate == "TQ410"
    with pytest.raises(psycopg.Error, match="no campaign /none") as absent:
        postgres.execute("select taskq.claim('/none', %s, %s)", [agent.session, lease])
    assert absent.value.sqlstate == "TQ404"


@pytest.mark.parametrize("others", [0, 1])
def test_report_without_an_outcome_ends_nothing(
    others: int, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Neither alone nor next to one that says how its attempt ended."""
    campaign.seed({"n": n} for n in range(2))
    agent = hire()
    mute, *rest = agent.claim(1 + others)
    reports = [
        {"task": mute.task, "lease": mute.lease},
        *(report_of(claim, "done") for claim in rest),
    ]
    assert agent.exchange(reports)["acks"] == ["superseded", *["accepted"] * others]
    assert task_row(postgres, mute.task)["status"] == "working"
    assert_counts_are_true(postgres)
    assert agent.done(mute) == "accepted"
