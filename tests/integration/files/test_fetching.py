"""Fetching of output files: each at its place, whole, and nothing anywhere else."""

from __future__ import annotations

import resource
import tarfile
from pathlib import Path

import pytest

from taskq import Campaign, CampaignSpec, Client, Seed
from taskq.files.fetching import Fetched, folder_name
from taskq.model.errors import NotFound, ResultLost, UsageError
from taskq_agent.archive import MAX_ENTRIES
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres
from tests.helpers.task_archives import archive, end, fill

#: Exit code of a wrong call.
REFUSED = 2


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign that keeps output files."""
    return queue.create_campaign(CampaignSpec("/c", output_bytes=1_000_000))


def found(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_files_of_all_results_are_fetched(
    queue: Client, campaign: Campaign, hire: Hire, tmp_path: Path
) -> None:
    """Each task's into a folder of its own, those of campaigns below it below their names."""
    fill(campaign, hire, {"a": {"pose": b"A", "deep/log": b""}, "b": None})
    below = queue.create_campaign(CampaignSpec("/c/d/e", output_bytes=20_000))
    fill(below, hire, {"a": {"pose": b"below"}})
    to = tmp_path / "new" / "poses"
    assert campaign.fetch(to) == Fetched(tasks=2, files=3, bytes=6, empty=1)
    everything = {"a/pose": b"A", "a/deep/log": b"", "d/e/a/pose": b"below"}
    assert found(to) == everything
    assert campaign.files("a") == {"pose": b"A", "deep/log": b""}
    assert campaign.files("b") == {}
    (to / "a" / "pose").write_bytes(b"torn")
    (to / "a" / "mine").touch()
    assert campaign.fetch(to, below=False).tasks == 1
    assert found(to) == {**everything, "a/mine": b""}


def test_only_what_is_asked_for_is_fetched(
    queue: Client, campaign: Campaign, hire: Hire, tmp_path: Path
) -> None:
    """By keys, results or a filter; a task without a result is reported."""
    fill(campaign, hire, {key: {"pose": key.encode()} for key in "abc"})
    assert campaign.fetch(tmp_path / "1", ["c"]).tasks == 1
    assert found(tmp_path / "1") == {"c/pose": b"c"}
    campaign.fetch(tmp_path / "2", queue.best("/c", by="result.score", n=2))
    assert found(tmp_path / "2") == {"a/pose": b"a", "b/pose": b"b"}
    campaign.fetch(tmp_path / "3", where="result.score > 0 and result.score < 2")
    assert found(tmp_path / "3") == {"b/pose": b"b"}
    campaign.seed([Seed({}, "waits")])
    for key, text in (("waits", "has no result"), ("unknown", "no task with the key")):
        with pytest.raises(NotFound, match=text):
            campaign.fetch(tmp_path / "4", [key])


KEYS = (
    "..",
    ".",
    ".hidden",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "x" * 255,
    "é" * 255,
    "ü\u202e",
    "-rf",
    "a b",
    "~",
)


def test_key_of_a_task_is_one_name(campaign: Campaign, hire: Hire, tmp_path: Path) -> None:
    """Whatever is in it; no two are the same."""
    fill(campaign, hire, {key: {"x": key.encode()} for key in KEYS})
    to = tmp_path / "to"
    assert campaign.fetch(to).tasks == len(KEYS)
    assert sorted(found(to).values()) == sorted(key.encode() for key in KEYS)
    assert [path.name for path in tmp_path.iterdir()] == ["to"]
    assert all(path.name.isascii() and path.is_dir() for path in to.iterdir())
    assert folder_name("CCO(=O)[O-]") == "CCO(=O)[O-]"


@pytest.mark.parametrize(
    "name",
    ["../evil", "/etc/evil", "a/../../evil", "a\x1b[2J", "a\nb", "\u202egnp.exe", "x" * 300, ""],
)
def test_planted_names_are_refused_and_listed(
    name: str, campaign: Campaign, hire: Hire, tmp_path: Path
) -> None:
    """Of that task nothing outside its folder is written; the others are fetched."""
    fill(campaign, hire, {"bad": {name: b"x"}, "good": {"pose": b"y"}})
    lost: list[ResultLost] = []
    to = tmp_path / "to"
    fetched = campaign.fetch(to, on_lost=lost.append)
    assert fetched == Fetched(tasks=1, files=1, bytes=1, lost=1)
    assert len(lost) == 1
    assert str(lost[0]).isprintable()
    assert found(tmp_path) == {"to/good/pose": b"y"}
    with pytest.raises(ResultLost):
        campaign.fetch(to)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_planted_members_are_refused(
    kind: bytes, campaign: Campaign, hire: Hire, tmp_path: Path
) -> None:
    """Only files and folders come out."""
    campaign.seed([Seed({}, "bad")])
    agent = hire()
    (task,) = agent.claim(1)
    member = tarfile.TarInfo("link")
    member.type, member.linkname = kind, "/etc/passwd"
    end(agent, task, archive(task, {"a": b"x"}, member), 0)
    assert campaign.fetch(tmp_path / "to", on_lost=lambda _: None).lost == 1
    assert found(tmp_path) == {}


def test_output_files_whose_names_collide_are_reported_as_lost(
    campaign: Campaign, hire: Hire, tmp_path: Path
) -> None:
    """The files of other tasks are fetched all the same."""
    fill(campaign, hire, {"bad": {"x": b"", "x/y": b""}, "good": {"pose": b"y"}})
    fetched = campaign.fetch(tmp_path, on_lost=lambda _: None)
    assert (fetched.lost, fetched.tasks) == (1, 1)
    assert found(tmp_path)["good/pose"] == b"y"


def test_archive_of_too_many_files_is_refused(
    campaign: Campaign, hire: Hire, tmp_path: Path
) -> None:
    """Anyone who has made it."""
    fill(campaign, hire, {"bad": {f"f{n}": b"" for n in range(MAX_ENTRIES + 1)}})
    with pytest.raises(ResultLost, match="exceeds the limits of archives"):
        campaign.fetch(tmp_path / "to")
    assert found(tmp_path) == {}


def test_links_in_the_folder_are_not_followed(
    campaign: Campaign, hire: Hire, tmp_path: Path
) -> None:
    """Neither of a task's folder, nor of a file: that is replaced, and its target stays."""
    fill(campaign, hire, {"a": {"pose": b"new", "deep/x": b"new"}})
    elsewhere, to = tmp_path / "elsewhere", tmp_path / "to"
    elsewhere.mkdir()
    (elsewhere / "pose").write_bytes(b"old")
    (to / "a").mkdir(parents=True)
    (to / "a" / "pose").symlink_to(elsewhere / "pose")
    (to / "a" / "deep").symlink_to(elsewhere)
    with pytest.raises(ResultLost, match=r"a/deep.*cannot be written"):
        campaign.fetch(to)
    (to / "a" / "deep").unlink()
    campaign.fetch(to)
    assert (to / "a" / "pose").read_bytes() == b"new"
    assert not (to / "a" / "pose").is_symlink()
    assert found(elsewhere) == {"pose": b"old"}


def test_file_that_cannot_be_written_leaves_what_was_there(
    campaign: Campaign, hire: Hire, tmp_path: Path
) -> None:
    """It leaves nothing half-written, here for want of disk."""
    fill(campaign, hire, {"a": {"pose": b"new" * 100_000}})
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "pose").write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(UsageError, match="cannot be written: File too large"):
            campaign.fetch(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert found(tmp_path) == {"a/pose": b"old"}


def test_command_fetches_the_best(
    queue: Client, campaign: Campaign, hire: Hire, postgres: Postgres, tmp_path: Path
) -> None:
    """And says what it has done; what is lost, and options that do not go together, are errors."""
    fill(campaign, hire, {key: {"pose": key.encode()} for key in "abc"} | {"d": None})
    taskq, to = CommandLine(queue.database.dsn), tmp_path / "x"
    out = taskq.out("fetch", "/c", "--best", "50%", "--by", "result.score", "--lowest", "--to", to)
    assert out == f"2 files of 2 tasks in {to}, 2 bytes.\n"
    assert found(to) == {"a/pose": b"a", "b/pose": b"b"}
    fetched = taskq.json("fetch", "/c", "c", "d", "--to", tmp_path / "y")
    assert (fetched["tasks"], fetched["files"], fetched["empty"]) == (1, 1, 1)
    for words in (["c", "--where", "result.score > 0"], ["--best", "1"], ["--by", "result.score"]):
        assert taskq.refused("fetch", "/c", *words, "--to", to)[0] == REFUSED
    postgres.execute("update taskq.blob set complete = false")
    ended = taskq("fetch", "/c", "a", "--to", to)
    assert ended.exit_code != 0
    assert "Warning: the files of task 'a': the database has no blob" in ended.stderr
    assert "Error: the files of 1 task could not be read" in ended.stderr
    assert found(to) == {"a/pose": b"a", "b/pose": b"b"}
