"""`taskq db check` compares what a server has with what this release installs, and how it runs."""

from __future__ import annotations

import secrets
from contextlib import closing

import psycopg
import pytest

from taskq import Client
from taskq.db.checks.every import Checked, checked
from taskq.db.checks.running import held
from taskq.db.connections import Database
from taskq.diagnosis.explaining import explained
from taskq.embedded import Server
from taskq.upkeep.keeper import Keeper
from tests.fixtures.logins import Staff
from tests.fixtures.own_servers import own_server  # noqa: F401  # a fixture, for the tests here
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres
from tests.helpers.server_checks import break_by, follow, only
from tests.helpers.waiting import wait_until

STRANGER = "stranger"
FOREIGN = "create function taskq.mine() returns integer language sql as 'select 1'"
TRIGGER = (
    "create function public.watch() returns trigger language plpgsql as 'begin return new; end'",
    'create trigger "W" before insert on taskq.spec for each row execute function public.watch()',
)


@pytest.fixture(autouse=True, scope="module")
def stranger(staff: Staff) -> None:
    """Make a login without a role."""
    break_by(staff, f"create role {STRANGER} login")


def unlike(staff: Staff, check: str) -> list[Checked]:
    """Return what a check finds that is not fine."""
    return [it for it in checked(staff.owner.database) if it.check == check and it.state != "fine"]


@pytest.mark.parametrize(
    ("orders", "check", "says"),
    [
        (["alter function taskq.keep security invoker"], "functions", "keep (changed)"),
        (["alter function taskq.keep set search_path = public"], "functions", "keep (changed)"),
        ([FOREIGN], "functions", "mine (foreign)"),
        ([f"alter function taskq.keep owner to {STRANGER}"], "functions", f"(of {STRANGER})"),
        (["alter table taskq.spec set unlogged"], "tables", "spec is not logged"),
        (["alter table taskq.spec enable row level security"], "tables", "spec hides rows"),
        (["alter table taskq.spec set (autovacuum_enabled = off)"], "tables", "autovacuum"),
        (["alter table taskq.pilot_job disable trigger all"], "tables", "is switched off"),
        ([f"alter table taskq.spec owner to {STRANGER}"], "tables", f"belongs to {STRANGER}"),
        (TRIGGER, "tables", "spec has the trigger W"),
        (
            ['create rule "Quiet" as on delete to taskq.spec do instead nothing'],
            "tables",
            "spec has the rule Quiet",
        ),
        (["alter database taskq connection limit 5"], "connections", "allows 5 connections"),
    ],
)
def test_altered_server_is_found_and_mended_by_its_remedy(
    staff: Staff, orders: list[str], check: str, says: str
) -> None:
    """By what PostgreSQL has; the remedy is followed to the letter."""
    assert not unlike(staff, check)
    break_by(staff, *orders)
    finding, *_ = unlike(staff, check)
    assert says in finding.text
    follow(staff, finding.remedy)
    assert not unlike(staff, check)


def test_other_version_of_the_collation_is_found(staff: Staff) -> None:
    """As after an upgrade of the system's C library. The remedy renews the indexes first."""
    if staff.owner.database.rows("check_collation")[0]["there"] is None:
        pytest.skip("the server's locale has no versions")
    break_by(
        staff, "update pg_database set datcollversion = '0' where datname = current_database()"
    )
    fault = only(staff.owner.database, "collation")
    assert (fault.state, "version 0 of the collation" in fault.text) == ("fault", True)
    assert fault.remedy.index("reindex") < fault.remedy.index("refresh")
    follow(staff, fault.remedy)
    assert only(staff.owner.database, "collation").state == "fine"


def test_parameters_in_the_log_are_found(staff: Staff) -> None:
    """Payloads and results would be in it."""
    database = staff.owner.database
    break_by(staff, "alter system set log_statement = 'mod'", "select pg_reload_conf()")
    try:
        wait_until(lambda: only(database, "texts").state == "advice")
        follow(staff, only(database, "texts").remedy)
        wait_until(lambda: only(database, "texts").state == "fine")
    finally:
        break_by(staff, "alter system reset all", "select pg_reload_conf()")


def test_migration_warns_of_what_the_server_lacks(staff: Staff) -> None:
    """It goes on: the administrator decides."""
    result = staff.taskq("db", "migrate")
    assert result.exit_code == 0
    warnings = [line for line in result.stderr.splitlines() if line.startswith("Warning: ")]
    assert [line.split()[1] for line in warnings] == ["autovacuum", "fsync"], "of the tests' server"
    assert all("alter system set" in line for line in warnings)


@pytest.mark.thorough
def test_commits_that_wait_for_no_standby_are_found(own_server: Server) -> None:  # noqa: F811
    """The check itself writes nothing, so it does not wait."""
    dsn = own_server.up().dsn
    with closing(Database(dsn).open()) as database, psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("alter system set synchronous_standby_names = 'ANY 1 (db2, db3)'")
        admin.execute("select pg_reload_conf()")
        wait_until(lambda: only(database, "standbys").state == "fault")
        assert "ANY 1 (db2, db3)" in only(database, "standbys").text
        admin.execute("alter system set synchronous_standby_names = ''")
        admin.execute("select pg_reload_conf()")
        wait_until(lambda: only(database, "standbys").state == "fine")


@pytest.mark.parametrize(
    ("ends", "state"), [("1 day", "advice"), ("-1 day", "fault"), ("60 days", "fine")]
)
def test_certificate_of_a_gateway_that_ends_is_found(
    queue: Client, postgres: Postgres, ends: str, state: str
) -> None:
    """As the gateway reported it within the hour."""
    name = secrets.token_hex(4)
    postgres.execute(
        "insert into taskq.gateway (holder, name, release, sessions, per_s, seen_at,"
        " certificate_ends) values (gen_random_uuid(), %s, '1', 0, 0, now(), now() + %s::interval)",
        [name, ends],
    )
    found = only(queue.database, "certificates")
    assert (found.state, name in found.text) == (state, state != "fine")


@pytest.mark.parametrize(
    ("age", "state"), [(1_000, "fine"), (50_000_000, "advice"), (500_000_000, "fault")]
)
def test_standby_that_holds_back_vacuum_is_found(age: int, state: str) -> None:
    """By hot_standby_feedback, or by its slot, though somebody uses it."""
    row = {"kind": "standby", "name": "db2", "age": age, "held_s": None, "used": True, "log": None}
    (finding,) = held([row])
    assert finding.state == state


def test_sums_that_a_long_transaction_holds_back_are_named_until_it_ends(
    queue: Client, postgres: Postgres, dsn: str
) -> None:
    """Usage and verdicts read them, and would lack what ended since."""
    with closing(Keeper(queue.database)) as keeper, psycopg.connect(dsn) as writer:
        keeper.round()
        row = writer.execute("select pg_current_xact_id()::text::bigint").fetchone()
        assert row is not None
        postgres.execute(
            "update taskq.summed set until = now() - interval '2 h',"
            " next_at = now() - interval '1 h', next_xid = %s::text::xid8",
            [row[0] + 1],
        )
        postgres.execute("select taskq.sum_ends(60)")
        found = only(queue.database, "keeper")
        assert (found.state, " behind, " in found.text) == ("advice", True), found.text
        assert "summed" in found.figures
        writer.commit()

        def is_fine() -> bool:
            postgres.execute("select taskq.sum_ends(60)")
            return only(queue.database, "keeper").state == "fine"

        wait_until(is_fine)  # transactions of other databases of the server hold it back too


def test_missing_keeper_has_the_same_words_in_explain(queue: Client, hire: Hire) -> None:
    """Both ask one rule."""
    queue.create_campaign("/c").seed([{"n": 1}])
    hire().claim()
    found = only(queue.database, "keeper")
    (reason,) = [it for it in explained(queue.database, "/c").reasons if it.code == "no-keeper"]
    assert (found.state, reason.text.startswith(found.text)) == ("fault", True)
