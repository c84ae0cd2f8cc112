"""Which place an address means: a folder, or s3://bucket/prefix."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from taskq.archives.buckets import BucketPlace
from taskq.archives.folders import FolderPlace
from taskq.archives.places import ArchivePlace
from taskq.model.errors import UsageError

#: Where an archive is: the path of a folder, s3://bucket/prefix, or a place that is open already.
Where: TypeAlias = str | Path | ArchivePlace


def open_place(where: Where) -> ArchivePlace:
    """Return a place; raise `UsageError` if the address is none."""
    if isinstance(where, ArchivePlace):
        return where
    if isinstance(where, str) and where.startswith("s3://"):
        return BucketPlace(where)
    if "://" in str(where):
        raise UsageError("an archive goes to a folder or to s3://bucket/prefix, no other address")
    return FolderPlace(Path(where))
