"""Archives that are killed in their midst, and large ones: they are finished by a repetition."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from taskq import Campaign, CampaignSpec, Client, Conflict, Seed
from taskq.archives import manifest as manifests
from taskq.archives.writing import archive
from taskq.db.connections import Database
from taskq.files.blobs import open_blobs
from tests.fixtures.queues import Hire
from tests.helpers.archives import archived, archiver, ended
from tests.helpers.campaigns import TRUE


@pytest.fixture
def campaign(queue: Client, hire: Hire, tmp_path: Path) -> Campaign:
    """Give /c, which has ended in all the ways there are."""
    return ended(queue, hire, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("steps", [40, pytest.param(7, marks=pytest.mark.thorough)])
def test_archive_killed_again_and_again_is_finished_with_the_same_files(
    dsn: str, database: Database, campaign: Campaign, tmp_path: Path, steps: int
) -> None:
    """It is killed at each place where it has forced something to disk, and goes on from there."""
    whole = archived(database, tmp_path / "whole")
    to, kills, step = tmp_path / "killed", 0, steps
    while (died := archiver("archive", dsn, "/c", to, 3, step)).returncode == -signal.SIGKILL:
        kills += 1
        step += steps
    assert died.returncode == 0, died.stderr
    assert kills > 1
    found = manifests.parsed((to / manifests.NAME).read_bytes())
    assert found.files == whole.manifest.files
    assert (to / manifests.SEAL).exists()
    assert campaign.status().state == "archived"
    assert not [path for path in to.rglob("*") if path.name.startswith(".")]


def test_finished_ranges_are_not_written_again_after_a_kill(
    dsn: str, database: Database, campaign: Campaign, tmp_path: Path
) -> None:
    to = tmp_path / "a"
    assert archiver("archive", dsn, "/c", to, 3, 60).returncode == -signal.SIGKILL
    before = {path: path.stat().st_ino for path in to.glob("c000001/tasks-*.parquet")}
    assert before
    steps = (to / "unfinished.jsonl").read_text().count("tasks-")
    archived(database, to)
    kept = [path for path, inode in before.items() if path.stat().st_ino == inode]
    assert len(kept) >= steps > 0
    assert campaign.status().total == 14


@pytest.mark.thorough
def test_campaign_that_was_resumed_in_between_is_archived_elsewhere(
    dsn: str, database: Database, campaign: Campaign, tmp_path: Path
) -> None:
    """The command from before may still run, and would write among the new files."""
    to = tmp_path / "a"
    assert archiver("archive", dsn, "/c", to, 3, 25).returncode == -signal.SIGKILL
    campaign.resume()
    campaign.seed([Seed({}, "later")])
    campaign.cancel()
    campaign.resume()
    with pytest.raises(Conflict, match=r"unfinished archive .* name another place"):
        archived(database, to)
    assert archived(database, tmp_path / "b").manifest.tasks == 15


def test_second_command_on_the_same_folder_is_refused(
    database: Database, campaign: Campaign, tmp_path: Path
) -> None:
    """While the first one writes; the archive of the first is whole."""
    refused: list[str] = []

    def meanwhile(*_: object) -> None:
        with pytest.raises(Conflict, match="another command writes an archive to"):
            archived(database, tmp_path / "a", "/c/below")
        refused.append("refused")

    archive(database, open_blobs(database), "/c", tmp_path / "a", meanwhile, range_tasks=3)
    assert refused
    assert campaign.status().state == "archived"


@pytest.mark.thorough
def test_memory_of_an_archive_does_not_grow_with_its_tasks(
    dsn: str, queue: Client, tmp_path: Path
) -> None:
    """180 MB of payloads pass through; less than half as much stays in memory at a time."""
    campaign = queue.create_campaign(CampaignSpec("/c", handler=TRUE))
    campaign.seed(Seed({"text": f"{n:06}" * 5_000}, str(n)) for n in range(6_000))
    campaign.cancel()
    campaign.resume()
    made = archiver("archive", dsn, "/c", tmp_path / "a", 50_000, 0)
    assert made.returncode == 0, made.stderr
    assert int(made.stdout) < 90_000_000
