"""Late results: what becomes of a success of an attempt that was given up as lost."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from taskq import Campaign, CampaignSpec, Client, RetryPolicy, Seed
from taskq.db.tokens import hashed
from taskq.model.errors import SessionEnded
from taskq_agent.protocol import DONE, FAILED, RELEASED
from tests.fixtures.queues import Hire
from tests.helpers.postgres import (
    Postgres,
    expire,
    promote,
    silence,
    statuses,
    task_row,
    value,
)
from tests.helpers.scripted_agent import Claimed, ScriptedAgent, report_of

pytestmark = pytest.mark.usefixtures("true_counts")

RESULT = {"by": "late"}
Lose = Callable[..., list[Claimed]]


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign that salvages, with the tasks a and b, given up after three losses."""
    policy = RetryPolicy(max_attempts=2, max_losses=3, max_lost_hosts=100)
    campaign = queue.create_campaign(CampaignSpec("/c", retry=policy, late_results="salvage"))
    campaign.seed([Seed({"n": 1}, "a"), Seed({"n": 2}, "b")])
    return campaign


@pytest.fixture
def lose(campaign: Campaign, hire: Hire, postgres: Postgres) -> Lose:
    """Give a function by which an agent claims tasks and is given up; it returns the tasks."""
    assert campaign.path == "/c"

    def lose_some(want: int = 1, agent: ScriptedAgent | None = None) -> list[Claimed]:
        agent = agent or hire(slots=200)
        tasks = agent.claim(want)
        assert len(tasks) == want
        silence(postgres, agent.session)
        assert expire(postgres) == want
        return tasks

    return lose_some


def attempts(campaign: Campaign, key: str = "a") -> list[tuple[int, str, str | None]]:
    return [
        (attempt.attempt, attempt.outcome, attempt.error_class)
        for attempt in campaign.attempts(key)
    ]


def results(campaign: Campaign) -> dict[str, tuple[int, Any]]:
    return {result.key: (result.attempt, result.result) for result in campaign.results()}


def test_late_result_counts_while_the_task_waits(
    lose: Lose, hire: Hire, campaign: Campaign, postgres: Postgres
) -> None:
    """The attempt is done, and its class still tells that it had been lost."""
    (task,) = lose()
    late = {"result": RESULT, "phases": {"run": 2.5}, "exit_code": 0, "tail": "bye"}
    assert hire().report(task, DONE, **late) == "accepted"
    (attempt,) = campaign.attempts("a")
    assert (attempt.outcome, attempt.error_class) == ("done", "agent-lost")
    assert {name: getattr(attempt, name) for name in late} == late
    assert results(campaign) == {"a": (1, RESULT)}
    status = campaign.status()
    assert (status.waiting, status.done, status.losses) == (1, 1, 1)
    row = task_row(postgres, task.task)
    assert (row["status"], row["losses"]) == ("done", 1)


def test_late_result_is_rejected_by_default(
    lose: Lose, hire: Hire, campaign: Campaign, postgres: Postgres
) -> None:
    """Unless the campaign says otherwise, what is lost is lost."""
    campaign.change(CampaignSpec("/c"))
    (task,) = lose()
    assert hire().done(task, RESULT) == "superseded"
    assert statuses(postgres)["a"] == "waiting"


@pytest.mark.parametrize("outcome", [FAILED, RELEASED])
def test_only_success_is_salvaged(outcome: str, lose: Lose, hire: Hire, postgres: Postgres) -> None:
    """A failure or a hand-back that comes late decides nothing."""
    (task,) = lose()
    assert hire().report(task, outcome) == "superseded"
    assert statuses(postgres)["a"] == "waiting"


def test_repeated_late_result_is_a_duplicate(lose: Lose, hire: Hire, campaign: Campaign) -> None:
    """In the same exchange or later, an answer that got lost is repeated."""
    (task,) = lose()
    agent, report = hire(), report_of(task, DONE, result=RESULT)
    assert agent.exchange([report, report])["acks"] == ["accepted", "duplicate"]
    before = campaign.attempts("a")
    assert agent.exchange([report])["acks"] == ["duplicate"]
    assert campaign.attempts("a") == before


def test_late_result_counts_while_the_task_is_delayed(
    lose: Lose, hire: Hire, campaign: Campaign, postgres: Postgres
) -> None:
    """Though a later attempt has failed, and it never comes due."""
    (task,), agent = lose(), hire()
    agent.fail(agent.claim(1)[0])
    assert statuses(postgres)["a"] == "delayed"
    assert agent.done(task, RESULT) == "accepted"
    assert attempts(campaign) == [(1, "done", "agent-lost"), (2, "failed", "Boom")]
    assert promote(postgres) == 0


def test_late_result_ends_the_attempt_that_works_on_the_task(
    lose: Lose, hire: Hire, campaign: Campaign
) -> None:
    """Its agent learns by its next beat to stop, and its own word is superseded."""
    (task,), other = lose(), hire()
    again, held = other.claim(2)
    assert hire().done(task, RESULT) == "accepted"
    assert attempts(campaign) == [(1, "done", "agent-lost"), (2, "cancelled", "salvaged")]
    assert other.heartbeat([again, held]) == {again.task}
    assert other.done(again) == "superseded"
    assert other.done(held) == "accepted"
    assert results(campaign) == {"a": (1, RESULT), "b": (1, {})}


@pytest.mark.parametrize(
    ("nodes", "error_class"), [(100, "agent-lost"), (1, "poison")], ids=["losses", "poison"]
)
def test_late_result_revives_a_task_that_failed_through_losses(
    nodes: int, error_class: str, lose: Lose, hire: Hire, campaign: Campaign, postgres: Postgres
) -> None:
    """A ten-hour docking is not thrown away because its node was cut off."""
    policy = RetryPolicy(max_losses=1, max_lost_hosts=nodes)
    campaign.change(CampaignSpec("/c", retry=policy, late_results="salvage"))
    (task,) = lose()
    assert statuses(postgres)["a"] == "failed"
    assert hire().done(task, RESULT) == "accepted"
    assert attempts(campaign) == [(1, "done", error_class)]
    assert (campaign.status().failed, campaign.status().done) == (0, 1)
    assert list(campaign.failures()) == []


def test_late_result_counts_after_an_operators_retry(
    lose: Lose, hire: Hire, campaign: Campaign
) -> None:
    """Whether the task waits by then or is worked on."""
    policy = RetryPolicy(max_losses=1)
    campaign.change(CampaignSpec("/c", retry=policy, late_results="salvage"))
    (first,), (second,) = lose(), lose()
    assert campaign.retry(error_class="agent-lost") == 2
    agent = hire()
    agent.claim(1)
    reports = [report_of(second, DONE, result=RESULT), report_of(first, DONE, result=RESULT)]
    assert agent.exchange(reports)["acks"] == ["accepted"] * 2
    assert results(campaign) == {"a": (1, RESULT), "b": (1, RESULT)}
    assert attempts(campaign) == [(1, "done", "agent-lost"), (2, "cancelled", "salvaged")]


@pytest.mark.parametrize("end", ["done", "failed", "cancelled"])
def test_late_result_never_changes_an_outcome(
    end: str, lose: Lose, hire: Hire, campaign: Campaign, postgres: Postgres
) -> None:
    """What is done, cancelled, or failed by its own failures stays so."""
    (task,), agent = lose(), hire()
    (again,) = agent.claim(1)
    if end == "cancelled":
        campaign.cancel(["a"])
    else:
        agent.report(again, end, retry=False)
    before = campaign.task("a"), campaign.attempts("a")
    assert agent.done(task, RESULT) == "superseded"
    assert (campaign.task("a"), campaign.attempts("a")) == before
    assert statuses(postgres)["a"] == end


def test_task_that_failed_since_its_retry_is_not_salvaged(
    lose: Lose, hire: Hire, campaign: Campaign, postgres: Postgres
) -> None:
    """The losses before are history: its last attempt has failed."""
    policy = RetryPolicy(max_losses=1, max_attempts=1)
    campaign.change(CampaignSpec("/c", retry=policy, late_results="salvage"))
    (task,) = lose()
    campaign.retry()
    agent = hire()
    agent.fail(agent.claim(1)[0])
    assert agent.done(task, RESULT) == "superseded"
    assert statuses(postgres)["a"] == "failed"


@pytest.mark.parametrize("last_first", [False, True])
def test_of_two_late_results_in_one_exchange_the_first_counts(
    last_first: bool, lose: Lose, hire: Hire, campaign: Campaign
) -> None:
    """Whichever attempt it is of."""
    claim, two = lose()[0], lose()[0]
    assert (claim.key, claim.attempt, two.attempt) == ("a", 1, 2)
    reports = [report_of(task, DONE, result={"n": task.attempt}) for task in (claim, two)]
    acks = hire().exchange(reports[::-1] if last_first else reports)["acks"]
    assert acks == ["accepted", "superseded"]
    assert results(campaign) == {"a": (2, {"n": 2}) if last_first else (1, {"n": 1})}


@pytest.mark.parametrize("late_first", [False, True])
@pytest.mark.parametrize(("outcome", "verdict"), [(DONE, "superseded"), (FAILED, "accepted")])
def test_word_in_time_goes_before_a_late_one_in_one_exchange(
    late_first: bool, outcome: str, verdict: str, lose: Lose, hire: Hire, campaign: Campaign
) -> None:
    """The late result counts if that leaves the task undecided."""
    (task,), agent = lose(), hire()
    (again,) = agent.claim(1)
    late, timely = report_of(task, DONE, result=RESULT), report_of(again, outcome)
    acks = agent.exchange([late, timely] if late_first else [timely, late])["acks"]
    assert (acks if late_first else acks[::-1]) == [verdict, "accepted"]
    assert results(campaign)["a"][0] == (2 if outcome == DONE else 1)


def test_late_results_come_among_others(lose: Lose, hire: Hire, campaign: Campaign) -> None:
    """A batch is answered in its order, whatever becomes of each; claims go along."""
    campaign.seed(Seed({"n": n}, f"k{n}") for n in range(6))
    late, agent = lose(2), hire(slots=4)
    mine = agent.claim(6)  # the two that were lost, and four more
    unknown = Claimed(late[0].campaign, 10**9, late[0].lease, 1, "", {})
    answer = agent.exchange(
        [
            report_of(mine[3], DONE),
            report_of(late[1], DONE, result=RESULT),
            report_of(unknown, DONE),
            report_of(mine[2], FAILED, retry=False),
            report_of(late[0], DONE, result=RESULT),
            report_of(mine[0], DONE),
        ],
        want=5,
    )
    assert answer["acks"] == [
        "accepted",
        "accepted",
        "unknown",
        "accepted",
        "superseded",
        "accepted",
    ]
    assert {task.key for task in agent.claimed(answer)} == {"k4", "k5"}
    assert results(campaign) == {"a": (2, None), "b": (1, RESULT), "k1": (1, None)}


def test_salvaged_task_makes_room_under_a_limit(lose: Lose, hire: Hire, campaign: Campaign) -> None:
    """The attempt that it cancels does not run any more."""
    spec = CampaignSpec("/c", max_running=1, late_results="salvage")
    (task,), agent = lose(), hire()
    campaign.change(spec)
    agent.claim(1)
    answer = agent.exchange([report_of(task, DONE)], want=2)
    assert answer["acks"] == ["accepted"]
    assert [task.key for task in agent.claimed(answer)] == ["b"]


def test_attempt_that_may_be_salvaged_gets_no_order_to_stop(
    lose: Lose, hire: Hire, campaign: Campaign
) -> None:
    """Its agent, back in a new session, continues until the task is decided."""
    (task,), agent, other = lose(), hire(), hire()
    assert agent.heartbeat([task]) == set()
    (again,) = other.claim(1)
    assert agent.heartbeat([task]) == set()
    other.done(again)
    assert agent.heartbeat([task]) == {task.task}
    campaign.change(CampaignSpec("/c"))
    (task,) = lose()
    assert agent.heartbeat([task]) == {task.task}


def test_session_that_was_given_up_delivers_its_results(
    lose: Lose, hire: Hire, campaign: Campaign
) -> None:
    """An agent next to the database reports in its old session, or in its next one."""
    agent = hire()
    first, second = lose(2, agent)
    with pytest.raises(SessionEnded):
        agent.heartbeat([first])
    assert agent.done(first, RESULT) == "accepted"
    assert hire().done(second, RESULT) == "accepted"
    assert set(results(campaign)) == {"a", "b"}


def test_task_leased_ahead_is_taken_from_the_pool(
    lose: Lose, hire: Hire, campaign: Campaign, postgres: Postgres
) -> None:
    """What nobody has named was no attempt."""
    (task,) = lose()
    postgres.execute(
        "update taskq.task set status = 'working', session_id = 0, attempt = 2, lease_id = %s"
        " where task_id = %s",
        [str(uuid.uuid4()), task.task],
    )
    postgres.execute(
        "insert into taskq.delta (campaign_id, waiting, working) values (%s, -1, 1)",
        [campaign.campaign_id],
    )
    assert hire().done(task, RESULT) == "accepted"
    assert attempts(campaign) == [(1, "done", "agent-lost")]
    assert campaign.task("a").attempt == 1


@pytest.fixture
def sites(
    queue: Client, campaign: Campaign, hire: Hire, postgres: Postgres
) -> dict[str, ScriptedAgent]:
    """Give an agent of each of two sites."""
    sites = {}
    for name in ("here", "there"):
        queue.tokens.create("site", name, [campaign.path])
        sites[name] = hire()
        postgres.execute(
            "update taskq.session s set token_id = t.token_id, token_hash = %s"
            "  from taskq.token t where s.session_id = %s and t.name = %s",
            [hashed(str(uuid.uuid4())), sites[name].session, name],
        )
    return sites


def fenced(agent: ScriptedAgent, task: Claimed) -> list[str]:
    """Report a success through a gateway, which says whose word it is; return the verdicts."""
    report = report_of(task, DONE, result=RESULT, session=agent.session)
    acks: list[str] = agent.exchange([report])["acks"]
    return acks


def test_late_result_counts_from_its_own_site_only(
    sites: dict[str, ScriptedAgent], lose: Lose, hire: Hire, postgres: Postgres
) -> None:
    """From the session that was given up, or another of the same token; else it is unknown."""
    tasks = lose(2, sites["here"])
    assert fenced(sites["there"], tasks[0]) == ["unknown"]
    assert statuses(postgres)["a"] == "waiting"
    assert fenced(sites["here"], tasks[0]) == ["accepted"]
    heir = hire()
    postgres.execute(
        "update taskq.session s set token_id = o.token_id, token_hash = %s"
        "  from taskq.session o where s.session_id = %s and o.session_id = %s",
        [hashed(str(uuid.uuid4())), heir.session, sites["here"].session],
    )
    assert fenced(heir, tasks[1]) == ["accepted"]


def test_revoked_token_salvages_nothing(
    sites: dict[str, ScriptedAgent], lose: Lose, queue: Client, postgres: Postgres
) -> None:
    """Its sessions have no rights any more, though the attempt was theirs."""
    (task,) = lose(1, sites["here"])
    queue.tokens.revoke("here")
    assert fenced(sites["here"], task) == ["superseded"]
    assert statuses(postgres)["a"] == "waiting"


def test_of_many_late_results_at_once_one_is_accepted(
    lose: Lose, hire: Hire, campaign: Campaign, postgres: Postgres
) -> None:
    """Four connections report two leases of each task, in opposite orders, while others claim."""
    campaign.seed({"n": n} for n in range(40))
    policy = RetryPolicy(max_losses=100, max_lost_hosts=100)
    campaign.change(CampaignSpec("/c", retry=policy, late_results="salvage"))
    lost = [lose(42), lose(42)]
    speakers = [hire() for _ in range(4)]
    start = Barrier(len(speakers))

    def speak(number: int) -> list[tuple[int, str]]:
        tasks = lost[number % 2][:: 1 if number < 2 else -1]
        start.wait()
        said: list[tuple[int, str]] = []
        for begin in range(0, len(tasks), 14):
            batch = tasks[begin : begin + 14]
            acks = speakers[number].exchange([report_of(task, DONE) for task in batch], want=3)
            said += zip((task.task for task in batch), acks["acks"], strict=True)
        return said

    with ThreadPoolExecutor(len(speakers)) as pool:
        verdicts = [said for spoken in pool.map(speak, range(4)) for said in spoken]
    accepted = Counter(task for task, verdict in verdicts if verdict == "accepted")
    assert accepted == dict.fromkeys((task.task for task in lost[0]), 1)
    done = value(postgres, "select count(*) from taskq.attempt where outcome = 'done'")
    assert done == len(results(campaign)) == 42
