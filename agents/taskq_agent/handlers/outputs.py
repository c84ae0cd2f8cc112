"""Output files: the files that a successful attempt leaves in a folder, stored with its result.

The folder is `OUTPUT_FOLDER` in the scratch folder of the task. Its files form one archive, which
is uploaded before the attempt is reported: an accepted result has its files.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Optional

from taskq_agent import archive
from taskq_agent.archive import ArchiveRefused, ArchiveUnreadable
from taskq_agent.handlers.base import Ended, failed
from taskq_agent.handlers.environment import OUTPUT_FOLDER
from taskq_agent.protocol import DONE, Task
from taskq_agent.transport import MAX_BLOB_BYTES


def begin(scratch: str) -> None:
    """Make the folder; OSError if that fails."""
    Path(scratch, OUTPUT_FOLDER).mkdir(0o700)


def packed(ended: Ended, scratch: str, task: Task, most: int) -> Ended:
    """Return the end of an attempt with its output files, or a failure if they are refused."""
    if ended.outcome != DONE:
        return ended
    folder = f"{scratch}/{OUTPUT_FOLDER}"
    head = archive.heading(archive.OUTPUT, task.campaign, task.task)
    try:
        for name, *_ in archive.signature(folder):
            check_name(name)
        data: Optional[bytes] = archive.packed(folder, head, min(most, MAX_BLOB_BYTES))
    except ArchiveRefused as error:
        retry = isinstance(error, ArchiveUnreadable)
        over = failed("output-refused", f"the output files are not kept: {error}", retry=retry)
        return replace(over, phases=ended.phases, tail=ended.tail)
    return replace(ended, output=data)


def check_name(name: str) -> None:
    """Raise `ArchiveRefused` if a name has characters that no terminal should show."""
    if not name.isprintable():
        raise ArchiveRefused(f"it holds the name {name!a:.100}")
