"""`taskq front`: what an operator sees of the lists, and how they are begun anew."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.front.address import FrontAddress
from taskq.front.entries import Keys
from taskq.front.refiller import refilling
from tests.fixtures.queues import Hire
from tests.fixtures.redis_servers import RedisServer, StartRedis
from tests.helpers.campaigns import servable
from tests.helpers.command_line import CommandLine
from tests.helpers.meanwhile import meanwhile, repeated
from tests.helpers.postgres import Postgres, assert_counts_are_true
from tests.helpers.scripted_pool import ScriptedPool
from tests.helpers.waiting import wait_until

TASKS = 10


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give an open campaign, /c, with ten tasks."""
    return servable(queue, tasks=TASKS)


class Stocked:
    """A front with five of the campaign's tasks in its list, and a refiller that has just acted."""

    def __init__(self, database: Database, campaign: Campaign, server: RedisServer) -> None:
        self.pool = ScriptedPool(database, campaign.campaign_id)
        self.keys = Keys(self.pool.state["name"])
        self.list = self.keys.tasks(campaign.campaign_id)
        self.server = server
        marks = {"epoch": self.pool.state["epoch"], f"low:{campaign.campaign_id}": 2}
        server.admin.hset(self.keys.state, mapping=marks)
        server.admin.rpush(self.list, *self.pool.entries(5))

    @property
    def length(self) -> int:
        """How long the list is."""
        return int(self.server.admin.llen(self.list))


@pytest.fixture
def stocked(database: Database, campaign: Campaign, redis_server: RedisServer) -> Stocked:
    """Give such a front."""
    return Stocked(database, campaign, redis_server)


def report_of(taskq: CommandLine, *words: object, code: int = 0) -> dict[str, Any]:
    """Return what `front status` tells."""
    result = taskq("front", "status", *words, "-o", "json")
    assert result.exit_code == code, result.stderr
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def test_queue_without_a_front_says_so(taskq: CommandLine) -> None:
    """Nothing has to be there, neither Redis nor its address."""
    without_front = report_of(taskq)
    assert (without_front["epoch"], without_front["lists"]) == (0, [])
    text = taskq.out("front", "status")
    assert "never used" in text
    assert "taskq keeper --redis" in text


def test_status_shows_lists_and_what_is_leased_for_them(
    taskq: CommandLine, stocked: Stocked
) -> None:
    """What was popped and not been named by an agent yet shows as leased ahead."""
    stocked.server.admin.lpop(stocked.list, 2)
    stocked.pool.keep((stocked.pool.campaign, 3, 0))
    report = report_of(taskq, "--redis", stocked.server.url)
    assert report["lists"] == [{"campaign": "/c", "entries": 3, "low_water": 2, "leased_ahead": 5}]
    assert report["redis"] == stocked.server.url
    assert report["epoch"] == report["redis_epoch"] == 1
    assert (report["refilled"], report["trouble"]) == (True, None)
    assert report["version"].startswith("9.")
    text = taskq.out("front", "status", "--redis", stocked.server.url)
    assert "at work" in text
    assert "of another epoch" not in text


def test_status_reports_lists_of_another_epoch(taskq: CommandLine, stocked: Stocked) -> None:
    """As after a FLUSHALL, or a restart from an old snapshot."""
    stocked.server.admin.flushall()
    report = report_of(taskq, "--redis", stocked.server.url)
    assert (report["epoch"], report["redis_epoch"]) == (1, None)
    assert [record["entries"] for record in report["lists"]] == [None]
    assert "of another epoch" in taskq.out("front", "status", "--redis", stocked.server.url)


def test_status_without_redis_shows_what_postgresql_knows(
    taskq: CommandLine, stocked: Stocked
) -> None:
    """And ends with 69 and the reason, in JSON too."""
    stocked.server.kill()
    report = report_of(taskq, "--redis", stocked.server.url, code=69)
    assert report["lists"] == [
        {"campaign": "/c", "entries": None, "low_water": None, "leased_ahead": 5}
    ]
    assert stocked.server.url in report["trouble"]
    result = taskq("front", "status", "--redis", stocked.server.url)
    assert "agents are served from PostgreSQL meanwhile" in result.stderr
    assert report_of(taskq)["trouble"] is None  # nobody has said where it is


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1:1,127.0.0.1:2?cluster=true",
        "redis+sentinel://127.0.0.1:1,127.0.0.1:2/queue",
    ],
)
def test_status_of_a_cluster_that_is_gone_is_a_line(taskq: CommandLine, url: str) -> None:
    """And code 69, as of a single server."""
    result = taskq("front", "status", "--redis", url)
    assert result.exit_code == 69
    (line,) = result.stderr.splitlines()
    assert "cannot use redis" in line
    assert "agents are served from PostgreSQL meanwhile" in line


def test_status_of_a_server_that_hangs_ends(taskq: CommandLine, stocked: Stocked) -> None:
    """The kernel goes on taking connections for it."""
    stocked.server.freeze()
    assert "does not answer" in report_of(taskq, "--redis", stocked.server.url, code=69)["trouble"]


def test_flush_gives_back_what_is_in_the_lists_and_nothing_else(
    taskq: CommandLine, campaign: Campaign, stocked: Stocked, hire: Hire, postgres: Postgres
) -> None:
    """What an agent has named stays its own, even if its entry is still there."""
    agent = hire("/c")
    popped, repeated, *_ = (
        stocked.pool.read(raw.decode()) for raw in stocked.server.admin.lrange(stocked.list, 0, -1)
    )
    stocked.server.admin.lpop(stocked.list)
    agent.heartbeat([popped, repeated])
    would = taskq.json("front", "flush", "--redis", stocked.server.url, "--dry-run")
    assert would == {"withdrawn": stocked.length, "trouble": None, "dry_run": True}
    done = taskq.json("front", "flush", "--redis", stocked.server.url)
    assert done == {"epoch": 2, "withdrawn": 4, "returned": 3}
    assert stocked.length == 0
    assert stocked.server.admin.hgetall(stocked.keys.state) == {b"epoch": b"2"}
    status = campaign.status()
    assert (status.waiting, status.working) == (TASKS - 2, 2)
    assert_counts_are_true(postgres)
    text = taskq.out("front", "flush", "--redis", stocked.server.url)
    assert text == "0 tasks taken out of the lists; 0 wait again.\n"


def test_flush_goes_on_past_what_is_no_list(
    taskq: CommandLine, campaign: Campaign, stocked: Stocked
) -> None:
    """Garbage in its place is removed; the tasks come back at their deadline."""
    stocked.server.admin.set(stocked.list, "garbage")
    done = taskq.json("front", "flush", "--redis", stocked.server.url)
    assert done == {"epoch": 2, "withdrawn": 0, "returned": 0}
    assert stocked.server.admin.keys() == [stocked.keys.state]
    assert campaign.status().working == 5


@pytest.mark.parametrize("command", ["flush", "rebuild"])
def test_front_commands_without_a_reachable_redis_change_nothing(
    taskq: CommandLine, stocked: Stocked, command: str, database: Database
) -> None:
    """Neither the epoch nor the lists."""
    stocked.pool.keep((stocked.pool.campaign, 5, 0))
    code, error = taskq.refused("front", command)
    assert (code, "TASKQ_REDIS" in error) == (2, True)
    stocked.server.freeze()
    code, error = taskq.refused("front", command, "--redis", stocked.server.url)
    assert (code, "does not answer" in error) == (69, True)
    stocked.server.thaw()
    assert stocked.length == 5
    assert database.row("front_state") == stocked.pool.state | {"now_ms": database_clock(database)}


def database_clock(database: Database) -> object:
    """Return an instant that equals any other, for comparing rows with a clock in them."""
    return pytest.approx((database.row("front_state") or {})["now_ms"], abs=60_000)


def test_flush_of_no_front_is_refused(taskq: CommandLine, redis_server: RedisServer) -> None:
    """It says who begins one."""
    code, error = taskq.refused("front", "flush", "--redis", redis_server.url)
    assert (code, "taskq keeper --redis" in error) == (3, True)


def test_rebuild_is_refused_where_nobody_would_do_it(taskq: CommandLine, stocked: Stocked) -> None:
    """Better than lists that stay empty."""
    for words in ([], ["--dry-run"]):
        code, error = taskq.refused("front", "rebuild", *words, "--redis", stocked.server.url)
        assert (code, "nothing was changed" in error) == (3, True)
        assert stocked.length == 5


@pytest.fixture
def refilled(database: Database, campaign: Campaign, redis_server: RedisServer) -> Iterator[bytes]:
    """Give the name of the campaign's list, while a refiller fills it and somebody asks for it."""
    (row,) = database.rows("front_state")
    keys = Keys(row["name"])

    def ask() -> None:
        redis_server.admin.sadd(keys.wanted, campaign.campaign_id)

    with refilling(database, FrontAddress.parsed(redis_server.url)), meanwhile(repeated(ask, 0.05)):
        yield keys.tasks(campaign.campaign_id)


def test_rebuild_waits_until_the_lists_are_being_filled_again(
    taskq: CommandLine,
    campaign: Campaign,
    redis_server: RedisServer,
    refilled: bytes,
    postgres: Postgres,
) -> None:
    """With entries of a new epoch, and no task is lost between them."""
    wait_until(lambda: redis_server.admin.llen(refilled) == TASKS)
    before = report_of(taskq)["epoch"]
    would = taskq.json("front", "rebuild", "--redis", redis_server.url, "--dry-run")
    assert (would["withdrawn"], report_of(taskq)["epoch"]) == (TASKS, before)
    done = taskq.json("front", "rebuild", "--redis", redis_server.url)
    assert (done["withdrawn"], done["returned"]) == (TASKS, TASKS)
    assert done["epoch"] == before + 1 == report_of(taskq)["epoch"]
    assert (done["lists"], done["entries"]) == (1, TASKS)
    assert campaign.status().working == TASKS
    assert_counts_are_true(postgres)


def test_rebuild_reports_that_nothing_came(taskq: CommandLine, stocked: Stocked) -> None:
    """A refiller that does not know this Redis is one reason."""
    stocked.pool.keep((stocked.pool.campaign, 5, 0))
    words = ("front", "rebuild", "--redis", stocked.server.url, "--timeout", 0)
    assert "The lists are still empty after 0.0 s" in taskq.out(*words)


def test_address_with_a_password_is_taken_from_the_environment_only(
    taskq: CommandLine, start_redis: StartRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody can read command lines; and no message shows the password."""
    server = start_redis("--requirepass", "secret")
    url = server.url.replace("unix://", "unix://:secret@")
    code, error = taskq.refused("front", "status", "--redis", url)
    assert (code, "TASKQ_REDIS" in error, "secret" in error) == (2, True, False)
    monkeypatch.setenv("TASKQ_REDIS", url)
    text = taskq.out("front", "status")
    assert server.url in text
    assert "secret" not in text
    server.kill()
    failed = taskq("front", "status")
    assert failed.exit_code == 69
    assert "secret" not in failed.output
