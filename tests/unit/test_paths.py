"""Paths in folders that one may not enter: an error that names them, not a traceback."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from taskq.files.destination import new_folder, opened
from taskq.files.folder_store import FolderBlobs
from taskq.ingest.campaign_file import read_campaign_file
from taskq.ingest.sources import open_source
from taskq.model.errors import TaskqError
from taskq_agent import arguments, paths

NOBODY = 65_534
ENDS_WELL, ENDS_OTHERWISE = 0, 1


@pytest.fixture
def hidden() -> Iterator[Path]:
    """Give a file in a folder that nobody may enter, where all may enter those above."""
    # Each pytest that starts closes the folder of all temporary folders to other users.
    with tempfile.TemporaryDirectory(prefix="taskq-hidden-") as above:
        Path(above).chmod(0o711)
        folder = Path(above, "closed")
        folder.mkdir()
        (folder / "file").touch()
        folder.chmod(0)
        yield folder / "file"
        folder.chmod(0o700)


def ends_well(function: Callable[[], object]) -> bool:
    """Return whether a function ends without an error, in a process without root's rights."""
    process = os.fork()
    if process == 0:
        code = ENDS_OTHERWISE
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            function()
            code = ENDS_WELL
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == ENDS_WELL


def refused(function: Callable[[], object]) -> Callable[[], None]:
    """Return a function that expects an error for people."""

    def checked() -> None:
        with pytest.raises((TaskqError, argparse.ArgumentTypeError)):
            function()

    return checked


def write_into(path: Path) -> None:
    with opened(path) as stream:
        stream.write(b"x")


def fill(path: Path) -> None:
    with new_folder(path):
        pass


def read(path: Path) -> None:
    with open_source(path, format="smi") as source:
        list(source)


def test_path_without_access_counts_as_absent(hidden: Path) -> None:
    assert ends_well(hidden.parent.lstat)
    assert not ends_well(hidden.lstat), "the folder is closed"
    looks = (paths.exists, paths.is_file, paths.is_dir, paths.is_link)
    assert ends_well(lambda: [look(hidden) for look in looks])


@pytest.mark.parametrize(
    "use",
    [
        write_into,
        fill,
        read,
        read_campaign_file,
        lambda path: FolderBlobs(path.parents[1] / "store").put(path),
        lambda path: arguments.named_file(f"{path}"),
        lambda path: arguments.existing_folder(f"{path}"),
    ],
)
def test_use_of_a_hidden_path_is_refused(hidden: Path, use: Callable[[Path], object]) -> None:
    """By an error for people."""
    assert ends_well(refused(lambda: use(hidden)))
    assert ends_well(refused(lambda: use(hidden.parent / "new")))


def test_folder_that_may_not_be_read_is_not_empty(tmp_path: Path, hidden: Path) -> None:
    """So nothing is put in its place."""
    assert ends_well(refused(lambda: fill(hidden.parent)))
    assert tmp_path.is_dir()
