"""A queue whose disk is full loses nothing, and something can be removed from it."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskq.embedded import Server, reserve
from taskq.embedded.settings import log_mib
from tests.helpers.command_line import CommandLine
from tests.helpers.waiting import wait_until
from tests.integration.embedded.support import root_only

GB = 10**9


@pytest.fixture
def small_disk(place: Path) -> Iterator[Path]:
    """Give a folder on a disk of its own, of 320 MiB, which everybody may write."""
    disk = place / "disk"
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=320m,mode=1777", "tmpfs", disk]
    subprocess.run(words, check=True)
    try:
        yield disk
        Server(disk / "queue").down(immediate=True)
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def fill(file: Path) -> None:
    """Let a file grow until its disk is full."""
    with file.open("wb", buffering=0) as grown:
        try:
            while grown.write(bytes(1 << 16)):
                pass
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017


@root_only
@pytest.mark.thorough
def test_campaign_can_be_removed_from_a_full_disk(small_disk: Path) -> None:
    """The seeds that filled it name what helps; that works, also if the server has broken down."""
    home, filler = small_disk / "queue", small_disk / "filler"
    taskq = CommandLine("", address={"TASKQ_HOME": str(home)})
    taskq.out("campaign", "create", "/old", "--", "true")
    taskq.out("seed", "/old", "--sweep", "n=1:1000")
    kept = home / "reserve"
    assert kept.stat().st_size == 96 * reserve.MIB
    fill(filler)
    refused = taskq("seed", "/old", "--sweep", "n=1001:200000")
    assert refused.exit_code == os.EX_UNAVAILABLE
    assert "make room on its disk, such as by `taskq campaign rm`" in refused.stderr
    removed = taskq("campaign", "rm", "/old", "--yes")
    assert removed.exit_code == 0, removed.stderr
    assert "the disk of the queue is full: the 101 MB that were kept for this" in removed.stderr
    assert not kept.exists()
    filler.unlink()
    taskq.out("status", "/")
    assert kept.exists()


def grow(file: Path, leave: int) -> None:
    """Let a file grow until so many bytes of its disk are free."""
    disk = os.statvfs(file.parent)
    with file.open("ab") as grown:
        os.posix_fallocate(grown.fileno(), 0, disk.f_bavail * disk.f_frsize - leave)


@pytest.mark.thorough
@root_only
def test_seeds_are_refused_before_the_disk_is_full(small_disk: Path) -> None:
    """Agents do what was seeded, `explain` names the disk, and removing makes room again."""
    home, filler = small_disk / "queue", small_disk / "filler"
    taskq = CommandLine("", address={"TASKQ_HOME": str(home)})
    taskq.out("campaign", "create", "/old", "--", "true")
    taskq.out("seed", "/old", "--sweep", "n=1:3")
    grow(filler, 40 * reserve.MIB)
    wait_until(lambda: "server-disk" in taskq.out("explain", "/", "--output", "json"))
    refused = taskq("seed", "/old", "--sweep", "n=4:9")
    assert refused.exit_code == os.EX_UNAVAILABLE
    assert "are kept for reports and for removing: seeds are refused; make room" in refused.stderr
    assert (home / "reserve").exists(), "nothing was given up for that"
    taskq.out("agent", "run", "--campaign", "/old", "--until-empty")
    assert "100.0 % of 3 tasks" in taskq.out("status", "/old")
    filler.unlink()
    wait_until(lambda: taskq("seed", "/old", "--sweep", "n=4:9").exit_code == 0)


def test_reserve_stays_while_there_is_room(place: Path) -> None:
    """Nothing gives it up before the disk is full."""
    file = place / "reserve"
    reserve.keep(file)
    before = file.stat()
    assert before.st_blocks * 512 >= before.st_size > 0
    reserve.keep(file)
    assert reserve.give_up(file) == 0
    assert file.stat() == before


@pytest.mark.parametrize(
    ("disk", "expected_mib"), [(GB // 3, 64), (GB, 95), (20 * GB, 1907), (1000 * GB, 4096)]
)
def test_log_is_bounded_by_the_disk(disk: int, expected_mib: int) -> None:
    """A tenth of it, between 64 MiB and 4 GiB."""
    assert log_mib(disk) == expected_mib
