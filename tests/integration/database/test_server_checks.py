"""`taskq db check`: what a server must be, each with its finding and a remedy that mends it."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from taskq import Client
from taskq.db.checks.content import bodies, columns_of, indexes_made, sizes
from taskq.db.checks.every import CHECKS, Checked, checked
from taskq.db.checks.findings import ServerFinding
from taskq.db.checks.running import (
    cache_hits,
    clock,
    connections,
    freeze,
    held,
    log,
    memory,
    snapshot,
)
from taskq.db.connections import Database
from taskq.db.installed import texts
from taskq.db.left_settings import LEFT
from taskq.diagnosis.events import BY_NAME, TROUBLE, event_of
from taskq.diagnosis.explaining import explained
from taskq.embedded import Server
from taskq.upkeep.keeper import Keeper
from tests.fixtures.logins import Login, Staff
from tests.fixtures.own_servers import own_server  # noqa: F401  # a fixture, for the tests here
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres
from tests.helpers.server_checks import break_by, faults, follow, only
from tests.helpers.waiting import wait_until

DAY_S = 86_400.0
INVALID = """
    update pg_index set indisvalid = false where indexrelid = 'taskq.session_ended'::regclass
"""
OTHER = """
    create or replace function taskq.at_or_below(p_path text, p_top text)
    returns boolean language sql immutable as 'select true'
"""
#: What the server of the tests has.
UNSAFE = {
    "autovacuum": "fault",
    "fsync": "fault",
    "full_page_writes": "advice",
    "synchronous_commit": "advice",
}


@pytest.fixture(autouse=True)
def unlike_each_other(staff: Staff) -> Iterator[None]:
    """End each test with a server whose content is right."""
    yield
    rest = [it for it in faults(staff.owner.database) if it.check not in {"keeper", "settings"}]
    assert not rest, rest


def test_new_queue_has_no_fault(staff: Staff) -> None:
    """Each check has a finding of one sentence, and whatever is not fine has a remedy."""
    found = list(checked(staff.owner.database))
    assert {it.check for it in found} == {check.name for check in CHECKS}
    settings = {it.figures["setting"]: it.state for it in found if it.check == "settings"}
    assert settings == UNSAFE, "the server of the tests is faster than it is safe"
    rest = [it for it in found if it.check != "settings"]
    assert not [it for it in rest if it.state in {"fault", "unseen"}], rest
    assert all(it.remedy for it in found if it.state != "fine"), found


@pytest.mark.parametrize(
    ("order", "check", "says"),
    [
        ("drop index taskq.session_ended", "indexes", "session_ended is missing"),
        (
            "alter table taskq.refused drop constraint refused_pkey",
            "indexes",
            "refused_pkey is missing",
        ),
        (INVALID, "indexes", "session_ended is invalid"),
        (
            "alter function taskq.known_fields rename to elsewhere",
            "functions",
            "known_fields (missing)",
        ),
        (OTHER, "functions", "at_or_below (changed)"),
        (
            "alter sequence taskq.campaign_campaign_id_seq restart with 1",
            "sequences",
            "campaign",
        ),
        ("grant insert on taskq.spec to public", "rights", "Each login has insert on spec"),
    ],
)
def test_broken_content_is_found_and_mended_by_its_remedy(
    staff: Staff, order: str, check: str, says: str
) -> None:
    """The remedy is followed to the letter."""
    campaign = staff.owner.create_campaign(f"/{secrets.token_hex(6)}")
    campaign.seed([{"n": 1}])
    break_by(staff, order)
    (fault,) = faults(staff.owner.database, check)
    assert says in fault.text
    follow(staff, fault.remedy)
    assert only(staff.owner.database, check).state == "fine"


def shown(login: Login) -> dict[str, Any]:
    """Return the last finding of each check, as the command shows it to a login."""
    result = login.taskq("db", "check", "--output", "json")
    assert "Error: 2 faults found." in result.stderr, "those of the settings"
    return {it["check"]: it for it in json.loads(result.stdout)}


@pytest.mark.parametrize("role", ["operator", "reader"])
def test_operator_without_more_rights_checks_too(staff: Staff, role: str) -> None:
    """What the login may not see is named as such; nothing fails."""
    login = staff.login(role)
    with psycopg.connect(staff.owner.database.dsn):
        found = shown(login)
    unseen = {name for name, it in found.items() if it["state"] == "unseen"}
    # It comes by TCP, and does not see the other session.
    assert unseen == {"snapshot", "memory"}
    assert "pg_read_all_stats" in found["snapshot"]["remedy"]
    break_by(staff, f"grant pg_read_all_stats to {login.name}")
    assert shown(login)["snapshot"]["state"] == "fine"


def test_login_without_a_role_sees_what_catalogs_show(staff: Staff) -> None:
    """It cannot read the queue: these checks say so."""
    found = shown(staff.login())
    assert found["indexes"]["state"] == found["freeze"]["state"] == "fine"
    assert "could not be looked at" in found["keeper"]["text"]


def findings(staff: Staff, setting: str) -> list[Checked]:
    """Return what is found about a setting."""
    return [it for it in checked(staff.owner.database) if it.figures.get("setting") == setting]


@pytest.mark.parametrize(
    ("setting", "value", "state"),
    [
        ("zero_damaged_pages", "on", "fault"),
        ("ignore_checksum_failure", "on", "fault"),
        ("statement_timeout", "5s", "advice"),
    ],
)
def test_setting_of_the_whole_server_is_judged(
    staff: Staff, setting: str, value: str, state: str
) -> None:
    """It is as the server has it, and the remedy sets it."""
    break_by(staff, f"alter system set {setting} = '{value}'", "select pg_reload_conf()")
    try:
        wait_until(lambda: findings(staff, setting))
        (finding,) = findings(staff, setting)
        assert (finding.state, LEFT[setting].harm in finding.text) == (state, True)
        follow(staff, finding.remedy)
        wait_until(lambda: not findings(staff, setting))
    finally:
        break_by(staff, f"alter system reset {setting}", "select pg_reload_conf()")


def test_setting_of_a_login_is_named_with_its_place(staff: Staff) -> None:
    """Though the caller does not have it."""
    login = staff.login("submitter")
    break_by(staff, f"alter role {login.name} set track_activities = off")
    (advice,) = findings(staff, "track_activities")
    assert f"track_activities is off for the role {login.name}: " in advice.text
    follow(staff, advice.remedy)
    assert not findings(staff, "track_activities")


def test_unused_slot_is_a_fault_that_explain_and_rules_name(staff: Staff) -> None:
    """It fills the disk with log."""
    database = staff.owner.database
    break_by(staff, "select pg_create_physical_replication_slot('forgotten', true)")
    fault = only(database, "held")
    assert (fault.state, "slot forgotten" in fault.text) == ("fault", True)
    (reason,) = [it for it in explained(database, "/").reasons if it.code == "server-held"]
    assert (reason.text.startswith(fault.text), event_of(reason)) == (True, BY_NAME[TROUBLE])
    follow(staff, fault.remedy.partition("or ")[2])
    assert only(staff.owner.database, "held").state == "fine"


def test_held_snapshot_is_found(staff: Staff) -> None:
    """It is advice after an hour and a fault after a day; here time passes in the row."""
    database = staff.owner.database
    with psycopg.connect(database.dsn) as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select 1")
        rows = database.rows("check_activity")
        assert rows[0]["pid"] == holder.info.backend_pid
    for held_s, state in ((10.0, "fine"), (5_000.0, "advice"), (2 * DAY_S, "fault")):
        (finding,) = snapshot([{**rows[0], "held_s": held_s}])
        assert finding.state == state
        assert state == "fine" or f"pg_terminate_backend({rows[0]['pid']})" in finding.remedy


def test_prepared_transaction_is_found(own_server: Server) -> None:  # noqa: F811
    """A forgotten one holds back VACUUM for ever."""
    with (own_server.home.conf / "user.conf").open("a") as conf:
        conf.write("max_prepared_transactions = 2\n")
    own_server.down()
    with closing(Database(own_server.up().dsn).open()) as database:
        with psycopg.connect(database.dsn, autocommit=True) as other:
            other.execute("begin")
            other.execute("select txid_current()")
            other.execute("prepare transaction 'forgotten'")
        assert only(database, "held").state == "fine", "it is young"
        (row,) = database.rows("check_held")
        (finding,) = held([{**row, "held_s": DAY_S}])
        assert (finding.state, "rollback prepared 'forgotten'" in finding.remedy) == ("fault", True)


@pytest.mark.parametrize(
    ("judge", "statement_name", "change", "state"),
    [
        (freeze, "check_freeze", {"age": 500_000_000}, "advice"),
        (freeze, "check_freeze", {"age": 1_900_000_000}, "fault"),
        (log, "check_log", {"slot": "late", "kept": 1 << 40}, "advice"),
        (log, "check_log", {"archives": True, "failed_at": datetime.now(timezone.utc)}, "fault"),
        (memory, "check_memory", {"is_local": True, "sort": 1 << 50}, "advice"),
        (memory, "check_memory", {"is_local": False}, "unseen"),
        (cache_hits, "check_cache", {"hit": 5_000_000, "read": 2_000_000}, "advice"),
        (cache_hits, "check_cache", {"damaged": 1}, "fault"),
        (connections, "check_activity", {"connections": 299, "most": 300}, "advice"),
        (sizes, "check_sizes", {"dead": 5_000_000, "live": 100}, "advice"),
    ],
)
def test_figures_out_of_bounds_are_findings(
    staff: Staff,
    judge: Callable[[list[dict[str, Any]]], Iterable[ServerFinding]],
    statement_name: str,
    change: dict[str, Any],
    state: str,
) -> None:
    """Each with a remedy. The rows are the server's own, but for what has to change."""
    row, *_ = staff.owner.database.rows(statement_name)
    (finding,) = judge([row | change])
    assert (finding.state, bool(finding.remedy)) == (state, True)


def test_tokens_and_passwords_that_end_soon_are_found(staff: Staff) -> None:
    """A token is named in the last fifth of its time; a password within two weeks."""
    login = staff.login("reader")
    staff.owner.tokens.create("site", "brief", ["/"], days=20)
    assert only(staff.owner.database, "tokens").state == "fine"
    break_by(
        staff,
        "update taskq.token set created_at = created_at - interval '19 days',"
        " expires_at = expires_at - interval '19 days' where name = 'brief'",
        f"alter role {login.name} valid until '{datetime.now(timezone.utc) + timedelta(days=3)}'",
    )
    assert "token brief ends at" in only(staff.owner.database, "tokens").text
    password = only(staff.owner.database, "passwords")
    assert (password.state, login.name in password.text) == ("advice", True)
    follow(staff, password.remedy)
    assert only(staff.owner.database, "passwords").state == "fine"


def test_missing_keeper_is_a_fault_if_agents_are_there(queue: Client, postgres: Postgres) -> None:
    """Without agents it is advice: nothing is handed out then."""
    queue.create_campaign("/c")
    assert only(queue.database, "keeper").state == "advice"
    postgres.execute("select taskq.open_session('/c', gen_random_uuid())")
    assert only(queue.database, "keeper").state == "fault"
    # It is a copy of a database that may be old, so that sums would be called late.
    postgres.execute("update taskq.summed set next_at = clock_timestamp()")
    with closing(Keeper(queue.database)) as keeper:
        keeper.round()
    assert only(queue.database, "keeper").state == "fine"


def test_clock_that_is_off_is_found() -> None:
    """By more than five seconds, and more than the exchange took."""
    for ahead_s, within_s, state in (
        (3.0, 0.1, "fine"),
        (-60.0, 0.1, "advice"),
        (9.0, 8.0, "fine"),
    ):
        (finding,) = clock([{"ahead_s": ahead_s, "within_s": within_s}])
        assert finding.state == state


def test_database_without_a_schema_needs_one(empty_dsn: str) -> None:
    """Only what does not need the schema is checked; the command fails, and says what is next."""
    taskq = CommandLine(empty_dsn)
    result = taskq("db", "check", "--output", "json")
    found = {it["check"]: it for it in json.loads(result.stdout)}
    assert (result.exit_code, found["schema"]["remedy"]) == (1, "`taskq db migrate`")
    assert "rights" not in found
    taskq.out("db", "migrate")
    again = {it["check"]: it for it in json.loads(taskq("db", "check", "-o", "json").stdout)}
    assert again["schema"]["state"] == again["rights"]["state"] == "fine"


@pytest.mark.thorough
def test_locked_table_is_named_instead_of_waited_for(queue: Client) -> None:
    """Also by an exclusive lock on a table whose size is asked."""
    with psycopg.connect(queue.database.dsn) as other:
        other.execute("lock table taskq.keeper in access exclusive mode")
        assert "could not be looked at" in only(queue.database, "keeper").text


def test_texts_of_roles_and_schema_are_read_whole(postgres: Postgres) -> None:
    """No grant and no index is overlooked, so that the checks compare with all of them."""
    for right, text in texts("roles"):
        given = re.sub(r"--.*", "", text)
        assert len(re.findall(r"grant", given)) == len(re.findall("grant select", given))
        assert {it.partition(".")[0] for it in columns_of(right)} == set(
            re.findall(r"taskq\.(\w+)", given)
        )
    rows = postgres.execute(
        "select c.relname from pg_class c where c.relnamespace = 'taskq'::regnamespace"
        " and c.relkind = 'i'"
    ).fetchall()
    assert {row["relname"] for row in rows} == set(indexes_made())
    assert bodies().keys() == {name for name, _ in texts("functions")} - {"total"}
