"""Archives in S3, on a real server: whole or refused, whatever the bucket does meanwhile."""

from __future__ import annotations

import secrets
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from taskq import Campaign, CampaignSpec, Client, Conflict, Seed
from taskq.archives.manifest import NAME
from taskq.archives.places import PROGRESS
from taskq.archives.restoring import restore
from taskq.archives.writing import archive
from taskq.db.connections import Database
from taskq.files import s3_store as s3
from taskq.files.blobs import open_blobs
from taskq.files.s3_store import S3Objects
from taskq.model.errors import ArchiveDamaged, OutputFailed, Unavailable, UsageError
from tests.fixtures.queues import Hire
from tests.fixtures.s3_servers import BUCKET, S3Server
from tests.helpers.archives import archived, archiver, ended, shown
from tests.helpers.campaigns import TRUE
from tests.helpers.command_line import CommandLine

TASKS = "c000001/tasks-000001.parquet"


@pytest.fixture
def campaign(queue: Client, hire: Hire, tmp_path: Path) -> Campaign:
    """Give /c, which has ended in all the ways there are."""
    return ended(queue, hire, tmp_path)


@pytest.fixture
def place(
    shared_s3: S3Server,
    s3_address: Callable[[S3Server], str],
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """Give a new address, where failures are known soon."""
    monkeypatch.setattr(s3, "_RETRIES", s3._RETRIES | {"max_retries": 1})  # noqa: SLF001
    return s3_address(shared_s3)


def content(server: S3Server, place: str) -> dict[str, bytes]:
    """Return all objects of an archive."""
    prefix, objects = place.removeprefix(f"s3://{BUCKET}/"), S3Objects(place, named_by="the test")
    return {name: b"".join(objects.read(name)) for name in server.objects(prefix)}


def restored(queue: Client, place: str, to: str | None = None) -> None:
    """Restore an archive in small steps."""
    database = queue.queries
    assert isinstance(database, Database)
    restore(database, open_blobs(database), place, to, lambda *_: None, step_rows=2)


@pytest.mark.thorough
def test_archive_in_s3_has_the_files_of_a_folder_and_is_restored(
    queue: Client, database: Database, campaign: Campaign, shared_s3: S3Server, place: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    archived(database, tmp_path / "a")
    archived(database, f"{place}/")
    folder = {
        str(path.relative_to(tmp_path / "a")): path.read_bytes()
        for path in (tmp_path / "a").rglob("*")
        if path.is_file()
    }
    assert content(shared_s3, place) == folder
    campaign.resume()
    before = shown(queue)
    campaign.remove()
    restored(queue, place)
    assert shown(queue) == before
    assert list(queue.audit("/")) == []


@pytest.mark.thorough
def test_commands_take_an_address_in_s3(taskq: CommandLine, campaign: Campaign, place: str) -> None:
    record = taskq.json("campaign", "archive", "/c", "--to", place, "--remove", "--yes")
    assert (record["archive"], record["tasks"], record["removed"]) == (place, 14, True)
    assert "is restored, with 1 campaign below: 14" in taskq.out("campaign", "restore", place)
    assert campaign.status().done == 5
    assert "no object store" not in taskq.refused("campaign", "restore", f"{place}/other")[1]


@pytest.mark.thorough
@pytest.mark.parametrize("steps", [7, 3])
def test_archive_killed_before_uploads_is_finished_with_the_same_objects(
    dsn: str, database: Database, campaign: Campaign, shared_s3: S3Server, place: str, steps: int
) -> None:
    archived(database, f"{place}-whole")
    kills, step = 0, steps
    while (died := archiver("archive", dsn, "/c", place, 3, step)).returncode == -signal.SIGKILL:
        kills += 1
        step += steps
    assert died.returncode == 0, died.stderr
    assert kills > 1
    assert content(shared_s3, place) == content(shared_s3, f"{place}-whole")
    assert campaign.status().state == "archived"


@pytest.mark.thorough
def test_finished_ranges_are_not_uploaded_again_after_a_kill(
    dsn: str, database: Database, campaign: Campaign, shared_s3: S3Server, place: str
) -> None:
    assert archiver("archive", dsn, "/c", place, 3, 20).returncode == -signal.SIGKILL
    assert TASKS.encode() in content(shared_s3, place)[PROGRESS]
    prefix = place.removeprefix("s3:/")
    with shared_s3.failing(500, f"PUT {prefix}/c000001/tasks-000001.*"):
        archived(database, place)
    assert campaign.status().state == "archived"


@pytest.mark.thorough
@pytest.mark.parametrize("status", [403, 503])
@pytest.mark.parametrize("request_of", ["PUT", "GET"])
def test_bucket_that_fails_in_the_midst_is_named_and_nothing_is_removed(
    taskq: CommandLine, queue: Client, campaign: Campaign, shared_s3: S3Server, place: str,
    status: int, request_of: str,
) -> None:  # fmt: skip
    """Then the same command finishes it."""
    words = ("campaign", "archive", "/c", "--to", place, "--remove", "--yes")
    prefix = place.removeprefix("s3:/")
    with shared_s3.failing(status, f"{request_of} {prefix}/c000001/tasks.*"):
        code, text = taskq.refused(*words)
    assert code == 69
    assert f"{place} {'refuses' if status == 403 else 'fails at'}" in text
    assert TASKS in text
    assert campaign.status().done == 5
    taskq.out(*words)
    restored(queue, place)
    assert queue.campaign("/c").status().done == 5


@pytest.mark.parametrize("lie", ["other", "former"])
def test_bucket_that_returns_other_content_is_believed_nothing(
    taskq: CommandLine, database: Database, campaign: Campaign, shared_s3: S3Server, place: str,
    lie: str,
) -> None:  # fmt: skip
    """The file is named, the campaign stays, and later the truth is enough."""
    prefix = place.removeprefix("s3:/")
    S3Objects(place, named_by="the test").put(TASKS, 4, [b"PAR1"])
    S3Objects(place, named_by="the test").put(PROGRESS, 0, [])
    with shared_s3.failing(lie, f"GET {prefix}/{TASKS}.*"):
        code, text = taskq.refused("campaign", "archive", "/c", "--to", place, "--remove", "--yes")
    assert code == 65
    assert TASKS in text
    assert "archive the campaign to another place" in text
    assert campaign.status().state == "archived"
    archived(database, place)


@pytest.mark.parametrize("name", [NAME, "manifest.seal"])
def test_bucket_that_returns_another_manifest_is_not_believed(
    database: Database, campaign: Campaign, shared_s3: S3Server, place: str, name: str
) -> None:
    prefix = place.removeprefix("s3:/")
    with shared_s3.failing("other", f"GET {prefix}/{name}.*"), pytest.raises(ArchiveDamaged):
        archived(database, place)
    assert campaign.status().state == "archived"
    archived(database, place)


@pytest.mark.thorough
def test_bucket_whose_lists_lack_objects_does_no_harm(
    queue: Client, database: Database, campaign: Campaign, shared_s3: S3Server, place: str
) -> None:
    archived(database, place)
    with shared_s3.failing("empty", f"GET /{BUCKET}.*list-type=2.*"):
        archived(database, place)
        restored(queue, place, "/copy")
    assert queue.campaign("/copy").status().done == campaign.status().done == 5


@pytest.mark.thorough
def test_bucket_that_denies_removal_keeps_the_progress_and_nothing_else_differs(
    queue: Client, database: Database, campaign: Campaign, shared_s3: S3Server, place: str
) -> None:
    with shared_s3.failing(403, "DELETE .*|POST .*[?]delete.*"):
        archived(database, place)
        assert PROGRESS in content(shared_s3, place)
        archived(database, place)
        restored(queue, place, "/copy")
    assert queue.campaign("/copy").status().done == campaign.status().done == 5


@pytest.mark.parametrize("denied", ["GET .*list-type=2.*", "GET .*unfinished.*"])
def test_bucket_that_denies_lists_is_named_before_the_campaign_is_archived(
    database: Database, campaign: Campaign, shared_s3: S3Server, place: str, denied: str
) -> None:
    S3Objects(place, named_by="the test").put("others", 1, [b"x"])
    with shared_s3.failing(403, denied), pytest.raises(Unavailable, match="and their rights"):
        archived(database, place)
    assert campaign.status().state == "open"


def test_archive_is_not_put_among_other_objects(
    database: Database, campaign: Campaign, place: str
) -> None:
    S3Objects(place, named_by="the test").put("others", 1, [b"x"])
    with pytest.raises(UsageError, match="is not empty: name a new prefix"):
        archived(database, place)
    assert campaign.status().state == "open"


def test_missing_bucket_is_named_before_the_campaign_is_archived(
    database: Database, campaign: Campaign, place: str
) -> None:
    assert place
    with pytest.raises(Unavailable, match="no such bucket; create it, or correct the address"):
        archived(database, "s3://no-such-bucket/a")
    assert campaign.status().state == "open"


@pytest.mark.thorough
def test_archives_of_two_campaigns_are_not_mixed(
    queue: Client, database: Database, campaign: Campaign, place: str
) -> None:
    """The second command is refused while the first one writes, and after it was killed."""
    queue.create_campaign("/empty")
    refused: list[str] = []

    def meanwhile(_done: int, _of: int, what: str) -> None:
        error = UsageError if what == "verified" else Conflict
        with pytest.raises(error, match="name another place"):
            archived(database, place, "/empty")
        refused.append(what)

    archive(database, open_blobs(database), "/c", place, meanwhile, range_tasks=100)
    assert {"archived", "verified"} == set(refused)
    restored(queue, place, "/copy")
    assert queue.campaign("/copy").status().total == campaign.status().total


def test_archive_whose_place_another_one_has_taken_removes_nothing(
    taskq: CommandLine, database: Database, campaign: Campaign, place: str
) -> None:
    """Both may have seen an empty place: the second one is seen by the first."""

    def meanwhile(*_: object) -> None:
        S3Objects(place, named_by="the test").put(PROGRESS, 20, [b'{"archive": "other"}\n'])

    with pytest.raises(Conflict, match="unfinished archive of another campaign"):
        archive(database, open_blobs(database), "/c", place, meanwhile)
    words = ("campaign", "archive", "/c", "--to", place, "--remove", "--yes")
    assert taskq.refused(*words)[0] == 3
    assert campaign.status().done == 5


@pytest.mark.thorough
def test_two_commands_for_one_archive_write_the_same(
    queue: Client, database: Database, campaign: Campaign, shared_s3: S3Server, place: str
) -> None:
    """At once, in any order of their requests."""
    inner: list[str] = []

    def meanwhile(*_: object) -> None:
        if not inner:
            inner.append(archived(database, place).digest)

    made = archive(database, open_blobs(database), "/c", place, meanwhile, range_tasks=3)
    assert inner == [made.digest]
    assert PROGRESS not in content(shared_s3, place)
    restored(queue, place, "/copy")
    assert queue.campaign("/copy").status().done == campaign.status().done


def test_temporary_folder_without_room_is_named(
    database: Database, campaign: Campaign, place: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(OutputFailed, match=r"gone': No such file .* by TMPDIR"):
        archived(database, place)
    assert campaign.status().state == "archived"


@pytest.mark.thorough
def test_restore_from_s3_killed_again_and_again_is_finished(
    dsn: str, queue: Client, database: Database, campaign: Campaign, place: str
) -> None:
    archived(database, place)
    campaign.resume()
    before, kills, step = shown(queue), 0, 5
    campaign.remove()
    while (died := archiver("restore", dsn, "/c", place, 2, step)).returncode == -signal.SIGKILL:
        kills += 1
        step += 4
    assert died.returncode == 0, died.stderr
    assert kills > 1
    assert shown(queue) == before


@pytest.mark.thorough
def test_memory_of_an_archive_in_s3_does_not_grow_with_its_tasks(
    dsn: str, queue: Client, place: str
) -> None:
    """180 MB of payloads pass through, up and down; two copies of them would not fit."""
    campaign = queue.create_campaign(CampaignSpec("/c", handler=TRUE))
    campaign.seed(Seed({"text": secrets.token_hex(15_000)}, str(n)) for n in range(6_000))
    campaign.cancel()
    campaign.resume()
    made = archiver("archive", dsn, "/c", place, 50_000, 0)
    assert made.returncode == 0, made.stderr
    campaign.remove()
    again = archiver("restore", dsn, "/c", place, 1_000, 0)
    assert again.returncode == 0, again.stderr
    assert int(made.stdout) < 180_000_000
    assert int(again.stdout) < 180_000_000
