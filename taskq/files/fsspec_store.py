"""Store of blobs in storage that fsspec supports: object stores, SFTP, HDFS.

The only module that imports fsspec.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from taskq.files.blob_store import CHUNK_BYTES, BlobStore, check_digest
from taskq.model.errors import ExtraMissing, NotFound, TaskqError, Unavailable, UsageError


class FsspecBlobs(BlobStore):
    """Keeps blobs under a URL, such as s3://bucket/folder, with the names of `FolderBlobs`.

    Credentials come from the places that the storage's own tools read, never from the URL.
    """

    def __init__(self, url: str) -> None:
        """Raise `UsageError` if fsspec, or a package that it needs for this URL, is missing."""
        try:
            # An extra that few users need and that takes long to import.
            from fsspec.core import url_to_fs  # type: ignore[import-untyped]  # noqa: PLC0415  # it has no stubs
        except ImportError:
            raise ExtraMissing(f"{url} needs fsspec", "storage") from None
        try:
            self._storage, self._root = url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise UsageError(f"{url}: fsspec cannot open this: {error}") from None

    def size(self, digest: str) -> int:
        """Return the length of a blob in bytes; raise `NotFound` if it is not here."""
        path = self._path(digest)
        with self._translated(digest):
            self._storage.invalidate_cache(path)
            return int(self._storage.size(path))

    def read(self, digest: str, offset: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield a blob from an offset on, in chunks of 1 MiB at most; see `BlobStore.read`."""
        path, size = self._path(digest), self.size(digest)
        end = size if end is None else min(end, size)
        while offset < end:
            upto = min(offset + CHUNK_BYTES, end)
            with self._translated(digest):
                chunk = self._storage.cat_file(path, start=offset, end=upto)
            yield bytes(chunk)
            offset += len(chunk)

    def remove_archive(self, digest: str) -> None:
        """Remove a file; nothing if it is not here."""
        with suppress(NotFound), self._translated(digest):
            self._storage.rm_file(self._path(digest))

    def _put(self, digest: str, size: int, chunks: Iterable[bytes]) -> None:
        path = self._path(digest)
        with suppress(NotFound):
            if self.size(digest) == size:
                return
        unfinished = f"{path}.{secrets.token_hex(6)}.part"
        with self._translated(digest):
            self._storage.makedirs(path.rpartition("/")[0], exist_ok=True)
            try:
                with self._storage.open(unfinished, "wb") as file:
                    for chunk in chunks:
                        file.write(chunk)
                self._storage.mv(unfinished, path)
            except BaseException:
                with suppress(Exception):  # the first error matters
                    self._storage.rm_file(unfinished)
                raise

    def _path(self, digest: str) -> str:
        return f"{self._root}/{check_digest(digest)[:2]}/{digest}"

    @contextmanager
    def _translated(self, digest: str) -> Iterator[None]:
        try:
            yield
        except TaskqError:
            raise
        except FileNotFoundError:
            raise NotFound(f"the storage has no blob {digest}") from None
        except Exception as error:  # each storage has errors of its own
            raise Unavailable(f"the storage fails at blob {digest}: {error}") from error
