"""Archives of a task's files: what goes in comes out, and nothing else can be planted."""

from __future__ import annotations

import io
import itertools
import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskq_agent.archive import (
    CHECKPOINT,
    MAX_ENTRIES,
    ArchiveRefused,
    ArchiveUnreadable,
    heading,
    packed,
    restore,
    signature,
)
from tests.helpers.open_files import room_for

MOST = 1_000_000
HEAD = heading(CHECKPOINT, 1, 2)
OTHER = heading(CHECKPOINT, 1, 3)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Give a folder with some files."""
    folder = tmp_path / "source"
    (folder / "deep" / "deeper").mkdir(parents=True)
    (folder / "state.json").write_text("{}")
    (folder / "deep" / "deeper" / "ä.bin").write_bytes(bytes(range(256)))
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Give an empty folder."""
    folder = tmp_path / "target"
    folder.mkdir()
    return folder


def files(folder: Path) -> dict[str, bytes]:
    """Return what is in a folder."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def planted(*members: tarfile.TarInfo, content: bytes = b"") -> bytes:
    """Return an archive of task 1/2 with these members."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for member in members:
            member.size = len(content) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(content) if member.isreg() else None)
    return HEAD + out.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    """Return a member of an archive."""
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, link, 0o4777
    return made


def test_files_come_back_as_they_were(source: Path, target: Path) -> None:
    """With folders, names and what may be executed."""
    data = packed(str(source), HEAD, MOST)
    assert data is not None
    restore(data, str(target), HEAD, MOST)
    assert files(target) == files(source)
    assert os.access(target / "run.sh", os.X_OK)
    assert not os.access(target / "state.json", os.X_OK)


def test_restored_files_make_the_same_archive(source: Path, target: Path) -> None:
    """Whenever and wherever: so an attempt that has changed nothing is known."""
    data = packed(str(source), HEAD, MOST)
    assert data is not None
    restore(data, str(target), HEAD, MOST)
    os.utime(target / "state.json", (1, 1))
    assert packed(str(target), HEAD, MOST) == data
    assert packed(str(target), OTHER, MOST) != data


def test_signature_shows_a_change_without_reading_the_file(source: Path) -> None:
    """A file that was written anew, also of the same length."""
    before = signature(str(source))
    assert signature(str(source)) == before
    (source / "new").write_text("[]")
    (source / "new").replace(source / "state.json")
    assert signature(str(source)) != before


def test_only_files_with_names_that_count_are_kept(source: Path) -> None:
    """No links, pipes, nor what is not finished yet."""
    (source / "link").symlink_to("/etc/passwd")
    (source / "folder").symlink_to("/etc")
    os.mkfifo(source / "pipe")
    before = packed(str(source), HEAD, MOST)
    (source / ".unfinished").write_text("x")
    assert packed(str(source), HEAD, MOST) == before
    assert before is not None
    assert b"passwd" not in before


@pytest.mark.parametrize("listed", [1, 2, 3])
@pytest.mark.parametrize("swapped", ["deep", "deep/deeper"])
def test_link_that_comes_during_the_look_is_not_followed(
    listed: int, swapped: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever folder was listed when another one became a link."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "deeper").mkdir(parents=True)
    for folder in (elsewhere, elsewhere / "deeper"):
        (folder / "ä.bin").write_text("secret")
    scandir, times = os.scandir, itertools.count(1)

    @contextmanager
    def scandir_and_swap(folder: int) -> Iterator[list[os.DirEntry[str]]]:
        with scandir(folder) as found:
            entries = list(found)
        if next(times) == listed:
            (source / swapped).rename(tmp_path / "former")
            (source / swapped).symlink_to(elsewhere)
        yield entries

    monkeypatch.setattr(os, "scandir", scandir_and_swap)
    data = packed(str(source), HEAD, MOST)
    assert next(times) > listed or swapped == "deep"
    assert data is not None
    assert b"secret" not in data
    assert b"state.json" in data


@pytest.mark.parametrize("above", [False, True])
def test_link_in_place_of_the_folder_is_not_followed(
    above: bool, source: Path, target: Path
) -> None:
    """Nor of the one that it is in: a payload may have put it there."""
    data = packed(str(source), HEAD, MOST)
    assert data is not None
    link = target / "link"
    link.symlink_to(source.parent if above else source)
    folder = f"{link}/source" if above else str(link)
    for act in (
        lambda: packed(folder, HEAD, MOST),
        lambda: signature(folder),
        lambda: restore(data.replace(b"run.sh", b"new.sh"), folder, HEAD, MOST),
    ):
        with pytest.raises(ArchiveRefused, match="is no folder, but a file or a link"):
            act()
    assert "new.sh" not in files(source)


def test_folder_without_a_file_is_no_checkpoint(target: Path) -> None:
    """It replaces none that the task has."""
    assert packed(str(target), HEAD, MOST) is None
    assert packed(str(target / "gone"), HEAD, MOST) is None


def test_file_that_may_not_be_read_is_not_left_out() -> None:
    """An archive without it would look complete. Not even root may read what sysctl only takes."""
    with pytest.raises(ArchiveRefused, match="Permission denied") as refusal:
        packed("/proc/sys/vm", HEAD, MOST)
    assert not isinstance(refusal.value, ArchiveUnreadable)


def test_shortage_of_open_files_is_not_reported_as_a_bad_folder(source: Path) -> None:
    """The node may have some again."""
    with room_for(0), pytest.raises(ArchiveUnreadable, match="Too many open files"):
        packed(str(source), HEAD, MOST)


def test_content_that_is_too_large_is_refused(target: Path) -> None:
    """Bytes, files, and depth."""
    (target / "large").write_bytes(b"x" * 30_000)
    with pytest.raises(ArchiveRefused, match="larger than"):
        packed(str(target), HEAD, 20_000)
    (target / "large").unlink()
    for number in range(MAX_ENTRIES + 1):
        (target / str(number)).touch()
    with pytest.raises(ArchiveRefused, match="more than 1000 files"):
        packed(str(target), HEAD, MOST)


@pytest.mark.parametrize(
    "bad",
    [
        planted(member("/etc/evil"), content=b"x"),
        planted(member("../evil"), content=b"x"),
        planted(member("a/../../evil"), content=b"x"),
        planted(member("link", tarfile.SYMTYPE, "/etc")),
        planted(member("link", tarfile.SYMTYPE, ".."), member("link/evil"), content=b"x"),
        planted(member("a"), member("hard", tarfile.LNKTYPE, "a")),
        planted(member("pipe", tarfile.FIFOTYPE)),
        planted(member("disk", tarfile.BLKTYPE)),
        planted(member("tty", tarfile.CHRTYPE)),
        planted(member("twice"), member("twice"), content=b"x"),
        planted(member("file"), member("file/below"), content=b"x"),
        planted(member("x" * 300), content=b"x"),
        planted(member("large"), content=b"x" * (MOST + 1)),
        planted(*(member(f"f{number}") for number in range(MAX_ENTRIES + 1))),
        planted(member("a"), content=b"x" * 5_000)[:2_000],
        OTHER + planted(member("a"), content=b"x")[len(HEAD) :],
        HEAD + b"\0" * 10,
        b"",
    ],
)
def test_planted_archive_writes_nothing_elsewhere(bad: bytes, target: Path) -> None:
    """It is refused, and whatever it has written lies below the folder, as files of the owner."""
    with pytest.raises(ArchiveRefused):
        restore(bad, str(target), HEAD, MOST)
    assert [path.name for path in target.parent.iterdir()] == ["target"]
    for path in target.rglob("*"):
        assert not path.is_symlink()
        assert path.is_dir() or path.is_file()


def test_special_bits_are_dropped(target: Path) -> None:
    """What was setuid, or writable for all, is the owner's."""
    restore(planted(member("a"), content=b"x"), str(target), HEAD, MOST)
    assert (target / "a").stat().st_mode & 0o7777 == 0o700


def test_file_that_claims_to_be_huge_is_refused(target: Path) -> None:
    """A sparse file would be a few bytes in the archive and fill the disk."""
    made = member("huge", tarfile.GNUTYPE_SPARSE)
    header = bytearray(made.tobuf(tarfile.GNU_FORMAT))
    header[483:495] = b"77777777777\0"
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    with pytest.raises(ArchiveRefused):
        restore(HEAD + bytes(header) + b"\0" * 1024, str(target), HEAD, MOST)


@pytest.mark.thorough
@given(places=st.lists(st.integers(0, 10**6), min_size=1, max_size=4), values=st.binary(min_size=4))
@settings(max_examples=200)
def test_damaged_archive_is_refused_or_read(places: list[int], values: bytes) -> None:
    """Whatever bytes have changed: no other exception, nothing outside."""
    good = bytearray(planted(member("a/b"), member("c"), content=b"text"))
    start = len(HEAD)
    for place, value in zip(places, values, strict=False):
        good[start + place % (len(good) - start)] = value
    with tempfile.TemporaryDirectory() as above:
        folder = Path(above, "target")
        folder.mkdir()
        with suppress(ArchiveRefused):
            restore(bytes(good), str(folder), HEAD, MOST)
        assert [path.name for path in Path(above).iterdir()] == ["target"]
