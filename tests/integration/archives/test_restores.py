"""Archives put back: in the same database, in another one, killed in the midst, and used again."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from taskq import Client, Conflict, Seed
from taskq.archives.manifest import NAME, SEAL
from taskq.archives.restoring import Restored, restore
from taskq.db.connections import Database
from taskq.files.blobs import open_blobs
from tests.fixtures.databases import fresh_database
from tests.fixtures.queues import Hire
from tests.helpers.archives import archived, archiver, ended, shown
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, value

pytestmark = pytest.mark.usefixtures("true_counts")


@pytest.fixture
def archive(queue: Client, database: Database, hire: Hire, tmp_path: Path) -> Path:
    """Give the archive of /c, which has ended in all the ways there are; it is resumed."""
    campaign = ended(queue, hire, tmp_path)
    archived(database, tmp_path / "a")
    campaign.resume()
    return tmp_path / "a"


@pytest.fixture
def elsewhere(server_dsn: str, template: str) -> Iterator[Client]:
    """Give another queue, whose ids are elsewhere."""
    with fresh_database(server_dsn, template) as dsn:
        database = Database(dsn).open()
        with psycopg.connect(dsn, autocommit=True) as connection:  # not a copy of the other one
            connection.execute("update taskq.archive_key set secret = sha256('elsewhere')")
        queue = Client(database)
        for number in range(3):
            queue.create_campaign(f"/other{number}").seed(Seed({}, str(n)) for n in range(40))
        yield queue
        database.close()


def restored(queue: Client, folder: Path, to: str | None = None) -> Restored:
    """Restore an archive in small steps."""
    database = queue.queries
    assert isinstance(database, Database)
    return restore(database, open_blobs(database), folder, to, lambda *_: None, step_rows=2)


def ids(queue: Client, path: str = "/c") -> dict[str, int]:
    """Return the ids of the tasks of a campaign by their keys."""
    return {task.key: task.task_id for task in queue.campaign(path).tasks(below=False)}


@pytest.mark.thorough
def test_removed_campaign_is_restored_as_it_was_with_its_ids(queue: Client, archive: Path) -> None:
    before, numbers = shown(queue), ids(queue)
    campaign = queue.campaign("/c")
    first = campaign.campaign_id
    campaign.remove()
    assert restored(queue, archive).is_own
    assert shown(queue) == before
    assert ids(queue) == numbers
    assert queue.campaign("/c").campaign_id == first
    assert queue.owners.of("/c") == queue.owners.of("/c/below")
    assert list(queue.audit("/")) == []


@pytest.mark.thorough
def test_copy_next_to_the_campaign_gets_ids_of_its_own(queue: Client, archive: Path) -> None:
    before = shown(queue)
    restored(queue, archive, "/old/c")
    assert shown(queue, "/old/c") == before == shown(queue)
    assert set(ids(queue).values()).isdisjoint(ids(queue, "/old/c").values())
    assert list(queue.audit("/")) == []
    later = queue.create_campaign("/later")
    later.seed([Seed({}, "a")])
    assert later.task("a").task_id > max(ids(queue, "/old/c").values())


@pytest.mark.thorough
def test_archive_restored_elsewhere_can_be_read_and_retried(
    queue: Client, archive: Path, elsewhere: Client, postgres: Postgres
) -> None:
    assert not restored(elsewhere, archive).is_own
    assert shown(elsewhere) == shown(queue)
    campaign = elsewhere.campaign("/c")
    assert campaign.status().state == "open"
    assert list(elsewhere.audit("/")) == []
    assert campaign.retry() == 1
    assert campaign.retry(status="cancelled") == 8
    assert campaign.retry(keys=["k2"], status="done") == 1
    campaign.seed([Seed({}, "new")])
    assert campaign.status().waiting == 11
    (task,) = (task for task in campaign.tasks() if task.key == "new")
    assert task.task_id > max(ids(elsewhere)["k2"], 1)
    assert value(postgres, "select count(*) from taskq.archive") == 0
    campaign.remove()


@pytest.mark.thorough
def test_all_commands_work_on_a_restored_campaign(
    taskq: CommandLine, queue: Client, archive: Path, tmp_path: Path
) -> None:
    queue.campaign("/c").remove()
    text = taskq.out("campaign", "restore", archive)
    assert "The campaign /c is restored, with 1 campaign below: 14 tasks." in text
    assert "below  finished" in taskq.out("tree")
    assert taskq.json("status", "/c")["done"] == 5
    assert len(taskq.json("tasks", "/c")) == 14
    assert "withdrawn" in taskq.out("history", "/c", "k2")
    taskq.out("export", "/c", "--to", tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_bytes().count(b"\n") == 5
    assert taskq.json("campaign", "show", "/c")["params"] == {"grid": 2}
    assert len(taskq.json("campaign", "changes", "/c")) == 2
    taskq.out("explain", "/c")
    taskq.out("audit", "/c")
    assert taskq.json("retry", "/c", "--yes")["tasks"] == 1
    assert taskq.refused("campaign", "restore", archive)[0] == 3


@pytest.mark.thorough
def test_best_results_are_the_same_without_the_index_that_a_restore_does_not_bring(
    taskq: CommandLine, queue: Client, archive: Path
) -> None:
    """The index can be made again."""
    by = ("--best", "2", "--by", "result.score", "--lowest")
    best = ("results", "/c", *by, "--raw", "-o", "jsonl")
    index = ("campaign", "index", "/c", "--by", "result.score")
    taskq.out(*index)
    before = taskq.out(*best)
    assert before.count("\n") == 2
    queue.campaign("/c").remove()
    restored(queue, archive)
    assert queue.campaign("/c").indexes() == []
    assert taskq.out(*best) == before
    taskq.out(*index)
    assert taskq.out(*best) == before


@pytest.mark.thorough
@pytest.mark.parametrize("steps", [15, pytest.param(3, marks=pytest.mark.thorough)])
def test_restore_killed_again_and_again_is_finished_by_a_repetition(
    dsn: str, queue: Client, archive: Path, steps: int
) -> None:
    """In between nobody can use the campaign, and at the end nothing is there twice."""
    before = shown(queue)
    campaign, kills, step = queue.campaign("/c"), 0, steps
    campaign.remove()
    while (died := archiver("restore", dsn, "/c", archive, 2, step)).returncode == -signal.SIGKILL:
        kills += 1
        step += 1
        half = queue.campaign("/c")
        assert half.status().state == "archived"
        with pytest.raises(Conflict, match="is not restored as a whole"):
            half.resume()
        with pytest.raises(Conflict, match="archived: /c"):
            half.seed([Seed({}, "x")])
    assert died.returncode == 0, died.stderr
    assert kills > 1
    assert shown(queue) == before
    assert list(queue.audit("/")) == []


@pytest.mark.thorough
def test_half_restored_campaign_can_be_removed(dsn: str, queue: Client, archive: Path) -> None:
    queue.campaign("/c").remove()
    died = archiver("restore", dsn, "/c", archive, 2, 15)
    assert died.returncode == -signal.SIGKILL
    with pytest.raises(Conflict, match="is not restored as a whole"):
        archived(queue.queries, archive.parent / "b")  # type: ignore[arg-type]
    queue.campaign("/c").remove()
    assert list(queue.audit("/")) == []
    restored(queue, archive)
    assert queue.campaign("/c").status().done == 5


@pytest.mark.thorough
def test_another_archive_is_not_mixed_into_a_half_restored_one(
    dsn: str, queue: Client, database: Database, archive: Path, tmp_path: Path
) -> None:
    campaign = queue.campaign("/c")
    campaign.change(replace(campaign.spec(), weight=2))
    archived(database, tmp_path / "other")
    campaign.remove()
    assert archiver("restore", dsn, "/c", archive, 2, 15).returncode == -signal.SIGKILL
    with pytest.raises(Conflict, match="exists already"):
        restored(queue, tmp_path / "other")


@pytest.mark.thorough
def test_paused_campaign_is_paused_again(
    queue: Client, database: Database, archive: Path, tmp_path: Path
) -> None:
    assert archive
    campaign = queue.campaign("/c")
    campaign.pause()
    archived(database, tmp_path / "paused")
    campaign.remove()
    restored(queue, tmp_path / "paused")
    assert queue.campaign("/c").status().state == "paused"


@pytest.mark.thorough
def test_archive_of_another_database_gives_its_campaign_to_nobody_else(
    queue: Client, archive: Path, postgres: Postgres
) -> None:
    """Without the database's own seal, owner, tokens and ids in it are only text."""
    postgres.execute("update taskq.campaign set owner = 'ada' where path = '/c'")
    archived(queue.queries, archive.parent / "b")  # type: ignore[arg-type]
    queue.campaign("/c").remove()
    (archive.parent / "b" / SEAL).write_bytes(b"0" * 64)
    assert not restored(queue, archive.parent / "b").is_own
    assert queue.owners.of("/c") != "ada"
    tokens = "select count(*) from taskq.attempt a join taskq.session s using (session_id)"
    assert value(postgres, f"{tokens} where s.token_id is distinct from -1") == 0
    assert (archive / NAME).exists()


def test_own_archive_keeps_its_owner(queue: Client, archive: Path, postgres: Postgres) -> None:
    postgres.execute("update taskq.campaign set owner = 'ada' where path = '/c'")
    archived(queue.queries, archive.parent / "b")  # type: ignore[arg-type]
    queue.campaign("/c").remove()
    restored(queue, archive.parent / "b")
    assert queue.owners.of("/c") == "ada"


def test_results_of_a_foreign_archive_are_not_the_owners_own(
    elsewhere: Client, archive: Path
) -> None:
    """Else a pickle in it would be read, which runs code."""
    restored(elsewhere, archive)
    row = elsewhere.campaign("/c")
    own = elsewhere.queries.value(
        "is_own_result", campaign=row.campaign_id, task=ids(elsewhere)["k2"], attempt=None
    )
    assert own is False
