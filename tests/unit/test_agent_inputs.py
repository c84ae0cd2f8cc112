"""The cache of inputs on a node: fetched once, verified, resumed, bounded, guarded."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from taskq_agent.errors import Refused, TransportFailed
from taskq_agent.inputs import InputCache, default_cache
from taskq_agent.protocol import Input
from tests.helpers.blob_server import BlobSource
from tests.helpers.meanwhile import meanwhile
from tests.helpers.paths import ROOT
from tests.helpers.waiting import wait_until

SIZE = 345_678


class Stopped(Exception):
    """The attempt that waits has been stopped."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give the path of a cache that is not there yet."""
    return tmp_path / "cache"


def pause(seconds: float) -> None:
    time.sleep(seconds)


def fetched(cache: InputCache, wanted: Input) -> Path:
    """Fetch an input and let go of it again."""
    path, held = cache.hold(wanted, pause)
    os.close(held)
    return path


@contextmanager
def fetching(
    source: BlobSource, folder: Path, wanted: Input, *more: str
) -> Iterator[subprocess.Popen[str]]:
    """Run a process that fetches an input, and writes the digest of what it got."""
    words = [source.folder, folder, wanted.digest, wanted.size, *more]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.helpers.blob_server", *map(str, words)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_input_is_fetched_once_and_is_read_only(source: BlobSource, folder: Path) -> None:
    """Verified, with its final name, for its owner only."""
    data = secrets.token_bytes(SIZE)
    wanted = source.add(data)
    for _ in range(3):
        path = fetched(InputCache(folder, source), wanted)
        assert path.read_bytes() == data
    assert source.moved() == SIZE
    assert stat.S_IMODE(path.stat().st_mode) == 0o400
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [entry.name for entry in folder.iterdir()] == [wanted.digest]


def test_empty_input_is_no_special_case(source: BlobSource, folder: Path) -> None:
    """There are empty files."""
    assert fetched(InputCache(folder, source), source.add(b"")).read_bytes() == b""


@pytest.mark.thorough
def test_processes_that_want_the_same_fetch_it_once(source: BlobSource, folder: Path) -> None:
    """The others wait for the one that was first."""
    wanted = source.add(secrets.token_bytes(3_000_000))
    with (
        fetching(source, folder, wanted) as a,
        fetching(source, folder, wanted) as b,
        fetching(source, folder, wanted) as c,
    ):
        for process in (a, b, c):
            assert process.communicate(timeout=30)[0] == wanted.digest
    assert source.moved() == wanted.size


def test_threads_that_want_the_same_fetch_it_once(source: BlobSource, folder: Path) -> None:
    """The slots of one agent."""
    wanted = source.add(secrets.token_bytes(SIZE))
    cache = InputCache(folder, source)
    with meanwhile(*[lambda _: fetched(cache, wanted)] * 6):
        pass
    assert source.moved() == SIZE


def test_broken_transfer_is_resumed(source: BlobSource, folder: Path) -> None:
    """No byte comes twice, and the whole is verified."""
    data = secrets.token_bytes(SIZE)
    wanted = source.add(data)
    cache = InputCache(folder, source)
    for source.break_at in (100_000, 200_000, 200_000):
        with pytest.raises(TransportFailed):
            fetched(cache, wanted)
    source.break_at = None
    assert fetched(cache, wanted).read_bytes() == data
    assert source.moved() == SIZE


def test_killed_process_leaves_what_it_had_to_the_next(source: BlobSource, folder: Path) -> None:
    """Its lock goes with it; the partial file stays."""
    wanted = source.add(secrets.token_bytes(SIZE))
    with fetching(source, folder, wanted, "150000") as process:
        wait_until(lambda: source.moved() == 150_000)
        process.kill()
    assert fetched(InputCache(folder, source), wanted).stat().st_size == SIZE
    assert source.moved() == SIZE


@pytest.mark.thorough
def test_fetch_that_waits_for_another_agent_can_be_stopped(
    source: BlobSource, folder: Path
) -> None:
    """The other agent may hang."""
    wanted = source.add(secrets.token_bytes(SIZE))

    def stopped(_: float) -> None:
        raise Stopped

    with fetching(source, folder, wanted, "0"):
        wait_until((folder / f"{wanted.digest}.part").exists)
        with pytest.raises(Stopped):
            InputCache(folder, source).hold(wanted, stopped)


def test_fetching_can_be_stopped_and_resumed(source: BlobSource, folder: Path) -> None:
    """Between two chunks, whatever the size."""
    wanted = source.add(secrets.token_bytes(SIZE))

    def stopped(_: float) -> None:
        if source.moved() >= 100_000:
            raise Stopped

    with pytest.raises(Stopped):
        InputCache(folder, source).hold(wanted, stopped)
    fetched(InputCache(folder, source), wanted)
    assert source.moved() == SIZE


@pytest.mark.parametrize("wrong", [b"", b"x", b"x" * SIZE, b"x" * (SIZE + 1)])
def test_damaged_partial_file_is_fetched_anew(
    source: BlobSource, folder: Path, wrong: bytes
) -> None:
    """Never is anything used that has another digest."""
    data = b"y" + secrets.token_bytes(SIZE - 1)
    wanted = source.add(data)
    folder.mkdir(0o700)
    partial = folder / f"{wanted.digest}.part"
    partial.write_bytes(wrong)
    cache = InputCache(folder, source)
    if wrong:
        with pytest.raises(TransportFailed, match="fetching it again"):
            fetched(cache, wanted)
    assert fetched(cache, wanted).read_bytes() == data


def test_store_that_gives_something_else_is_not_believed(source: BlobSource, folder: Path) -> None:
    """Neither another content nor another length."""
    wanted = source.add(secrets.token_bytes(SIZE))
    stored = next((source.folder / "store").glob("??/*"))
    for wrong in (b"x" * SIZE, b"x" * (SIZE + 9), b"x" * (SIZE - 9)):
        stored.write_bytes(wrong)
        with pytest.raises(TransportFailed if len(wrong) < SIZE else Refused):
            fetched(InputCache(folder, source), wanted)
        assert not (folder / wanted.digest).exists()


def test_cached_file_of_the_wrong_size_is_fetched_again(source: BlobSource, folder: Path) -> None:
    """As a full disk or a careless hand leaves it."""
    data = secrets.token_bytes(SIZE)
    wanted = source.add(data)
    path = fetched(InputCache(folder, source), wanted)
    path.chmod(0o600)
    path.write_bytes(data[:99])
    assert fetched(InputCache(folder, source), wanted).read_bytes() == data


def test_file_of_the_wrong_size_is_replaced_while_others_use_it(
    source: BlobSource, folder: Path
) -> None:
    """They may do so for hours, which nobody waits for; they keep what they have."""
    data = secrets.token_bytes(SIZE)
    wanted = source.add(data)
    cache = InputCache(folder, source)
    path, held = cache.hold(wanted, pause)
    path.chmod(0o600)
    os.truncate(path, 99)

    def no_pause(seconds: float) -> None:
        if seconds:
            raise Stopped

    again, held_anew = cache.hold(wanted, no_pause)
    assert again.read_bytes() == data
    assert os.fstat(held).st_size == 99
    for file in (held, held_anew):
        os.close(file)


def test_cache_is_bounded_on_nfs(
    source: BlobSource, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There an exclusive lock needs a file open for writing, and a shared one one for reading."""
    flock = fcntl.flock

    def flock_of_nfs(file: int, operation: int) -> None:
        access = fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE
        needed = os.O_WRONLY if operation & fcntl.LOCK_EX else os.O_RDONLY
        if access not in (needed, os.O_RDWR):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock_of_nfs)
    cache = InputCache(folder, source, max_bytes=150)
    first, second = (source.add(bytes([n]) * 100) for n in range(2))
    path, held = cache.hold(first, pause)
    fetched(cache, second)
    assert path.exists(), "it is in use"
    assert stat.S_IMODE(path.stat().st_mode) == 0o400
    os.close(held)
    (folder / second.digest).unlink()
    fetched(cache, second)
    assert not path.exists()


@pytest.mark.parametrize("lacking", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_file_system_without_locks_is_named_with_the_option_for_another(
    source: BlobSource, folder: Path, monkeypatch: pytest.MonkeyPatch, lacking: int
) -> None:
    """As some network file systems; "Function not implemented" says nothing."""

    def flock(_: int, __: int) -> None:
        raise OSError(lacking, os.strerror(lacking))

    monkeypatch.setattr(fcntl, "flock", flock)
    said = "the file system has no locks .*; give --cache a folder on a local disk"
    with pytest.raises(OSError, match=said) as caught:
        InputCache(folder, source).hold(source.add(b"x"), pause)
    assert caught.value.errno == lacking


def test_cache_is_bounded_and_what_is_in_use_stays(source: BlobSource, folder: Path) -> None:
    """The one that was not used for longest goes first."""
    cache = InputCache(folder, source, max_bytes=350)
    first, second, third, fourth = (source.add(bytes([n]) * 100) for n in range(4))
    path, held = cache.hold(first, pause)
    for age, wanted in ((30, second), (20, third)):
        old = fetched(cache, wanted)
        os.utime(old, (time.time() - age, time.time() - age))
    fetched(cache, fourth)
    assert {entry.name for entry in folder.iterdir()} == {
        *(first.digest, third.digest, fourth.digest)
    }
    os.utime(path, (1, 1))
    fetched(cache, second)
    assert path.exists(), "it is in use"
    assert not (folder / third.digest).exists()
    os.close(held)
    fetched(cache, third)
    assert not path.exists()


def test_use_counts_as_use(source: BlobSource, folder: Path) -> None:
    """What is needed every day is not removed for having been fetched long ago."""
    cache = InputCache(folder, source, max_bytes=250)
    first, second, third = (source.add(bytes([n]) * 100) for n in range(3))
    for age, wanted in ((30, first), (20, second)):
        os.utime(fetched(cache, wanted), (time.time() - age, time.time() - age))
    fetched(cache, first)
    fetched(cache, third)
    assert {entry.name for entry in folder.iterdir()} == {first.digest, third.digest}


def test_folder_of_others_is_not_used(source: BlobSource, folder: Path, tmp_path: Path) -> None:
    """In a shared folder for temporary files, anybody can make it first."""
    wanted = source.add(b"data")
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotADirectoryError):
        fetched(InputCache(folder, source), wanted)
    folder.unlink()
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(PermissionError, match="cannot be trusted"):
        fetched(InputCache(folder, source), wanted)
    folder.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(folder, 65_534, 65_534)
        with pytest.raises(PermissionError, match="cannot be trusted"):
            fetched(InputCache(folder, source), wanted)


@pytest.mark.parametrize("suffix", ["", ".part"])
def test_symbolic_link_is_not_followed(
    source: BlobSource, folder: Path, tmp_path: Path, suffix: str
) -> None:
    """Nothing is read from, or written to, what it points at."""
    wanted = source.add(b"data")
    victim = tmp_path / "victim"
    victim.write_bytes(b"evil")
    folder.mkdir(0o700)
    (folder / f"{wanted.digest}{suffix}").symlink_to(victim)
    assert fetched(InputCache(folder, source), wanted).read_bytes() == b"data"
    assert victim.read_bytes() == b"evil"


def test_malformed_digest_is_refused(source: BlobSource, folder: Path) -> None:
    """It would become the name of a file."""
    with pytest.raises(Refused):
        InputCache(folder, source).hold(Input("../../etc/passwd", 1), pause)
    with pytest.raises(Refused):
        InputCache(folder, source).hold(Input("0" * 64, 1), pause)


def test_default_folder_is_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By XDG_CACHE_HOME, else among temporary files."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / f"taskq-inputs-{os.geteuid()}"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("tempfile.tempdir", "/somewhere")
    assert default_cache() == Path(f"/somewhere/taskq-inputs-{os.geteuid()}")
