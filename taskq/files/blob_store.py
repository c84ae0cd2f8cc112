"""Base class of blob stores: names, size limits, verification of digests."""

from __future__ import annotations

import hashlib
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, Final

from taskq.model.errors import NotFound, ResultLost, UsageError
from taskq_agent.paths import exists, is_file
from taskq_agent.transport import MAX_BLOB_BYTES

CHUNK_BYTES: Final = 1_048_576
MAX_INPUT_BYTES: Final = 1_073_741_824

_DIGEST: Final = re.compile("[0-9a-f]{64}")


class BlobStore(ABC):
    """Keeps blobs, each named by its SHA-256 in lower-case hex. Thread-safe.

    A blob is stored completely or not at all, and never changes. All methods raise `Unavailable` if
    the storage does not answer or is full, and `UsageError` for an invalid digest.
    """

    def put(self, data: Path | Iterable[bytes], *, most: int = MAX_INPUT_BYTES) -> tuple[str, int]:
        """Store a file, or a stream, of at most `most` bytes; return digest and size.

        A blob that is stored already stays as it is. Raise `NotFound` if there is no such file,
        `UsageError` if it cannot be read, is too large, or changes meanwhile.
        """
        if not isinstance(data, Path):
            return self._put_stream(data, most)
        with _reading(data) as file:
            hashed, size = hashlib.sha256(), 0
            for chunk in _chunks(file):
                size += len(chunk)
                if size > most:
                    raise UsageError(f"{str(data)!r} has more than {most} bytes, the most allowed")
                hashed.update(chunk)
            digest = hashed.hexdigest()
            self._put(digest, size, _Verified(file, digest))
        return digest, size

    def put_verified(self, digest: str, data: bytes) -> None:
        """Store data of at most `MAX_BLOB_BYTES` that must have this digest.

        Raise `UsageError` if the digest differs, or the data are too large.
        """
        check_digest(digest)
        if hashlib.sha256(data).hexdigest() != digest:
            raise UsageError(f"the data do not have the digest {digest}")
        self.put_named(digest, data)

    def put_named(self, digest: str, data: bytes) -> None:
        """Store data of at most `MAX_BLOB_BYTES`; the caller has computed the digest.

        Raise `UsageError` if the data are too large.
        """
        if len(data) > MAX_BLOB_BYTES:
            raise UsageError(f"a blob of {len(data)} bytes; {MAX_BLOB_BYTES} at most")
        self._put(digest, len(data), [data])

    def put_file(self, file: IO[bytes], digest: str) -> None:
        """Store an open file of at most 1 GiB that must have this digest.

        Raise `UsageError` if it has another, or the file is too large.
        """
        hashed, size = hashlib.sha256(), 0
        file.seek(0)
        for chunk in _chunks(file):
            hashed.update(chunk)
            size += len(chunk)
        if size > MAX_INPUT_BYTES:
            raise UsageError(f"more than {MAX_INPUT_BYTES} bytes, the most allowed")
        if hashed.hexdigest() != check_digest(digest):
            raise UsageError(f"the data do not have the digest {digest}")
        self._put(digest, size, _Verified(file, digest))

    @abstractmethod
    def size(self, digest: str) -> int:
        """Return the length of a blob in bytes; raise `NotFound` if the store does not have it."""

    @abstractmethod
    def read(self, digest: str, offset: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield a blob from an offset on, in chunks of 1 MiB at most; raise as `size` does.

        end: the offset at which to stop, at most the blob's end; None means at its end. Nothing
        beyond it is read.
        """

    def whole(self, digest: str, what: str) -> bytearray:
        """Return a blob of at most `MAX_BLOB_BYTES`; raise as `size` does.

        Raise `ResultLost` if it is larger or damaged. what: says in the message what the blob is.
        """
        data = bytearray()
        for chunk in self.read(digest):
            data += chunk
            if len(data) > MAX_BLOB_BYTES:
                break
        if hashlib.sha256(data).hexdigest() != digest:
            raise ResultLost(f"blob {digest}, {what}, is damaged where it is stored")
        return data

    @abstractmethod
    def remove_archive(self, digest: str) -> None:
        """Remove an archive that belongs to no task any more; do nothing if it is not here."""

    @abstractmethod
    def _put(self, digest: str, size: int, chunks: Iterable[bytes]) -> None:
        """Store the concatenated chunks as a blob; store nothing if iterating them raises.

        chunks: can be iterated again.
        """

    def _put_stream(self, data: Iterable[bytes], most: int) -> tuple[str, int]:
        """Store a stream through a temporary file, since its digest is known only at its end."""
        with tempfile.NamedTemporaryFile(prefix="taskq-blob-") as file:
            size = 0
            for chunk in data:
                size += file.write(chunk)
                if size > most:
                    raise UsageError(f"more than {most} bytes, the most allowed")
            file.flush()
            return self.put(Path(file.name), most=most)


def check_digest(digest: str) -> str:
    """Return a digest; raise `UsageError` unless it is 64 lower-case hexadecimal digits."""
    if not _DIGEST.fullmatch(digest):
        raise UsageError(f"{digest!r:.80} is not a SHA-256 digest: 64 digits, 0-9 and a-f")
    return digest


def parts(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Cut data into parts of `CHUNK_BYTES`; the last may be shorter."""
    kept = bytearray()
    for chunk in chunks:
        kept += chunk
        while len(kept) >= CHUNK_BYTES:
            yield bytes(kept[:CHUNK_BYTES])
            del kept[:CHUNK_BYTES]
    if kept:
        yield bytes(kept)


@contextmanager
def _reading(path: Path) -> Iterator[BinaryIO]:
    try:
        if not is_file(path) and exists(path):
            raise UsageError(f"{str(path)!r} is not a regular file")
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise NotFound(f"there is no file {str(path)!r}") from None
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error.strerror}") from None


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


class _Verified:
    """The chunks of an open file, each time from its beginning; they must have a digest."""

    def __init__(self, file: IO[bytes], digest: str) -> None:
        self._file = file
        self._digest = digest

    def __iter__(self) -> Iterator[bytes]:
        self._file.seek(0)
        hashed = hashlib.sha256()
        for chunk in _chunks(self._file):
            hashed.update(chunk)
            yield chunk
        if hashed.hexdigest() != self._digest:
            raise UsageError("the file was changed while it was read; nothing was stored")
