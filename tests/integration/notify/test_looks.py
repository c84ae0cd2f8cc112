"""Looks of keepers: one at a time, rare, bounded, and worth nothing after a later one."""

from __future__ import annotations

import json
from typing import Any

from taskq import Campaign
from taskq.db.connections import Database
from taskq.upkeep.looks import Looks
from taskq.upkeep.notifications import Notifications
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres
from tests.integration.notify.support import look

TARGET = "webhook:here"
GB = 10**9


def test_disk_that_is_nearly_full_is_reported_once_by_all_keepers_together(
    campaign: Campaign, rules: Notifications, database: Database, postgres: Postgres
) -> None:
    """Any keeper reports what any other measured. It belongs to no campaign."""
    rules.add("d", campaign.path, ["disk", "paused"], TARGET)
    rules.add("p", "/", ["paused"], TARGET)
    database.rows("note_disk", place="db1:/srv", size=100 * GB, free=50 * GB)
    assert look(database, postgres) == 0
    database.rows("note_disk", place="db1:/srv", size=100 * GB, free=9 * GB)
    assert look(database, postgres) == 1
    (event,) = rules.events("d")
    assert event.subject == "db1:/srv"
    assert event.figures["text"].startswith("The disk of db1:/srv is nearly full: ")
    assert look(database, postgres) == 0


def test_one_looks_at_a_time_and_no_more_often_than_every_ten_seconds(
    database: Database, postgres: Postgres, rules: Notifications, campaign: Campaign
) -> None:
    """A second keeper neither waits nor looks."""
    assert Looks(database).look(database) is None
    rules.add("p", campaign.path, ["paused"], TARGET)
    postgres.execute("update taskq.notify_watch set due_at = now()")
    with database.transaction() as slow:
        assert slow.rows("begin_look")
        assert Looks(database).look(database) is None
    assert Looks(database).look(database) is None
    assert look(database, postgres) == 0
    assert Looks(database).look(database) is None
    (left,) = (
        postgres.execute("select extract(epoch from due_at - now()) as s from taskq.notify_watch")
        .fetchone()
        .values()
    )  # type: ignore[union-attr]
    assert 0 < left <= 20


def test_look_that_ends_after_a_later_one_changes_nothing(
    database: Database, postgres: Postgres, rules: Notifications, campaign: Campaign
) -> None:
    """A keeper may be frozen while it looks; what it saw is over then."""
    rules.add("p", campaign.path, ["paused"], TARGET)
    campaign.seed([{"n": 1}])
    campaign.pause()
    (frozen,) = database.rows("begin_look")
    campaign.resume()
    assert look(database, postgres) == 0
    seen = {"path": "/c", "wanted": "paused", "event": "paused", "subject": "/c", "after_s": 0}
    late = json.dumps([seen | {"figures": {}}])
    assert database.value("note_events", look=frozen["look"], found=late) is None
    assert rules.events("p") == []
    (next_one,) = _due(database, postgres)
    assert database.value("note_events", look=next_one["look"], found=late) == 1


def test_same_condition_twice_in_a_look_is_one_event(
    database: Database, postgres: Postgres, rules: Notifications, campaign: Campaign
) -> None:
    """Two reasons may have one code and subject."""
    rules.add("p", campaign.path, ["paused"], TARGET)
    seen = {"path": "/c", "wanted": "paused", "event": "paused", "subject": "/c", "after_s": 0}
    (begun,) = _due(database, postgres)
    twice = json.dumps([seen | {"figures": {"n": n}} for n in range(2)])
    assert database.value("note_events", look=begun["look"], found=twice) == 1


def test_subjects_that_begin_alike_are_one_event(
    database: Database, postgres: Postgres, rules: Notifications, campaign: Campaign
) -> None:
    """Their beginnings are stored, so that a long list of hosts makes no look fail."""
    rules.add("p", campaign.path, ["paused"], TARGET)
    seen = {"path": "/c", "wanted": "paused", "event": "paused", "after_s": 0, "figures": {}}
    (begun,) = _due(database, postgres)
    alike = json.dumps([seen | {"subject": 300 * "x" + end} for end in "ab"])
    assert database.value("note_events", look=begun["look"], found=alike) == 1
    (event,) = rules.events("p")
    assert event.subject == 300 * "x"


def _due(database: Database, postgres: Postgres) -> list[dict[str, Any]]:
    """Begin a look, which is due."""
    postgres.execute("update taskq.notify_watch set due_at = now() - interval '1 s'")
    return database.rows("begin_look")


def test_storing_a_look_reads_rules_conditions_and_events_only(
    campaign: Campaign, rules: Notifications, postgres: Postgres
) -> None:
    """What holds comes from the statements of `explain`, whose costs are bounded one by one."""
    rules.add("p", campaign.path, ["paused"], TARGET)
    seen = {"path": "/c", "wanted": "paused", "event": "paused", "subject": "/c", "after_s": 0}
    with watched(postgres) as plans:
        postgres.execute("select * from taskq.begin_look()")
        postgres.execute("select taskq.note_events(1, %s)", [json.dumps([seen | {"figures": {}}])])
    tables = {access.table for access in plans.accesses}
    assert {"notify_watch", "notify_rule", "notify_condition", "notify_event"} <= tables
    assert all(table.startswith("notify_") for table in tables)
    assert plans.rows_met < 100
