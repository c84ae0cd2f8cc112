"""An embedded queue without agents and keepers is kept by the commands that use it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from psycopg.rows import dict_row

from taskq import Client
from taskq.db.connections import Database
from taskq.embedded import Server
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import silence
from tests.helpers.scripted_agent import ScriptedAgent
from tests.helpers.waiting import wait_until


@pytest.fixture
def home(place: Path) -> Iterator[Path]:
    """Give the folder of an embedded queue that is up."""
    yield place / "queue"
    Server(place / "queue").down(immediate=True)


@pytest.mark.thorough
def test_tasks_of_an_agent_that_vanished_wait_again_with_the_next_command(home: Path) -> None:
    """Nobody else does the upkeep; each command that runs does it meanwhile."""
    taskq = CommandLine("", address={"TASKQ_HOME": str(home)})
    taskq.out("campaign", "create", "/c", "--", "true")
    taskq.out("seed", "/c", "--sweep", "n=1:2")
    dsn = Server(home).up().dsn
    with (
        closing(Database(dsn).open()) as database,
        closing(ScriptedAgent(database, "/c")) as agent,
    ):
        assert len(agent.claim(2)) == 2
        with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as postgres:
            silence(postgres, agent.session)
        status = Client(database).campaign("/c").status
        wait_until(lambda: taskq.out("ls") and status().working == 0)
        assert status().waiting == 2


@pytest.fixture
def taskq(home: Path) -> CommandLine:
    """Give the commands on a queue with tasks that take long."""
    taskq = CommandLine("", address={"TASKQ_HOME": str(home)})
    taskq.out("campaign", "create", "/c", "--", "sleep", "600")
    taskq.out("seed", "/c", "--sweep", "n=1:3")
    return taskq


@contextmanager
def agent_at_work(taskq: CommandLine, home: Path, *options: str) -> Iterator[int]:
    """Start an agent that has all tasks; yield its pid; kill all that it started at the end."""
    words = ["agent", "run", "--campaign", "/c", "--slots", "3", "--quiet", *options]
    with taskq.process(*words, start_new_session=True, stdout=None, stderr=None) as agent:
        try:
            with closing(Database(Server(home).up().dsn).open()) as database:
                status = Client(database).campaign("/c").status
                wait_until(lambda: status().working == 3)
            yield agent.pid
        finally:
            with suppress(ProcessLookupError):
                os.killpg(agent.pid, signal.SIGKILL)


def working(taskq: CommandLine) -> int:
    """Return how many tasks are at work, as `taskq status` shows it."""
    return int(taskq.json("status", "/c")["working"])


def test_tasks_of_a_killed_agent_wait_again_though_commands_are_rare(
    taskq: CommandLine, home: Path
) -> None:
    """The agent was the keeper, too. Each command comes after a time without one."""
    with agent_at_work(taskq, home, "--lease", "5"):
        pass
    with psycopg.connect(Server(home).up().dsn, autocommit=True) as postgres:
        connected = "select count(*) from pg_stat_activity where application_name = 'taskq keeper'"
        wait_until(lambda: postgres.execute(connected).fetchall() == [(0,)])

        def ten_minutes_later() -> bool:
            postgres.execute("update taskq.keeper set until = until - interval '10 min'")
            return working(taskq) == 0

        wait_until(ten_minutes_later)


@pytest.mark.thorough
def test_frozen_agent_keeps_its_tasks_when_a_command_comes_first(
    taskq: CommandLine, home: Path
) -> None:
    """A machine that slept: nobody kept the queue, and the agent goes on with its tasks."""
    with agent_at_work(taskq, home, "--lease", "30") as agent:
        os.killpg(agent, signal.SIGSTOP)
        with psycopg.connect(Server(home).up().dsn, autocommit=True) as postgres:
            silent = (
                "select greatest(k.until, s.heartbeat_at) < clock_timestamp() - interval '31 s'"
                " from taskq.keeper k cross join taskq.session s"
            )
            wait_until(lambda: postgres.execute(silent).fetchall() == [(True,)], timeout_s=120)
        assert working(taskq) == 3
        os.killpg(agent, signal.SIGCONT)
