"""The queue refuses what takes much room before a disk is full; claims, reports, removal go on."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import pytest

from taskq import Client
from taskq.db.checks.every import checked
from taskq.db.connections import Database
from taskq.diagnosis.events import BY_NAME, DISK, event_of
from taskq.diagnosis.explaining import explained
from taskq.model.errors import Unavailable, UsageError
from taskq.upkeep.disks import DECLARED, Disks
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, value

GB = 10**9
HOUR_S = 3_600


def note(database: Database, free: int, size: int = 100 * GB, place: str = "db1:/srv") -> None:
    """Note a disk, as a keeper does."""
    database.rows("note_disk", place=place, size=size, free=free)


def put(database: Database, text: str) -> None:
    """Store a blob, as large results and inputs are stored."""
    data = text.encode()
    database.rows("put_blob", digest=hashlib.sha256(data).digest(), data=data)


def test_full_disk_refuses_seeds_and_large_results_only(
    database: Database, queue: Client, hire: Hire
) -> None:
    """Claims, reports and removing go on, and all is taken again when there is room."""
    campaign = queue.create_campaign("/c")
    campaign.seed([{"n": 1}, {"n": 2}])
    put(database, "known")
    note(database, 4 * GB)
    with pytest.raises(Unavailable, match=r"db1:/srv has 4000 MB left.*seeds are refused; make ro"):
        campaign.seed([{"n": 3}])
    with pytest.raises(Unavailable, match="large results and files are refused; make room"):
        put(database, "another")
    put(database, "known")
    agent = hire("/c")
    (task,) = agent.claim()
    agent.done(task, {"x": 1})
    assert campaign.status().done == 1
    done = queue.create_campaign("/old")
    assert done.remove() == 0
    note(database, 6 * GB)
    with pytest.raises(Unavailable, match="refused"):
        campaign.seed([{"n": 3}])
    note(database, 7 * GB)
    campaign.seed([{"n": 3}])


def test_disk_that_nobody_measures_any_more_refuses_nothing(
    database: Database, queue: Client, postgres: Postgres
) -> None:
    """Its keeper may have gone, and room may have been made since."""
    note(database, 1)
    postgres.execute("update taskq.disk set measured_at = now() - interval '6 min'")
    queue.create_campaign("/c").seed([{"n": 1}])
    assert only_disk(database) == ("fault", True)
    postgres.execute("update taskq.disk set measured_at = now() - interval '11 min'")
    assert only_disk(database) == ("advice", False), "nobody measures it"


def only_disk(database: Database) -> tuple[str, bool]:
    """Return the state of the check of disks, and whether it names a disk."""
    (found,) = [it for it in checked(database) if it.check == "disk"]
    return found.state, "db1:/srv" in found.text


def test_time_until_a_disk_is_full_comes_from_the_last_hour(
    database: Database, postgres: Postgres
) -> None:
    """A disk that loses 10 GB an hour is full when what is kept would be touched."""
    for free in (95 * GB, 85 * GB, 75 * GB):
        postgres.execute(
            "update taskq.disk set measured_at = measured_at - interval '1 h',"
            " since = since - interval '1 h'"
        )
        note(database, free)
    (row,) = database.rows("disks")
    assert row["full_in_s"] == pytest.approx(7 * HOUR_S, rel=0.02)
    assert only_disk(database) == ("fault", True), "in less than a day"
    postgres.execute("update taskq.disk set falls_per_s = -5")
    (row,) = database.rows("disks")
    assert row["full_in_s"] is None
    assert only_disk(database) == ("fine", True)


def test_explain_and_rules_name_a_disk_before_it_is_full(database: Database, queue: Client) -> None:
    """At the root, whatever waits; below, only what concerns the campaign."""
    queue.create_campaign("/c")
    note(database, 9 * GB)
    (reason,) = [it for it in explained(database, "/").reasons if it.code == "server-disk"]
    assert "db1:/srv is nearly full: 8.38 GiB of 93.1 GiB are free" in reason.text
    assert event_of(reason) == BY_NAME[DISK]
    assert not [it for it in explained(database, "/c").reasons if it.code == "server-disk"]
    assert "nearly full" in CommandLine(database.dsn).out("explain", "/")


def test_keeper_measures_the_disks_it_was_given(database: Database, tmp_path: Path) -> None:
    """A folder that is not there yet is left out; an unchanged disk is noted now and then only."""
    disks = Disks([str(tmp_path), str(tmp_path / "later")])
    disks.note(database)
    disks.note(database)
    rows = {row["place"]: row for row in database.rows("disks")}
    disk = os.statvfs(tmp_path)
    its = rows[f"{socket.gethostname()}:{tmp_path}"]
    assert its["size"] == disk.f_blocks * disk.f_frsize
    assert 0 <= its["free"] <= its["size"]
    assert not [place for place in rows if place.endswith("later")]


def test_declared_size_counts_what_database_and_log_take(
    database: Database, postgres: Postgres
) -> None:
    """For servers whose disk nobody can look at."""
    Disks(size=50 * GB).note(database)
    (row,) = [row for row in database.rows("disks") if row["place"] == DECLARED]
    taken = value(postgres, "select pg_database_size(current_database())")
    log = value(postgres, "select pg_size_bytes(current_setting('max_wal_size'))")
    assert row["free"] == pytest.approx(50 * GB - taken - log, rel=0.01)


@pytest.mark.parametrize(("free", "place"), [(-1, "x"), (1, ""), (1, "x" * 501)])
def test_disk_that_cannot_be_is_refused(database: Database, free: int, place: str) -> None:
    """Nothing is noted."""
    with pytest.raises(UsageError, match="no such disk"):
        note(database, free, place=place)
    assert not database.rows("disks")
