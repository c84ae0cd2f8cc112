"""Looks of keepers: one at a time, rare, bounded, and worth nothing after a later one."""

from __future__ import annotations

import json
import time
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
PAUSED: dict[str, Any] = {
    "path": "/c",
    "whole": True,
    "code": "paused",
    "subject": "/c",
    "word": "paused",
    "after_s": 0,
    "listed": True,
    "about": "/c",
    "site": "",
    "host": "",
    "tasks": 0,
    "lost": 0,
    "blocks": True,
    "figures": {},
}


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
    rules.add("p", campaign.path, ["paused"], TARGET)
    postgres.execute("update taskq.notify_watch set due_at = now()")
    with database.transaction() as slow:
        assert slow.rows("begin_look")
        assert Looks(database).look(database) is None
    assert Looks(database).look(database) is None
    began = time.monotonic()
    assert look(database, postgres) == 0
    took_s = time.monotonic() - began
    assert Looks(database).look(database) is None
    (left,) = (
        postgres.execute("select extract(epoch from due_at - now()) as s from taskq.notify_watch")
        .fetchone()
        .values()
    )  # type: ignore[union-attr]
    assert 0 < left <= max(10, 20 * took_s)


def test_look_that_ends_after_a_later_one_changes_nothing(
    database: Database, postgres: Postgres, rules: Notifications, campaign: Campaign
) -> None:
    """A keeper may be frozen while it looks; what it saw is over then."""
    rules.add("p", campaign.path, ["paused"], TARGET)
    campaign.seed([{"n": 1}])
    campaign.pause()
    frozen, *_ = database.rows("begin_look")
    campaign.resume()
    assert look(database, postgres) == 0
    assert _note(database, frozen["look"], [PAUSED]) is None
    assert rules.events("p") == []
    assert _note(database, _due(database, postgres), [PAUSED]) == 1


def test_same_condition_twice_in_a_look_is_one_event(
    database: Database, postgres: Postgres, rules: Notifications, campaign: Campaign
) -> None:
    """Two reasons may have one code and subject."""
    rules.add("p", campaign.path, ["paused"], TARGET)
    twice = [PAUSED | {"figures": {"n": n}} for n in range(2)]
    assert _note(database, _due(database, postgres), twice) == 1


def test_subjects_that_begin_alike_are_one_event(
    database: Database, postgres: Postgres, rules: Notifications, campaign: Campaign
) -> None:
    """Their beginnings are stored, so that a long list of hosts makes no look fail."""
    rules.add("p", campaign.path, ["paused"], TARGET)
    alike = [PAUSED | {"subject": 300 * "x" + end} for end in "ab"]
    assert _note(database, _due(database, postgres), alike) == 1
    (event,) = rules.events("p")
    assert event.subject == 300 * "x"


def _due(database: Database, postgres: Postgres) -> int:
    """Begin a look, which is due; return its number."""
    postgres.execute("update taskq.notify_watch set due_at = now() - interval '1 s'")
    return int(database.rows("begin_look")[0]["look"])


def _note(database: Database, number: int, found: list[dict[str, Any]]) -> object:
    """End a look at /c."""
    looked = json.dumps([{"path": "/c", "whole": True}])
    return database.value("note_look", look=number, looked=looked, found=json.dumps(found))


def test_storing_a_look_reads_rules_troubles_and_events_only(
    campaign: Campaign, rules: Notifications, postgres: Postgres
) -> None:
    """What holds comes from the statements of `explain`, whose costs are bounded one by one."""
    rules.add("p", campaign.path, ["paused"], TARGET)
    with watched(postgres) as plans:
        postgres.execute("select * from taskq.begin_look()")
        postgres.execute(
            "select taskq.note_look(1, %s, %s)",
            [json.dumps([{"path": "/c", "whole": True}]), json.dumps([PAUSED])],
        )
    tables = {access.table for access in plans.accesses}
    assert {
        "notify_watch",
        "notify_rule",
        "notify_noted",
        "notify_event",
        "known_trouble",
    } <= tables
    assert all(
        it.startswith("notify_") or it in {"known_trouble", "watch", "token"} for it in tables
    )
    assert plans.rows_met < 100
