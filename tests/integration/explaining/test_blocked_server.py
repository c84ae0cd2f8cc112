"""`taskq explain` where somebody's lock keeps the server from all work."""

from __future__ import annotations

import threading
from contextlib import closing

import psycopg
import pytest

from taskq import Client
from taskq.db.connections import Database
from taskq.diagnosis.blockers import read_blockers
from taskq.embedded import Server
from tests.fixtures.own_servers import own_server  # noqa: F401  # a fixture, for the tests here
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.meanwhile import meanwhile, repeated
from tests.helpers.postgres import Postgres
from tests.helpers.waiting import wait_until
from tests.integration.explaining.support import Make, explained


def test_server_that_a_stranger_blocks_is_named_and_no_task_is_accused(
    make: Make, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """With the session, its login and statement, and what an administrator does."""
    campaign = make("/c", tasks=40)
    agent = hire("/c", host="n1")
    for task in agent.claim(25):
        agent.done(task)
    held = agent.claim()
    late = "update taskq.{} set claimed_at = claimed_at - interval '1 h'"
    postgres.execute(late.format("task"))
    postgres.execute(late.format("bundle"))
    assert "overdue" in {it.code for it in explained(campaign).reasons}
    with psycopg.connect(dsn) as stranger:
        stranger.execute("lock table taskq.attempt in exclusive mode")
        with meanwhile(lambda _: agent.done(held[0])):
            wait_until(
                lambda: "server-blocked" in {it.code for it in explained(campaign).reasons},
                timeout_s=60,
            )
            reasons = {it.code: it for it in explained(campaign).reasons}
            text = reasons["server-blocked"].text
            assert f"the session {stranger.info.backend_pid} of {stranger.info.user}" in text
            assert "lock table taskq.attempt" in text
            assert f"select pg_terminate_backend({stranger.info.backend_pid})" in text
            assert "overdue" not in reasons
            stranger.rollback()
    assert "server-blocked" not in {it.code for it in explained(campaign).reasons}


@pytest.mark.thorough
@pytest.mark.parametrize("table", ["campaign", "session", "keeper"])
def test_explanation_names_who_keeps_a_table_from_all_readers(
    table: str, make: Make, dsn: str, taskq: CommandLine
) -> None:
    """Instead of waiting for that session: what holds it, and the administrator's remedy."""
    campaign = make("/c", tasks=3)
    with psycopg.connect(dsn) as stranger:
        stranger.execute(f"lock table taskq.{table} in access exclusive mode")
        found = explained(campaign)
        (reason,) = found.reasons
        assert found.headline.startswith("the database stands still")
        assert reason.code == "server-blocked"
        assert reason.blocks
        assert f"the session {stranger.info.backend_pid} of {stranger.info.user}" in reason.text
        assert f"taskq.{table} in access exclusive" in reason.text
        assert f"session {stranger.info.backend_pid}" in taskq("explain", "/c").stdout
        stranger.rollback()
    assert "server-blocked" not in {it.code for it in explained(campaign).reasons}


@pytest.mark.thorough
def test_stranger_who_keeps_tasks_locked_and_idles_is_named(make: Make, dsn: str) -> None:
    """Claims pass locked rows by, so nobody waits, and those tasks are never run."""
    campaign = make("/c", tasks=3)
    with psycopg.connect(dsn) as stranger:
        stranger.execute("select from taskq.span for update")
        assert "server-blocked" not in {it.code for it in explained(campaign).reasons}
        wait_until(
            lambda: "server-blocked" in {it.code for it in explained(campaign).reasons},
            timeout_s=60,
        )
        (reason,) = [it for it in explained(campaign).reasons if it.code == "server-blocked"]
        pid = stranger.info.backend_pid
        assert (
            f"The session {pid} of {stranger.info.user} keeps rows of the table span" in reason.text
        )
        assert f"select pg_terminate_backend({pid})" in reason.text
        assert (reason.blocks, reason.lost) == (False, 1)
        stranger.rollback()
    assert "server-blocked" not in {it.code for it in explained(campaign).reasons}


@pytest.mark.thorough
def test_lock_that_ends_while_explain_waits_for_it_is_named(
    make: Make, hire: Hire, dsn: str, database: Database
) -> None:
    """Whose lock comes and goes would never be seen: facts are read when it has gone."""
    campaign = make("/c", tasks=3)
    agent = hire("/c", host="n1")
    (task,) = agent.claim(1)
    with psycopg.connect(dsn) as stranger:
        stranger.execute("lock table taskq.session in access exclusive mode")
        with meanwhile(lambda _: agent.done(task)):
            wait_until(lambda: bool(read_blockers(database)), timeout_s=60)
            ends = threading.Timer(1.0, stranger.rollback)
            ends.start()
            reasons = {it.code for it in explained(campaign).reasons}
            ends.join()
    assert "server-blocked" in reasons
    assert "server-blocked" not in {it.code for it in explained(campaign).reasons}


@pytest.mark.thorough
def test_commits_that_wait_for_a_standby_are_named_and_nobody_else(
    own_server: Server,  # noqa: F811  # the fixture
) -> None:
    """Each sign of an agent, a gateway or a keeper is a commit: none of them is called silent."""
    dsn = own_server.up().dsn
    with closing(Database(dsn).open()) as database, psycopg.connect(dsn, autocommit=True) as admin:
        campaign = Client(database).create_campaign("/c")
        campaign.seed([{"n": 1}])
        admin.execute(
            "insert into taskq.gateway (holder, name, release, sessions, per_s, seen_at) values "
            "(gen_random_uuid(), 'gw:1', '1.0', 3, 1.0, clock_timestamp() - interval '2 min')"
        )
        assert "silent-gateway" in {it.code for it in explained(campaign).reasons}
        admin.execute("alter system set synchronous_standby_names = 'db2'")
        admin.execute("select pg_reload_conf()")
        with meanwhile(repeated(lambda: campaign.seed([{"n": 2}]), 0.1)):
            wait_until(
                lambda: "server-blocked" in {it.code for it in explained(campaign).reasons},
                timeout_s=60,
            )
            reasons = {it.code: it for it in explained(campaign).reasons}
            reason = reasons["server-blocked"]
            admin.execute("alter system set synchronous_standby_names = ''")
            admin.execute("select pg_reload_conf()")
        assert reason.blocks
        assert reason.since is not None
        assert "1 commit of the database waits for up to " in reason.text
        assert "for a standby to confirm (synchronous_standby_names = 'db2')" in reason.text
        assert "`alter system set synchronous_standby_names = ''`" in reason.text
        assert "silent-gateway" not in reasons
        assert "server-blocked" not in {it.code for it in explained(campaign).reasons}
