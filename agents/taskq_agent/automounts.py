"""Folders of a node below which something is mounted when somebody looks there, such as /cvmfs.

The mount comes when a program uses it, which may be in a container, and goes when it is idle. A
container with a private copy of the folder never sees it; the program gets "Too many levels of
symbolic links". So such a folder is bound in a way that later mounts of the node reach it, unless
the node keeps its mounts to itself: then docker would refuse to begin.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import List, NamedTuple, Sequence

_TABLE = Path("/proc/self/mountinfo")
#: Of a line: where it is mounted, what it shares with others, and its type.
_LINE = re.compile(r"\S+ \S+ \S+ \S+ (\S+) \S+((?: [a-z_]+(?::\S+)?)*) - (\S+) ")
_ESCAPED = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """point: where it is. is_received: whether what is mounted below it can reach a copy of it."""

    point: str
    is_received: bool
    is_automount: bool


def mounts_of(table: str) -> List[Mount]:
    """Return the mounts in a table of the kernel, in its order."""
    return [
        Mount(
            _ESCAPED.sub(lambda code: chr(int(code[1], 8)), found[1]),
            re.search(r" (shared|master):", found[2]) is not None,
            found[3] == "autofs",
        )
        for found in map(_LINE.match, table.splitlines())
        if found is not None
    ]


def mounts() -> List[Mount]:
    """Return the mounts of this process; none where the kernel does not say."""
    with suppress(OSError):
        return mounts_of(_TABLE.read_text(encoding="utf-8", errors="surrogateescape"))
    return []


def receives(path: str, there: Sequence[Mount]) -> bool:
    """Return whether a container that has a folder must, and can, see what is mounted there later.

    path: absolute, without links.
    """
    holding = [mount for mount in there if _is_within(path, mount.point)]
    # Of several at one point the last hides the others.
    if not holding or not max(reversed(holding), key=lambda mount: len(mount.point)).is_received:
        return False
    return any(mount.is_automount and _is_within(mount.point, path) for mount in there)


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
