"""Looks at paths that never raise: what may not be looked at counts as not there.

`Path.exists` and its like raise `PermissionError` for a path in a folder that one may not enter,
before Python 3.14. Opening such a file says what is wrong with it.
"""

from __future__ import annotations

import os
from typing import Union

AnyPath = Union[str, "os.PathLike[str]"]


def exists(path: AnyPath) -> bool:
    """Return whether something has this path."""
    return os.path.exists(path)  # noqa: PTH110


def is_file(path: AnyPath) -> bool:
    """Return whether it is a regular file."""
    return os.path.isfile(path)  # noqa: PTH113


def is_dir(path: AnyPath) -> bool:
    """Return whether it is a folder."""
    return os.path.isdir(path)  # noqa: PTH112


def is_link(path: AnyPath) -> bool:
    """Return whether it is a symbolic link."""
    return os.path.islink(path)  # noqa: PTH114
