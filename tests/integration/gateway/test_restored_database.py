"""A database that is restored from an older backup: its agents prove that, and people learn it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row

from taskq import Campaign, CampaignSpec, Client, Handler
from tests.fixtures.databases import fresh_database
from tests.fixtures.gateways import GatewayProcess, opened
from tests.helpers.postgres import Postgres, keep, value
from tests.helpers.waiting import wait_until
from tests.helpers.worker_node import WorkerNode

LEASE_S = 4
LATER_S = 90.0
ROUNDS = 5
WHILE_AWAY = ["database", "trying again", "works", "does not exist", "acknowledged work are gone"]


class Restorable:
    """A database of which a backup is made, and that is replaced by it."""

    def __init__(self, server_dsn: str, dsn: str) -> None:
        self.dsn = dsn
        self.name = str(conninfo_to_dict(dsn)["dbname"])
        self.backup = f"{self.name}_backup"
        self.admin = psycopg.connect(server_dsn, autocommit=True)

    def back_up(self) -> None:
        """Copy the database, from which all are kept away meanwhile."""
        with self._away():
            self._run("create database {backup} template {name}")

    def restore(self) -> None:
        """Put the backup in place of the database."""
        with self._away():
            self._run("drop database {name} with (force)")
            self._run("alter database {backup} rename to {name}")

    @contextmanager
    def _away(self) -> Iterator[None]:
        self._run("alter database {name} allow_connections false")
        self.admin.execute(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = %s",
            [self.name],
        )
        yield
        self._run("alter database {name} allow_connections true")

    def _run(self, text: str) -> None:
        names = {"name": sql.Identifier(self.name), "backup": sql.Identifier(self.backup)}
        self.admin.execute(sql.SQL(text).format(**names))


@contextmanager
def connected(dsn: str) -> Iterator[Postgres]:
    """Give a connection of its own."""
    with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as connection:
        yield connection


@pytest.fixture
def restorable(server_dsn: str, template: str) -> Iterator[Restorable]:
    """Give a database that can be restored."""
    with fresh_database(server_dsn, template) as dsn:
        found = Restorable(server_dsn, dsn)
        yield found
        found.admin.close()


def farm(queue: Client) -> tuple[Campaign, str]:
    """Create a campaign with long tasks and a token for its site."""
    handler = Handler("command", argv=("sleep", "60"))
    campaign = queue.create_campaign(CampaignSpec("/c", handler=handler))
    campaign.seed({"n": n} for n in range(4))
    return campaign, queue.tokens.create("site", "cracow", ["/c"])[0]


def hears_heartbeats(dsn: str) -> None:
    """Wait until a session has sent two further heartbeats, the later one with a newer stamp."""
    with connected(dsn) as postgres:
        for _ in range(2):
            last = value(postgres, "select clock_timestamp()")
            beat = "select max(heartbeat_at) > %s from taskq.session where ended_at is null"
            wait_until(lambda: value(postgres, beat, last), timeout_s=LATER_S)  # noqa: B023


@pytest.mark.thorough
def test_agents_prove_that_a_database_was_set_back_though_no_keeper_remembers(
    restorable: Restorable, tmp_path: Path
) -> None:
    """It is the first reason, it says what to do again, and it is an event for a rule."""
    dsn = restorable.dsn
    gateway = GatewayProcess(dsn, tmp_path, "--lease", LEASE_S, expected=WHILE_AWAY)
    folder = tmp_path / "node"
    folder.mkdir()
    node = WorkerNode(folder)
    with opened(dsn) as queue, connected(dsn) as postgres:
        _, token = farm(queue)
        keep(postgres)
    node.token.write_text(token)
    with node.at_work(gateway.url, campaign="/c"):
        hears_heartbeats(dsn)
        restorable.back_up()
        with opened(dsn) as queue, connected(dsn) as postgres:
            queue.create_campaign("/c/seeded-since").seed([{"n": 1}])
            keep(postgres, ROUNDS)
        hears_heartbeats(dsn)
        restorable.restore()
        with connected(dsn) as postgres:
            keep(postgres)
            noted = "select count(*) from taskq.set_back"
            wait_until(lambda: value(postgres, noted) == 1, timeout_s=LATER_S)
            hears_heartbeats(dsn)
            # Equal if a keeper acted before an agent was heard, and saw no gap to record.
            assert value(postgres, "select gone_until >= gone_since from taskq.set_back")
        with opened(dsn) as queue:
            reason = queue.campaign("/").explain().reasons[0]
            assert reason.code == "set-back"
            assert "repeat your seeds and cancels" in reason.text
            assert [it.check for it in queue.audit("/c")].count("set_back") == 1
    gateway.stop()


def test_stamps_that_the_database_has_not_made_prove_nothing(
    restorable: Restorable,
) -> None:
    """Any agent may show any text; one that is its own, and later, is the only proof."""
    with connected(restorable.dsn) as postgres:
        keep(postgres)
        stamp = str(value(postgres, "select taskq.stamp()"))
        later = f"{int(stamp[:12]) + 9:012d}{stamp[12:]}"
        forged = [later, "9" * 64, "", stamp, "999999999999-9999999999-zzzzzzzzzzzzzzzz"]
        noting = "select gone_s from taskq.note_stamps(%s)"
        assert value(postgres, noting, forged) is None
        assert value(postgres, "select count(*) from taskq.set_back") == 0
        own = value(postgres, "select taskq.stamp_of(9, 1700000000)")
        assert value(postgres, noting, [*forged, own]) is not None
        assert value(postgres, noting, [*forged, own]) is None
        assert value(postgres, "select count(*) from taskq.set_back") == 1
