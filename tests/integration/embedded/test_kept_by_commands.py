"""An embedded queue without agents and keepers is kept by the commands that use it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
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
