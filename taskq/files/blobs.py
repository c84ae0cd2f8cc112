"""Choice of the blob store, and the stores in PostgreSQL and behind a gateway.

Blobs are inputs and large results, named by their SHA-256. They never change, so they can be stored
anywhere, fetched in pieces, and verified by the reader. `--blobs` or `TASKQ_BLOBS` names the store,
the same for all users of the queue: unset for PostgreSQL, the path of a folder, s3://bucket/prefix,
or another URL that fsspec supports.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from taskq.db.access import Queries
from taskq.db.gateway_queries import GatewayQueries
from taskq.files.blob_store import CHUNK_BYTES, MAX_INPUT_BYTES, BlobStore, check_digest, parts
from taskq.files.folder_store import FolderBlobs
from taskq.files.fsspec_store import FsspecBlobs
from taskq.files.s3_store import S3Blobs
from taskq.model.errors import NotFound, NotOverGateway, UsageError
from taskq_agent.http.connections import chunks_of
from taskq_agent.paths import is_dir

#: A blob that PostgreSQL takes with one statement.
MAX_SHORT_BYTES: Final = 8_388_608
#: Parts of a blob that it sends with one statement.
PARTS_AT_ONCE: Final = 4


class GatewayBlobs(BlobStore):
    """Keeps blobs in the store of a gateway."""

    def __init__(self, gateway: GatewayQueries) -> None:
        self._gateway = gateway

    def size(self, digest: str) -> int:
        """Return the length of a blob in bytes; raise `NotFound` if it is not here."""
        with self._gateway.blob(check_digest(digest), method="HEAD") as response:
            return int(response.getheader("Content-Length") or 0)

    def read(self, digest: str, offset: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield a blob from an offset on, in chunks of 1 MiB at most; see `BlobStore.read`."""
        if end is not None and offset >= end:
            return
        with self._gateway.blob(check_digest(digest), offset, end) as response:
            yield from chunks_of(response)

    def remove_archive(self, digest: str) -> None:
        """Raise `NotOverGateway`: only keepers remove archives."""
        raise NotOverGateway(f"removing the archive {digest}")

    def _put(self, digest: str, size: int, chunks: Iterable[bytes]) -> None:
        with suppress(NotFound):
            if self.size(digest) == size:
                return
        self._gateway.upload(digest, size, chunks)


class DatabaseBlobs(BlobStore):
    """Keeps blobs in PostgreSQL, in parts of 1 MiB.

    A short blob is one statement. Each part of a longer one commits alone, so that a slow upload
    keeps no transaction open; the blob becomes visible with its last part.
    """

    def __init__(self, database: Queries) -> None:
        self._database = database

    def size(self, digest: str) -> int:
        """Return the length of a blob in bytes; raise `NotFound` if it is not here."""
        row = self._database.row("blob", digest=bytes.fromhex(check_digest(digest)))
        if row is None:
            raise NotFound(f"the database has no blob {digest}")
        return int(row["size"])

    def read(self, digest: str, offset: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield a blob from an offset on, in chunks of 1 MiB at most; see `BlobStore.read`."""
        whole = bytes.fromhex(check_digest(digest))
        end = MAX_INPUT_BYTES if end is None else end
        size: int | None = None
        while offset < (end if size is None else min(end, size)):
            part, skip = divmod(offset, CHUNK_BYTES)
            place = {"part": part, "skip": skip, "most": PARTS_AT_ONCE, "end": end}
            rows = self._database.rows("blob_parts", digest=whole, **place)
            if not rows or (size is not None and rows[0]["data"] is None):
                raise NotFound(f"the database has no blob {digest}, or no longer")
            size = int(rows[0]["size"])
            for row in rows:
                if row["data"]:
                    yield row["data"]
                    offset += len(row["data"])

    def remove_archive(self, digest: str) -> None:
        """Remove an archive; the database itself checks that it is one, and not in use."""
        self._database.value("drop_archive", digest=check_digest(digest))

    def _put(self, digest: str, size: int, chunks: Iterable[bytes]) -> None:
        if size <= MAX_SHORT_BYTES:
            data = b"".join(chunks)
            self._database.rows("put_blob", digest=bytes.fromhex(digest), data=data)
            return
        blob = self._database.value("begin_blob", digest=bytes.fromhex(digest), size=size)
        if blob is None:
            return
        for part, chunk in enumerate(parts(chunks)):
            self._database.rows("put_blob_part", blob=blob, part=part, data=chunk)
        self._database.rows("end_blob", blob=blob)


def open_blobs(database: Queries, where: str | None = None) -> BlobStore:
    """Return the blob store of a queue.

    where: a folder or a URL. None: over a gateway, the gateway's store; otherwise the store that
    `TASKQ_BLOBS` names, or else the database. Raise `UsageError` for an invalid address or a
    folder that does not exist, `ExtraMissing` if the extra for the address is missing: `s3`, for
    other URLs `storage`.
    """
    if not isinstance(database, GatewayQueries):
        where = where or os.environ.get("TASKQ_BLOBS")
    elif not where:
        return GatewayBlobs(database)
    if not where:
        return DatabaseBlobs(database)
    if where.startswith("s3://"):
        return S3Blobs(where)
    if "://" in where:
        return FsspecBlobs(where)
    if not Path(where).is_absolute():
        raise UsageError(f"the folder of blobs must be an absolute path, not {where!r}")
    # Blobs in a misspelt folder, or one whose file system is not mounted, would never be found.
    if not is_dir(where):  # False, too, for what may not be looked at
        raise UsageError(
            f"there is no folder {where!r} for blobs on this machine: make it (`mkdir -p`), mount "
            "it, or name another by --blobs or TASKQ_BLOBS"
        )
    return FolderBlobs(Path(where))
