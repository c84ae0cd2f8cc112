"""The files of `sql/`, by name, in whatever folder of a room they lie."""

from __future__ import annotations

import importlib.resources
import importlib.util
import sys
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    if sys.version_info >= (3, 11):
        from importlib.resources.abc import Traversable
    else:
        from importlib.abc import Traversable

if importlib.util.find_spec("taskq.sql") is None:  # an installation has it, the source folder not
    raise ImportError(
        "this Python has found the source folder of taskq, which is not a whole package: run your "
        "program in another folder, or install the clone by `pip install --editable .`"
    )


@cache
def files_of(folder: str) -> Mapping[str, Traversable]:
    """Return the files of a folder of `sql`, and of folders in it, by statement, sorted.

    Raise `ImportError` if two have the same name.
    """
    return dict(sorted(_below(importlib.resources.files(f"taskq.sql.{folder}")).items()))


def _below(folder: Traversable) -> dict[str, Traversable]:
    found: dict[str, Traversable] = {}
    for entry in folder.iterdir():
        name, _, kind = entry.name.rpartition(".")
        files = {name: entry} if kind == "sql" else _below(entry) if entry.is_dir() else {}
        if twice := found.keys() & files.keys():
            raise ImportError(f"{min(twice)}.sql is in {folder.name} twice")
        found |= files
    return found
