"""Keepers that are killed while they remove or archive what is not to be kept any longer."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from taskq import CampaignSpec, Client
from taskq.archives.restoring import restore
from taskq.db.connections import Database
from taskq.files.blobs import open_blobs
from taskq.upkeep.retention import Retention
from tests.fixtures.queues import Hire
from tests.helpers.archives import archiver
from tests.helpers.campaigns import TRUE
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres
from tests.helpers.retention import ended, later, paths, run, tasks_of
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.usefixtures("true_counts")


@pytest.fixture
def steps() -> Retention:
    """Give the retention of a keeper."""
    return Retention()


@pytest.mark.thorough
def test_removal_that_is_killed_again_and_again_is_finished_by_other_keepers(
    dsn: str, queue: Client, database: Database, postgres: Postgres, steps: Retention
) -> None:
    """Each task is counted once, and nothing else is touched."""
    campaign = queue.create_campaign(CampaignSpec("/a", handler=TRUE, keep="30d"))
    campaign.seed({"n": n} for n in range(6_000))
    queue.create_campaign(CampaignSpec("/b", handler=TRUE)).seed([{"n": 1}])
    campaign.cancel()
    run(database, steps)
    later(postgres, 31)
    taskq, left, kills = CommandLine(dsn), 6_000, 0
    while "/a" in paths(queue):
        postgres.execute("update taskq.keeper set until = clock_timestamp()")
        with taskq.process("keeper", "--quiet") as keeper:
            wait_until(
                lambda before=left: tasks_of(queue, "/a") < before or "/a" not in paths(queue)
            )
            keeper.kill()
            kills += 1
        left = tasks_of(queue, "/a")
    assert kills > 1
    (gone,) = queue.removed()
    assert (gone.cancelled, gone.campaigns) == (6_000, 1)
    assert paths(queue) == ["/b"]


@pytest.mark.thorough
def test_archiving_keeper_that_is_killed_goes_on_in_the_same_folder(
    dsn: str,
    queue: Client,
    database: Database,
    hire: Hire,
    postgres: Postgres,
    steps: Retention,
    tmp_path: Path,
) -> None:
    """Nothing is removed before, and one archive is there in the end."""
    ended(queue, hire, "/a", tasks=20, keep="30d", archive_first=True)
    run(database, steps)
    later(postgres, 31)
    (row,) = database.rows("next_to_archive", holding=None)
    died = archiver("archive", dsn, "/a", tmp_path / row["name"], 3, 20)
    assert died.returncode == -signal.SIGKILL
    assert run(database, steps) == []
    postgres.execute("update taskq.retention set archiving_until = null")
    postgres.execute("update taskq.keeper set until = clock_timestamp()")
    with CommandLine(dsn).process("keeper", "--archive-to", tmp_path, "--quiet"):
        wait_until(lambda: paths(queue) == [])
    (gone,) = queue.removed()
    assert gone.archive == str(tmp_path / row["name"])
    assert [it.name for it in tmp_path.iterdir()] == [row["name"]]
    restore(database, open_blobs(database), Path(gone.archive), None, lambda *_: None)
    assert queue.campaign("/a").status().done == 20
