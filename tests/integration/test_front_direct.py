"""Agents beside the database, with a front: what is leased ahead is theirs too."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from taskq import Campaign, CampaignSpec, Client, Handler
from taskq.database import Database
from taskq.direct import LEASE_S, DirectTransport
from taskq.embedded import Server
from taskq.front.address import FrontAddress
from taskq.front.demand import LEAST
from taskq.front.keys import Keys
from taskq.front.thread import refilling
from taskq.keeper import keeping
from taskq_agent.handlers.base import Ended
from taskq_agent.loop import Agent, AgentSummary
from taskq_agent.protocol import (
    ACCEPTED,
    DONE,
    FAILED,
    RELEASED,
    Hello,
    LeaseIds,
    Report,
    Request,
    Task,
)
from taskq_agent.protocol import Campaign as Shared
from taskq_agent.settings import AgentSettings
from tests.backstage import Backstage, assert_counts_are_true, value
from tests.command_line import CommandLine
from tests.fixtures.front import Popper
from tests.fixtures.own_servers import own_server  # noqa: F401  # a fixture, for the tests here
from tests.fixtures.redis_servers import RedisServer
from tests.pool_double import PoolDouble
from tests.support import wait_until

SPEC = CampaignSpec("/c", handler=Handler("command", argv=("true",)))
SERVING: dict[str, Any] = {"path": "/c", "lifetime_s": None, "offers": [], "most": 1}
END_S = 60.0
#: Stopped for ten seconds, as happens on a busy machine, nobody loses what he has.
POOL_S = 120.0
AWKWARD = {"big": 2**70, "small": -1.5e-300, "text": 'é\u2028"\\', "deep": [{"x": [None, True]}]}


class Turnstile:
    """A runner that lets through as many tasks as a test allows."""

    def __init__(self) -> None:
        self.passed = 0
        self._permits = threading.Semaphore(0)

    def let(self, count: int) -> None:
        """Let so many more through."""
        self._permits.release(count)

    def run(self, task: Task, campaign: Shared) -> Ended:
        """Wait, and succeed."""
        assert campaign.campaign == task.campaign
        self._permits.acquire()
        self.passed += 1
        return Ended(DONE, result=dict(task.payload))

    def stop(self) -> None:
        """Let the task that waits through."""
        self.let(1)

    def close(self) -> None:
        """Do nothing: there is nothing to clear up."""


class Hired:
    """A real agent with one slot, in a thread, until nothing is left to do."""

    def __init__(self, transport: DirectTransport) -> None:
        self.turnstile = Turnstile()
        settings = AgentSettings("/c", until_empty=True, ahead_s=0.0, farewell_s=2.0)
        self._agent = Agent(transport, settings, lambda _: self.turnstile)
        self._summary: AgentSummary | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def pass_on(self, count: int) -> None:
        """Let so many tasks through, and wait until they have passed."""
        until = self.turnstile.passed + count
        self.turnstile.let(count)
        wait_until(lambda: self.turnstile.passed >= until, timeout_s=END_S)

    def finish(self) -> AgentSummary:
        """Let all tasks through; return how the agent has left."""
        self.turnstile.let(10_000)
        self._thread.join(END_S)
        assert self._summary is not None, "the agent does not come to an end"
        return self._summary

    def dismiss(self) -> None:
        """End it, if it has not ended."""
        self._agent.terminate()
        self.turnstile.let(10_000)
        self._thread.join(END_S)

    def _run(self) -> None:
        self._summary = self._agent.run()


class Visitor:
    """A transport and its session, without an agent."""

    def __init__(self, transport: DirectTransport) -> None:
        self.transport = transport
        self.welcome = transport.open(Hello(str(uuid.uuid4()), "/c", "a", "host", 1, "", 1, "0"))
        self.session = self.welcome.session
        self._lease_ids = LeaseIds()

    def claim(self, want: int) -> list[Task]:
        """Claim until there is something."""
        tasks: list[Task] = []

        def ask() -> int:
            lease = self._lease_ids()
            answer = self.transport.exchange(Request(self.session, (), want, lease, ahead=True))
            tasks.extend(answer.tasks)
            return len(tasks)

        wait_until(ask)
        return tasks

    def report(self, *reports: Report) -> list[str]:
        """Report, and return the verdicts."""
        answer = self.transport.exchange(Request(self.session, reports))
        return [ack.verdict for ack in answer.acks]


Employ = Callable[[Database], Hired]
Visit = Callable[..., Visitor]


@pytest.fixture
def front(redis_server: RedisServer) -> FrontAddress:
    """Give the address of the front."""
    return FrontAddress.parsed(redis_server.url)


@pytest.fixture
def employ(front: FrontAddress) -> Iterator[Employ]:
    """Give a function that starts an agent of a queue with the front."""
    hired: list[Hired] = []

    def start(database: Database) -> Hired:
        hired.append(Hired(DirectTransport(database, front=front)))
        return hired[-1]

    yield start
    for one in hired:
        one.dismiss()


@pytest.fixture
def visit(database: Database, front: FrontAddress) -> Iterator[Visit]:
    """Give a function that opens a session, with the front unless it is told without."""
    opened: list[Visitor] = []

    def start(*, without: bool = False) -> Visitor:
        opened.append(Visitor(DirectTransport(database, front=None if without else front)))
        return opened[-1]

    yield start
    for one in opened:
        one.transport.close(one.session)


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign all of whose tasks a refiller leases at once."""
    campaign = queue.create_campaign(SPEC)
    campaign.seed({"n": n} for n in range(LEAST))
    return campaign


def stock(database: Database, popper: Popper, campaign: Campaign) -> None:
    """Have a refiller stock a campaign, and wait until agents are sent there."""
    popper.stock(campaign.campaign_id)
    wait_until(lambda: database.rows("servable", **SERVING))


@pytest.fixture
def refilled(
    database: Database, campaign: Campaign, popper: Popper, front: FrontAddress
) -> Iterator[Campaign]:
    """Give that campaign when a refiller has done so, which goes on with it."""
    with refilling(database, front, POOL_S):
        stock(database, popper, campaign)
        yield campaign


Lease = Callable[[Campaign], None]


@pytest.fixture
def lease_all(database: Database, redis_server: RedisServer) -> Lease:
    """Give a function that leases a campaign's tasks: who gets one has it from the front."""

    def lease(campaign: Campaign) -> None:
        double = PoolDouble(database, campaign.campaign_id, POOL_S)
        keys = Keys(double.state["name"])
        entries = double.entries(1_000)
        redis_server.admin.hset(keys.state, "epoch", double.state["epoch"])
        redis_server.admin.rpush(keys.tasks(campaign.campaign_id), *entries)
        assert campaign.status().waiting == 0
        double.keep((campaign.campaign_id, len(entries), 0))  # else nobody would look there

    return lease


@pytest.fixture
def leased(campaign: Campaign, lease_all: Lease) -> Campaign:
    """Give the campaign with all of its tasks leased, and no refiller."""
    lease_all(campaign)
    return campaign


def front_threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == "taskq-front"]


def test_agent_runs_what_is_leased_ahead_and_it_is_recorded_as_the_agents(
    database: Database, refilled: Campaign, employ: Employ, backstage: Backstage
) -> None:
    """Leased before its session was there, by a refiller; nothing is left with the pool."""
    summary = employ(database).finish()
    assert (summary.done, summary.superseded, summary.exit_code) == (LEAST, 0, 0)
    assert refilled.status().done == LEAST
    ahead = value(
        backstage,
        "select count(*) from taskq.attempt a join taskq.session s using (session_id)"
        " where a.claimed_at < s.opened_at and a.attempt = 1 and a.outcome = 'done'",
    )
    assert ahead == LEAST
    assert_counts_are_true(backstage)


@pytest.mark.parametrize(
    "outcomes",
    [[DONE], [DONE, DONE], [DONE, FAILED, RELEASED]],
    ids=["one", "several", "mixed"],
)
def test_reports_on_what_no_beat_has_named_are_recorded_as_the_reporters(
    outcomes: list[str], leased: Campaign, visit: Visit, backstage: Backstage
) -> None:
    """However the queue takes them in."""
    visitor = visit()
    tasks = [visitor.claim(1)[0] for _ in outcomes]
    reports = [
        Report(one.campaign, one.task, one.lease, outcome, result={} if outcome == DONE else None)
        for one, outcome in zip(tasks, outcomes, strict=True)
    ]
    assert visitor.report(*reports) == [ACCEPTED] * len(outcomes)
    rows = backstage.execute(
        "select session_id, outcome::text from taskq.attempt order by outcome::text"
    ).fetchall()
    assert [(row["session_id"], row["outcome"]) for row in rows] == [
        (visitor.session, outcome) for outcome in sorted(outcomes)
    ]
    assert leased.status().done == outcomes.count(DONE)
    assert_counts_are_true(backstage)


@pytest.mark.usefixtures("campaign")
def test_what_another_session_has_claimed_is_recorded_as_the_others(
    visit: Visit, backstage: Backstage
) -> None:
    """Who reports for a killed one, out of its spool, takes nothing over."""
    visitor, other = visit(), visit(without=True)
    for count in (1, 2):
        reports = [
            Report(one.campaign, one.task, one.lease, DONE, result={}) for one in other.claim(count)
        ]
        assert set(visitor.report(*reports)) == {ACCEPTED}
    assert value(backstage, "select array_agg(distinct session_id) from taskq.attempt") == [
        other.session
    ]


@pytest.mark.parametrize("is_ahead", [False, True], ids=["database", "front"])
def test_payload_is_the_same_on_either_way(
    is_ahead: bool, queue: Client, lease_all: Lease, visit: Visit
) -> None:
    """Whatever JSON can say."""
    campaign = queue.create_campaign(SPEC)
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
    PoolDouble(database, campaign.campaign_id, pool_s)
    assert visit().welcome.heartbeat_s == min(pool_s, LEASE_S) / 4


def test_agent_goes_on_while_postgresql_restarts(
    own_server: Server,  # noqa: F811  # the fixture
    redis_server: RedisServer,
    front: FrontAddress,
    employ: Employ,
) -> None:
    """With what is in the list; its reports wait, and all of them count in the end."""
    with closing(Database(own_server.up().dsn).open()) as database:
        campaign = Client(database).create_campaign(SPEC)
        campaign.seed({"n": n} for n in range(LEAST))
        popper = Popper(database, redis_server)
        with refilling(database, front, POOL_S):
            stock(database, popper, campaign)
            agent = employ(database)
            agent.pass_on(5)
            own_server.down(immediate=True)
            agent.pass_on(20)
            own_server.up()
            summary = agent.finish()
        assert (summary.done, summary.superseded, summary.undelivered) == (LEAST, 0, 0)
        assert campaign.status().done == LEAST
        made = [len(list(campaign.attempts(task.key))) for task in campaign.tasks()]
        assert made == [1] * LEAST


def test_agent_goes_on_while_redis_is_killed(
    database: Database,
    refilled: Campaign,
    redis_server: RedisServer,
    employ: Employ,
    backstage: Backstage,
) -> None:
    """With what waits in PostgreSQL, and at last with what was lost in Redis."""
    with keeping(database):
        agent = employ(database)
        agent.pass_on(5)
        redis_server.kill()
        refilled.seed({"more": n} for n in range(20))
        agent.pass_on(20)
        backstage.execute("update taskq.front set pool_s = 1")
        agent.turnstile.let(10_000)
        wait_until(lambda: refilled.status().done == LEAST + 20, timeout_s=END_S)
        assert agent.finish().undelivered == 0
    done = value(backstage, "select count(*) from taskq.attempt where outcome = 'done'")
    assert done == LEAST + 20
    assert_counts_are_true(backstage)


def test_front_that_cannot_be_reached_is_none(
    database: Database, campaign: Campaign, redis_server: RedisServer, employ: Employ
) -> None:
    """Nobody waits for it."""
    redis_server.kill()
    assert employ(database).finish().done == campaign.status().done == LEAST


@pytest.mark.usefixtures("leased")
def test_close_ends_the_thread_and_a_later_claim_begins_anew(
    database: Database, front: FrontAddress
) -> None:
    """There is none before the first claim either."""
    transport = DirectTransport(database, front=front)
    for _ in range(2):
        assert front_threads() == []
        visitor = Visitor(transport)
        visitor.claim(1)
        assert len(front_threads()) == 1
        transport.close(visitor.session)
    assert front_threads() == []


def test_command_takes_the_front_that_it_is_told(
    dsn: str, leased: Campaign, redis_server: RedisServer
) -> None:
    """`taskq agent run --redis`, or TASKQ_REDIS."""
    words = ("agent", "run", "--campaign", "/c", "--max-tasks", 3, "--redis", redis_server.url)
    told: dict[str, Any] = CommandLine(dsn).json(*words)
    assert told["done"] == leased.status().done == 3
