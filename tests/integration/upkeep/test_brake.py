"""The brake on expiry: many agents that fall silent at a time are taken for an outage of ours."""

from __future__ import annotations

import logging
from datetime import timezone
from typing import Any

import pytest

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.upkeep.keeper import Keeper
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.meanwhile import meanwhile
from tests.helpers.postgres import Postgres, assert_counts_are_true, expire, server_age_s, value
from tests.helpers.waiting import wait_until

OPEN = """
    select taskq.open_session('/c', gen_random_uuid(), 1) as session from generate_series(1, %s)
"""
CLAIM = "select taskq.exchange(%s, null, %s::bigint[], %s::uuid[], %s::integer[])"


@pytest.fixture
def crew(campaign: Campaign, postgres: Postgres) -> list[int]:
    """Give the sessions of twelve agents that hold a task each, and have been silent too long."""
    campaign.seed({"n": n} for n in range(12))
    return silent(postgres, campaign, 12)


def silent(postgres: Postgres, campaign: Campaign, number: int) -> list[int]:
    """Open sessions, let each claim a task, and age them beyond their leases."""
    sessions = [row["session"] for row in postgres.execute(OPEN, [number])]
    leases = [f"{session:032x}" for session in sessions]
    postgres.execute(CLAIM, [campaign.campaign_id, sessions, leases, [1] * number])
    age(postgres, sessions, 3_600)
    wait_until(lambda: server_age_s(postgres) > 1)
    return sessions


def age(postgres: Postgres, sessions: list[int], seconds: float) -> None:
    """Let sessions have been silent for so long."""
    postgres.execute(
        "update taskq.session set heartbeat_at = clock_timestamp() - make_interval(secs => %s)"
        " where session_id = any (%s)",
        [seconds, sessions],
    )


def beat(postgres: Postgres, session: int) -> None:
    """Let a session be heard."""
    said = f'[{{"session": {session}, "held": null, "pending": [], "drawn": null}}]'
    postgres.execute("select * from taskq.beat(%s)", [said])


def pass_time(postgres: Postgres, hours: int) -> None:
    """Move the time at which the first was heard again into the past, or into the future."""
    postgres.execute(
        "update taskq.brake set heard_at = heard_at - make_interval(hours => %(hours)s),"
        "                       until = until - make_interval(hours => %(hours)s)",
        {"hours": hours},
    )


def brake(postgres: Postgres) -> dict[str, Any]:
    """Return the row of the brake."""
    row = postgres.execute("select * from taskq.brake").fetchone()
    assert row is not None
    return row


def test_up_to_nine_silent_agents_expire_at_once(campaign: Campaign, postgres: Postgres) -> None:
    """A small farm that is killed as a whole waits no longer than ever."""
    campaign.seed({"n": n} for n in range(9))
    silent(postgres, campaign, 9)
    assert expire(postgres) == 9
    assert brake(postgres)["since"] is None


def test_less_than_half_of_the_agents_expire_at_once(
    campaign: Campaign, postgres: Postgres
) -> None:
    """A node of a large farm that goes down with its agents is no outage of ours."""
    campaign.seed({"n": n} for n in range(12))
    postgres.execute(OPEN.replace("1) as", "120) as"), [13])
    silent(postgres, campaign, 12)
    assert expire(postgres) == 12
    assert brake(postgres)["since"] is None


def test_nothing_expires_while_all_agents_are_silent(
    crew: list[int], queue: Client, postgres: Postgres
) -> None:
    """Nobody could take their tasks, however long it lasts."""
    for _ in range(2):
        assert expire(postgres) == 0
    assert len(queue.agents()) == len(crew)
    seen = queue.brake()
    assert seen is not None
    assert (seen.silent, seen.open, seen.heard_at, seen.until) == (12, 12, None, None)
    assert queue.database.rows("troubles") == [{"held": 12, "paused": 0}]


@pytest.mark.parametrize("who", ["one of them", "a new one", "one all the time"])
def test_silent_agents_get_one_more_lease_from_the_first_heartbeat_on(
    who: str, crew: list[int], queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """Then those that are still silent expire, as always, and the brake is off."""
    if who == "one all the time":
        hire()
    assert expire(postgres) == 0
    if who == "a new one":
        hire()
    if who == "one of them":
        # So that it is not silent again before this test is through.
        postgres.execute("update taskq.session set lease_s = 120 where session_id = %s", crew[:1])
        beat(postgres, crew[0])
    left = 11 if who == "one of them" else 12
    assert expire(postgres) == 0
    seen = queue.brake()
    assert seen is not None
    assert seen.silent == left
    assert seen.heard_at is not None
    assert seen.until is not None
    assert (seen.until - seen.heard_at).total_seconds() == 1

    pass_time(postgres, -1)
    assert expire(postgres) == 0
    pass_time(postgres, 2)
    assert expire(postgres) == left
    assert expire(postgres) == 0
    assert queue.brake() is None
    assert_counts_are_true(postgres)


def test_agents_that_come_back_in_time_keep_their_tasks(
    crew: list[int], campaign: Campaign, queue: Client, postgres: Postgres
) -> None:
    """However many came back before them, and though they are few by then."""
    assert expire(postgres) == 0
    postgres.execute("update taskq.session set lease_s = 120 where session_id <> %s", crew[-1:])
    for session in crew[:-1]:
        beat(postgres, session)
        assert expire(postgres) == 0
        pass_time(postgres, -1)
    seen = queue.brake()
    assert seen is not None
    assert (seen.silent, seen.open) == (1, 12)
    postgres.execute("update taskq.session set lease_s = 120")
    beat(postgres, crew[-1])
    assert expire(postgres) == 0
    assert queue.brake() is None
    assert campaign.status().working == 12


def test_first_that_would_expire_finds_the_others_of_its_outage(
    crew: list[int], postgres: Postgres
) -> None:
    """They missed the same beats; their leases end within a quarter of a lease, one by one."""
    wait_until(lambda: server_age_s(postgres) > 3)
    postgres.execute("update taskq.session set lease_s = 5 where session_id <> %s", crew[:1])
    age(postgres, crew[1:], 3)
    assert expire(postgres) == 0
    assert brake(postgres)["silent"] == 12


def test_outage_that_begins_again_is_braked_again(
    crew: list[int], hire: Hire, postgres: Postgres
) -> None:
    """The time that was given runs while nobody is heard: then it counts for nothing."""
    assert expire(postgres) == 0
    heard = hire()
    assert expire(postgres) == 0
    assert brake(postgres)["heard_at"] is not None
    age(postgres, [heard.session], 100)
    postgres.execute("update taskq.session set lease_s = 1")
    pass_time(postgres, 1)
    assert expire(postgres) == 0
    assert (brake(postgres)["heard_at"], brake(postgres)["silent"]) == (None, 13)
    assert len(crew) == 12


def test_brake_is_off_when_few_are_left(
    crew: list[int], campaign: Campaign, postgres: Postgres
) -> None:
    """Three agents left their sessions in good order: the other nine are a small farm."""
    assert expire(postgres) == 0
    for session in crew[:3]:
        postgres.execute("select taskq.end_session(%s)", [session])
    assert expire(postgres) == 9
    assert brake(postgres)["since"] is None
    assert campaign.status().waiting == 12


def test_brake_writes_only_what_changes(crew: list[int], postgres: Postgres) -> None:
    """The keeper looks every second, for as long as an outage lasts."""
    version = "select xmin::text from taskq.brake"
    off = value(postgres, version)
    postgres.execute("update taskq.session set heartbeat_at = now(), lease_s = 120")
    assert expire(postgres) == 0
    assert value(postgres, version) == off
    postgres.execute("update taskq.session set lease_s = 1")
    age(postgres, crew, 3_600)
    assert expire(postgres) == 0
    on = value(postgres, version)
    assert on != off
    assert expire(postgres) == 0
    assert value(postgres, version) == on


@pytest.mark.thorough
@pytest.mark.usefixtures("crew")
def test_keeper_logs_the_brake_once(
    database: Database, postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    """When it is put on and when it is off, not in each round between."""
    with caplog.at_level(logging.WARNING, "taskq.keeper"), meanwhile(Keeper(database).run):
        wait_until(lambda: "12 agents are silent" in caplog.text)
        before = value(postgres, "select until from taskq.keeper")
        wait_until(lambda: value(postgres, "select until from taskq.keeper") != before)
        postgres.execute("update taskq.session set lease_s = 120, heartbeat_at = now()")
        wait_until(lambda: "no more tasks are held" in caplog.text)
    assert caplog.text.count("agents are silent") == 1


@pytest.mark.thorough
@pytest.mark.usefixtures("crew")
def test_keeper_that_stands_by_does_not_log_that_the_brake_is_off(
    database: Database, postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    """It does not know: another one acts, and tells."""
    with caplog.at_level(logging.WARNING, "taskq.keeper"), meanwhile(Keeper(database).run):
        wait_until(lambda: "12 agents are silent" in caplog.text)
        postgres.execute(
            "update taskq.keeper"
            "   set holder = gen_random_uuid(), until = clock_timestamp() + interval '1 h'"
        )
        since = value(postgres, "select clock_timestamp()")
        asked = (
            "select count(*) from pg_stat_activity where datname = current_database()"
            " and query like '%%from taskq.keep(%%' and query_start > %s and state = 'idle'"
        )
        wait_until(lambda: value(postgres, asked, since) > 0)
    assert "no more tasks are held" not in caplog.text


def test_list_of_agents_shows_whose_tasks_are_held(
    crew: list[int], hire: Hire, dsn: str, postgres: Postgres
) -> None:
    """And until when, once that is known; records for programs stay as they are."""
    taskq = CommandLine(dsn)
    assert "silent since" not in taskq.out("agents", "list")
    expire(postgres)
    first = taskq.out("agents", "list").splitlines()[0]
    assert first.startswith("12 of 12 agents silent since ")
    assert "held until one sends a heartbeat; `taskq recover` hands them out now." in first
    hire()
    expire(postgres)
    until = brake(postgres)["until"]
    first = taskq.out("agents", "list").splitlines()[0]
    assert f"held until {until.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ};" in first
    assert len(taskq.json("agents", "list")) == len(crew) + 1
