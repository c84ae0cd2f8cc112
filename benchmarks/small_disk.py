"""Disk of a bounded size, for the duration of a block."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from taskq.model.errors import Unavailable


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A folder that may hold so many bytes.

    mounted: whether it is a file system of that size; otherwise `check` has to be called.
    """

    folder: Path
    size: int
    mounted: bool

    def used(self) -> int:
        """Return the bytes that are in use."""
        if self.mounted:
            disk = os.statvfs(self.folder)
            return (disk.f_blocks - disk.f_bfree) * disk.f_frsize
        return _stored(self.folder)

    def check(self) -> None:
        """Raise `Unavailable` if more is in use than the disk may hold."""
        if (used := self.used()) > self.size:
            raise Unavailable(
                f"{used:,} bytes are in use on a disk that may hold {self.size:,}: its size matters"
            )


@contextmanager
def small_disk(size: int) -> Iterator[SmallDisk]:
    """Make a file system in a file, or a mere folder where none can be mounted.

    It is removed afterwards with all that it holds.
    """
    place = Path(tempfile.mkdtemp(prefix="taskq-disk-"))
    place.chmod(0o755)  # root's server runs as another user, who must get there
    folder = place / "disk"
    folder.mkdir()
    mounted = os.geteuid() == 0 and _mount(place / "image", size, folder)
    try:
        yield SmallDisk(folder, size, mounted)
    finally:
        if mounted:
            subprocess.run(["umount", folder], check=True)
        shutil.rmtree(place)


def _mount(image: Path, size: int, folder: Path) -> bool:
    """Make a file system of a size in a sparse file; return whether it could be mounted."""
    image.touch()
    os.truncate(image, size)
    try:
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True, capture_output=True)
        subprocess.run(
            ["mount", "-o", "loop", str(image), str(folder)], check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError):
        image.unlink()
        return False
    return True


def _stored(folder: Path) -> int:
    """Return the bytes of the files in a folder; some may go meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512  # noqa: PTH118
    return total
