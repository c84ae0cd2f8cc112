"""Folders that a payload may have replaced, opened without following any link.

A payload in a container may write to the folder of its slot and sees nothing else of the node. The
agent sees everything: a link that the payload puts in place of a folder would lead it astray.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import Iterable, Iterator

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_LINK = _FOLDER | os.O_NOFOLLOW


@contextmanager
def opened(folder: str) -> Iterator[int]:
    """Give a descriptor of a folder; neither it nor its parent may be a link.

    Everything above is the slot's, and no payload can replace it. Raises OSError.
    """
    above, name = os.path.split(folder)
    root, parent = os.path.split(above)
    base = os.open(root or ".", _FOLDER)
    try:
        with opened_below(base, [part for part in (parent, name) if part]) as fd:
            yield fd
    finally:
        os.close(base)


@contextmanager
def opened_below(top: int, parts: Iterable[str]) -> Iterator[int]:
    """Give a descriptor of a folder by its path below an open one; no part may be a link.

    Raises OSError.
    """
    fd = os.dup(top)
    try:
        for part in parts:
            above = fd
            try:
                fd = os.open(part, _NO_LINK, dir_fd=above)
            except NotADirectoryError:
                text = "is no folder, but a file or a link"
                raise NotADirectoryError(errno.ENOTDIR, text, part) from None
            finally:
                if fd != above:
                    os.close(above)
        yield fd
    finally:
        os.close(fd)
