"""Parts with which the cases of the front are measured: the load, the Redis, the unrest."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import cases
from benchmarks.gateways import running_gateways, running_keeper
from benchmarks.latencies import share_within
from benchmarks.load import sessions
from benchmarks.load.agent_load import AgentLoad
from benchmarks.load.work import LoadTarget, LoadWork
from benchmarks.redis import Redis, running_redis
from benchmarks.stage import Stage
from benchmarks.unrest import unrest
from taskq.db.connections import Database
from taskq.model.errors import Unavailable
from taskq.planning.trial import CAMPAIGN
from taskq_agent.protocol import DONE
from tests.helpers.memory_gateway import TOKEN, HttpGateway, Reply, gateway_of
from tests.helpers.memory_queue import MemoryQueue
from tests.helpers.postgres import Postgres, value

pytestmark = pytest.mark.thorough

AGENTS = 4
DUE = LoadWork(AGENTS, processes=2, rate=200.0, random=True, spooled=True)
ALONE = LoadWork(1, enrol=TOKEN, rate=100.0, random=True, spooled=True)
SOON_S = 100.0
STALL_S = 0.5


@pytest.fixture
def gateway() -> Iterator[HttpGateway]:
    with gateway_of(MemoryQueue({"n": number} for number in range(2_000))) as serving:
        yield serving


@pytest.fixture
def redis() -> Iterator[Redis]:
    with running_redis() as started:
        yield started


@pytest.fixture
def stage(database: Database) -> Stage:
    return Stage(database, lambda _: None)


def once(then: Callable[[], Reply | None], after: int) -> Callable[[str], Reply | None]:
    """Return a substitute for the reply to one exchange, after so many others."""
    left = iter(range(after + 1))
    lock = threading.Lock()

    def substitute(path: str) -> Reply | None:
        with lock:
            number = next(left, None) if path == "/v1/exchange" else None
        return then() if number == after else None

    return substitute


def test_delayed_requests_count_from_the_time_they_were_due(gateway: HttpGateway) -> None:
    """A gateway that stalls does not get fewer requests for it: all that it delays is late."""

    def stall() -> None:
        time.sleep(STALL_S)

    with AgentLoad(ALONE, [LoadTarget("127.0.0.1", gateway.port)]) as load:
        load.warm(0)
        gateway.substitute = once(stall, after=0)
        seen = load.watch(2 * STALL_S)
    # 50 are due in that time, of which four fifths have waited for more than a tenth of it.
    late = (1 - share_within(seen.latencies, STALL_S / 10)) * sum(seen.latencies)
    assert late >= 15


def test_load_that_only_claims_reports_its_tasks_when_it_delivers(
    stage: Stage, tmp_path: Path
) -> None:
    """It reports nothing before, then everything once, and the database agrees."""
    stage.seed(5_000)
    credentials = sessions.opened(stage.database, CAMPAIGN, AGENTS)
    with (
        running_gateways(stage.database.dsn, 1, tmp_path) as gateways,
        AgentLoad(DUE, gateways.addresses, credentials) as load,
    ):
        load.wait(lambda totals: totals.claimed >= 10 * AGENTS, SOON_S)
        assert stage.done() == load.totals().reported == 0
        totals = load.deliver()
    assert totals.claimed == totals.reported == stage.done() >= 10 * AGENTS
    assert (totals.delivered, totals.errors) == (AGENTS, {})


def test_agents_in_a_closed_loop_deliver_what_they_hold(stage: Stage, tmp_path: Path) -> None:
    """So that the counts of a run can be compared with the table."""
    stage.seed(5_000)
    credentials = sessions.opened(stage.database, CAMPAIGN, AGENTS)
    with (
        running_gateways(stage.database.dsn, 1, tmp_path) as gateways,
        AgentLoad(LoadWork(AGENTS), gateways.addresses, credentials) as load,
    ):
        load.warm(0)
        totals = load.deliver()
    assert totals.claimed == totals.reported == stage.done()
    assert stage.client.campaign(CAMPAIGN).status().working == 0


def test_report_without_a_verdict_is_delivered_again(gateway: HttpGateway) -> None:
    """A gateway whose database is away may answer the claim alone."""
    without = Reply(200, b'{"acks": [], "tasks": []}')
    gateway.substitute = once(lambda: without, after=3)
    work = replace(ALONE, spooled=False, rate=None, random=False)
    with AgentLoad(work, [LoadTarget("127.0.0.1", gateway.port)]) as load:
        load.wait(lambda totals: totals.empty == 1 and totals.claimed >= 10, SOON_S)
        totals = load.deliver()
    assert totals.claimed == totals.reported
    done = [entry for entry in gateway.queue.tasks.values() if entry.accepted]
    assert len(done) == totals.reported
    assert {report.outcome for entry in done for report in entry.accepted} == {DONE}


def test_redis_can_be_flushed_killed_and_started_again(redis: Redis) -> None:
    """It counts the tasks of all lists, and comes back empty at the same address."""
    url = redis.url
    redis.ask("rpush", "taskq:{a}:tasks:1", "entry", "entry")
    redis.ask("rpush", "taskq:{b}:tasks:7", "entry")
    assert redis.entries() == 3
    redis.flush()
    assert redis.entries() == 0
    redis.ask("rpush", "taskq:{a}:tasks:1", "entry")
    redis.kill()
    with pytest.raises(OSError, match="refused"):
        redis.entries()
    redis.start()
    assert (redis.entries(), redis.url) == (0, url)


def test_redis_that_does_not_start_says_why(tmp_path: Path) -> None:
    """It gets the server's answers."""
    (tmp_path / "redis.sock").mkdir()
    with pytest.raises(Unavailable, match=r"(?s)does not answer: .*socket"):
        Redis(tmp_path)


def test_keeper_that_ends_by_itself_is_noticed(stage: Stage, tmp_path: Path) -> None:
    """A front that nobody fills would be measured as one that does not help."""
    with (
        pytest.raises(Unavailable, match=r"the keeper has ended: (?s:.*)no-such-option"),
        running_keeper(stage.database.dsn, tmp_path, ["--no-such-option"]) as keeper,
    ):
        keeper.wait()


def test_unrest_ends_with_its_block(stage: Stage, postgres: Postgres) -> None:
    """What is measured afterwards in turn is measured on a quiet server."""
    mine = "from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    with unrest(stage.database):
        assert value(postgres, f"select count(*) {mine} and backend_xmin is not null") >= 1
    assert value(postgres, f"select count(*) {mine} and state <> 'idle'") == 0


def test_group_of_the_front_names_its_cases() -> None:
    """The group `front` prints the whole table."""
    assert cases.chosen(["front"]) == [name for name in cases.CASES if name.startswith("front-")]
