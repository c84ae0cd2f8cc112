"""Since when a server serves: time in which nobody could be heard counts against nobody."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from taskq import Campaign, Client
from taskq.db.connections import AsyncConnection, Connection, Database
from taskq.model.errors import Unavailable
from taskq.upkeep.keeper import Keeper
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, expire, silence, statuses, value
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.thorough

_POOL_AGE = "select extract(epoch from clock_timestamp() - min(claimed_at)) from taskq.state"


@pytest.fixture
def keeper(database: Database) -> Iterator[Keeper]:
    """Give a keeper."""
    keeper = Keeper(database)
    yield keeper
    stopped = threading.Event()
    stopped.set()
    keeper.run(stopped)


def pretend_promotion(postgres: Postgres) -> None:
    """Let the server look as if it had been a standby until this moment."""
    postgres.execute("update taskq.serving set timeline = timeline - 1, since = '-infinity'")


def test_silence_before_a_promotion_costs_no_lease(
    keeper: Keeper, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """The standby was started long before; what counts is when it took over."""
    campaign.seed([{"n": 1}])
    agent = hire()
    agent.claim(1)
    silence(postgres, agent.session)
    pretend_promotion(postgres)
    assert expire(postgres) == 0, "no keeper has looked yet"
    assert keeper.round().lost == 0
    assert keeper.round().lost == 0, "the lease begins with the promotion"
    postgres.execute("update taskq.serving set since = since - interval '2 s'")
    assert keeper.round().lost == 1
    assert set(statuses(postgres).values()) == {"waiting"}


def test_silence_of_a_suspended_server_costs_no_lease(
    keeper: Keeper, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """No keeper has acted for an hour: its machine slept, and nobody could be heard."""
    campaign.seed([{"n": 1}])
    agent = hire()
    (task,) = agent.claim(1)
    keeper.round()
    silence(postgres, agent.session)
    postgres.execute("update taskq.keeper set until = until - interval '1 h'")
    assert keeper.round().lost == 0
    assert agent.heartbeat([task]) == set()
    wait_until(lambda: keeper.round().lost == 1)


def test_another_keeper_in_time_changes_nothing_about_silence(
    keeper: Keeper, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Where keepers come and go, who is silent is lost all the same."""
    campaign.seed([{"n": 1}])
    agent = hire()
    agent.claim(1)
    keeper.round()
    silence(postgres, agent.session)
    postgres.execute("update taskq.keeper set until = clock_timestamp() - interval '20 s'")
    assert keeper.round().lost == 1


def test_leases_ahead_survive_a_promotion(
    keeper: Keeper, queue: Client, postgres: Postgres
) -> None:
    """Nobody could name it meanwhile, so its deadline begins anew."""
    campaign = servable(queue)
    campaign.seed([{"n": 1}])
    epoch = value(postgres, "select epoch from taskq.begin_front(1)")
    lease_ahead = "select cardinality(entries) from taskq.lease_ahead(%s, %s, 1)"
    assert value(postgres, lease_ahead, epoch, campaign.campaign_id) == 1
    wait_until(lambda: value(postgres, _POOL_AGE) > 1)
    pretend_promotion(postgres)
    keeper.round()
    assert set(statuses(postgres).values()) == {"working"}
    postgres.execute("update taskq.serving set since = since - interval '2 s'")
    keeper.round()
    assert set(statuses(postgres).values()) == {"waiting"}


def test_promotion_is_noted_once(keeper: Keeper, postgres: Postgres) -> None:
    """A keeper that acts writes nothing of it as long as nothing happens."""
    pretend_promotion(postgres)
    keeper.round()
    noted = value(postgres, "select since from taskq.serving")
    assert value(postgres, "select taskq.serving_since()") == noted
    keeper.round()
    assert value(postgres, "select since from taskq.serving") == noted


def test_heartbeat_from_before_a_failover_hands_back_no_tasks(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """The server before may have taken reports on tasks that it does not name: they come again."""
    campaign.seed([{"n": 1}, {"n": 2}])
    agent, other = hire(), hire()
    (task,) = agent.claim(1)
    (stranger,) = other.claim(1)
    here = value(postgres, "select taskq.timeline()")
    assert agent.heartbeat([stranger], timeline=here + 1) == {stranger.task}
    assert set(statuses(postgres).values()) == {"working"}
    assert agent.done(task) == "accepted"
    assert other.heartbeat([], timeline=here) == set()
    assert sorted(statuses(postgres).values()) == ["done", "waiting"]


def test_connection_to_a_server_that_takes_no_writes_is_given_up(database: Database) -> None:
    """It was the primary once; the next connection looks for the one that is."""
    with database.connection() as statements:
        statements.script("set default_transaction_read_only = on")
    with pytest.raises(Unavailable, match="takes no writes now"):
        database.value("begin_blob", digest=b"0" * 32, size=1)
    assert database.value("begin_blob", digest=b"0" * 32, size=1) is not None


@pytest.fixture
def dead_port() -> Iterator[int]:
    """Give a port of this machine that answers nobody, as an address without a machine does.

    Its queue is full, and nobody takes anything out of it.
    """
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def test_hosts_that_are_dead_are_passed_by(dsn: str, dead_port: int) -> None:
    """Though two of three are, and stand first, a call does not give up before the third."""
    at = conninfo_to_dict(dsn)
    several = make_conninfo(
        dsn,
        host=f"127.0.0.1,127.0.0.1,{at['host']}",
        port=f"{dead_port},{dead_port},{at['port']}",
    )
    with closing(Database(several).open()) as database:
        assert database.row("installation")


async def timeline_of(line: Connection | AsyncConnection) -> int:
    """Return the timeline that a connection knows after a statement."""
    if isinstance(line, AsyncConnection):
        await line.rows("installation")
    else:
        with line.connected() as statements:
            statements.rows("installation")
    return line.timeline


@pytest.mark.parametrize("kind", ["dedicated_connection", "dedicated_async_connection"])
async def test_timeline_is_asked_once_for_a_connection_and_then_now_and_then(
    database: Database, postgres: Postgres, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Not for each statement; but a pooler may lead to another server at any moment."""
    here = value(postgres, "select taskq.timeline()")
    line = getattr(database, kind)()
    assert await timeline_of(line) == here
    line.timeline = 0
    assert await timeline_of(line) == 0
    await closed(line)
    assert await timeline_of(line) == here
    monkeypatch.setattr("taskq.db.connections.TIMELINE_FRESH_S", 0.0)
    monkeypatch.setattr("taskq.db.async_connection.TIMELINE_FRESH_S", 0.0)
    await closed(line)
    await timeline_of(line)
    line.timeline = 0
    assert await timeline_of(line) == here
    await closed(line)


async def closed(line: Connection | AsyncConnection) -> None:
    """Close a connection, which opens again when it is needed."""
    if isinstance(line, AsyncConnection):
        await line.close()
    else:
        line.close()
