"""Agents next to the database that take what is leased ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.dispatch.direct import LEASE_S, DirectTransport
from taskq.front.address import FrontAddress
from taskq.front.blocking import BlockingPool
from taskq.front.levels import LEAST
from taskq_agent.protocol import ACCEPTED, DONE, FAILED, RELEASED, LeaseIds, Report, Request
from tests.fixtures.redis_servers import RedisServer
from tests.helpers.campaigns import servable
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, assert_counts_are_true, value
from tests.helpers.scripted_pool import ScriptedPool
from tests.integration.front.beside_the_front.support import Employ, Lease, Visitor

AWKWARD = {"big": 2**70, "small": -1.5e-300, "text": 'é\u2028"\\', "deep": [{"x": [None, True]}]}
Visit = Callable[..., Visitor]


@pytest.fixture
def visit(database: Database, front: FrontAddress) -> Iterator[Visit]:
    """Give a function that opens a session, with the front unless asked without."""
    opened: list[Visitor] = []

    def start(*, without: bool = False) -> Visitor:
        ahead = None if without else partial(BlockingPool, address=front)
        opened.append(Visitor(DirectTransport(database, front=ahead)))
        return opened[-1]

    yield start
    for one in opened:
        one.transport.close(one.session)


def test_agent_runs_what_is_leased_ahead_and_it_is_recorded_as_the_agents(
    database: Database, refilled: Campaign, employ: Employ, postgres: Postgres
) -> None:
    """Leased before its session was there, by a refiller; nothing is left with the pool."""
    summary = employ(database).finish()
    assert (summary.done, summary.superseded, summary.exit_code) == (LEAST, 0, 0)
    assert refilled.status().done == LEAST
    ahead = value(
        postgres,
        "select count(*) from taskq.attempt a join taskq.session s using (session_id)"
        " where a.claimed_at < s.opened_at and a.attempt = 1 and a.outcome = 'done'",
    )
    # What a claim did not get within a second, on a busy machine, goes back to the queue.
    assert ahead > LEAST // 2
    assert_counts_are_true(postgres)


@pytest.mark.parametrize(
    "outcomes",
    [[DONE], [DONE, DONE], [DONE, FAILED, RELEASED]],
    ids=["one", "several", "mixed"],
)
def test_reports_on_what_no_beat_has_named_are_recorded_as_the_reporters(
    outcomes: list[str], leased: Campaign, visit: Visit, postgres: Postgres
) -> None:
    """However the queue takes them in."""
    visitor = visit()
    tasks = [visitor.claim(1)[0] for _ in outcomes]
    reports = [
        Report(one.campaign, one.task, one.lease, outcome, result={} if outcome == DONE else None)
        for one, outcome in zip(tasks, outcomes, strict=True)
    ]
    assert visitor.report(*reports) == [ACCEPTED] * len(outcomes)
    rows = postgres.execute(
        "select session_id, outcome::text from taskq.attempt order by outcome::text"
    ).fetchall()
    assert [(row["session_id"], row["outcome"]) for row in rows] == [
        (visitor.session, outcome) for outcome in sorted(outcomes)
    ]
    assert leased.status().done == outcomes.count(DONE)
    assert_counts_are_true(postgres)


@pytest.mark.usefixtures("campaign")
def test_what_another_session_has_claimed_is_recorded_as_the_others(
    visit: Visit, postgres: Postgres
) -> None:
    """Who reports for a killed one, out of its spool, takes nothing over."""
    visitor, other = visit(), visit(without=True)
    for count in (1, 2):
        reports = [
            Report(one.campaign, one.task, one.lease, DONE, result={}) for one in other.claim(count)
        ]
        assert set(visitor.report(*reports)) == {ACCEPTED}
    assert value(postgres, "select array_agg(distinct session_id) from taskq.attempt") == [
        other.session
    ]


@pytest.mark.parametrize("is_ahead", [False, True], ids=["database", "front"])
def test_payload_is_the_same_on_either_way(
    is_ahead: bool, queue: Client, lease_all: Lease, visit: Visit
) -> None:
    """Whatever JSON can say."""
    campaign = servable(queue)
    campaign.seed([AWKWARD])
    if is_ahead:
        lease_all(campaign)
    (task,) = visit().claim(1)
    assert dict(task.payload) == AWKWARD


@pytest.mark.usefixtures("leased")
def test_agent_that_does_not_know_of_it_is_given_nothing_leased_ahead(
    visit: Visit,
) -> None:
    """It would take leases that are not the one it asked with for somebody else's."""
    visitor = visit()
    visitor.claim(1)  # so the front is known
    answer = visitor.transport.exchange(Request(visitor.session, (), 1, LeaseIds()()))
    assert (answer.tasks, answer.unfinished) == ((), LEAST)


@pytest.mark.usefixtures("leased")
def test_repeated_claim_gets_the_same_tasks(
    visit: Visit,
) -> None:
    """As it does in the database."""
    visitor = visit()
    visitor.claim(1)  # so the front is known
    request = Request(visitor.session, (), 3, LeaseIds()(), ahead=True)
    first, second = (visitor.transport.exchange(request).tasks for _ in range(2))
    assert len(first) == 3
    assert first == second


@pytest.mark.usefixtures("leased")
def test_reports_that_find_nothing_waiting_come_back_with_what_is_leased_ahead(
    visit: Visit,
) -> None:
    """The agent need not ask once more, with verdicts for all it has said."""
    visitor = visit()
    (task,) = visitor.claim(1)
    report = Report(task.campaign, task.task, task.lease, DONE, result={})
    request = Request(visitor.session, (report,), 2, LeaseIds()(), ahead=True)
    answer = visitor.transport.exchange(request)
    assert [ack.verdict for ack in answer.acks] == [ACCEPTED]
    assert len(answer.tasks) == 2


@pytest.mark.parametrize("pool_s", [20.0, 4 * LEASE_S])
def test_agent_beats_often_enough_for_the_pool_and_for_its_lease(
    pool_s: float, database: Database, campaign: Campaign, visit: Visit
) -> None:
    """A task is handed out in the first half of the pool's time, and to be named in the other."""
    ScriptedPool(database, campaign.campaign_id, pool_s)
    assert visit().welcome.heartbeat_s == min(pool_s, LEASE_S) / 4


def test_command_takes_the_front_that_it_is_told(
    dsn: str, leased: Campaign, redis_server: RedisServer
) -> None:
    """`taskq agent run --redis`, or TASKQ_REDIS."""
    words = ("agent", "run", "--campaign", "/c", "--max-tasks", 3, "--redis", redis_server.url)
    told: dict[str, Any] = CommandLine(dsn).json(*words)
    assert told["done"] == leased.status().done == 3
