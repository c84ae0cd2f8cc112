"""Store of blobs in a folder, as agents see it; it logs the bytes that are transferred."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from taskq.dispatch.transport_errors import as_transport_errors
from taskq.files.folder_store import FolderBlobs
from taskq_agent.errors import TransportFailed
from taskq_agent.inputs import InputCache
from taskq_agent.protocol import Input


class BlobSource:
    """Reads and writes blobs.

    break_at: the offset at which transfers break; None: they do not. delay_s: how long a transfer
    takes to begin.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "store").mkdir(exist_ok=True)
        self.store = FolderBlobs(folder / "store")
        self.log = folder / "log"
        self.break_at: int | None = None
        self.delay_s = 0.0
        self.broken_writes = 0

    def add(self, data: bytes) -> Input:
        """Store a blob; return it as an input."""
        self.store.put_verified(hashlib.sha256(data).hexdigest(), data)
        return Input(hashlib.sha256(data).hexdigest(), len(data))

    def read_blob(self, digest: str, offset: int) -> Iterator[bytes]:
        """Yield a blob in small chunks; log the offset and length of each."""
        time.sleep(self.delay_s)
        with as_transport_errors():
            for large in self.store.read(digest, offset):
                for start in range(0, len(large), 10_000):
                    chunk = large[start : start + 10_000]
                    if self.break_at is not None and offset >= self.break_at:
                        self._broken()
                    with self.log.open("a") as log:
                        log.write(f"{offset} {len(chunk)}\n")
                    yield chunk
                    offset += len(chunk)

    def write_blob(self, digest: str, data: bytes) -> None:
        """Store a blob, unless this write is one of those that must break."""
        if self.broken_writes:
            self.broken_writes -= 1
            raise TransportFailed("broken")
        with as_transport_errors():
            self.store.put_verified(digest, data)

    def transfers(self) -> list[tuple[int, int]]:
        """Return offset and length of all chunks that were read."""
        if not self.log.exists():
            return []
        lines = self.log.read_text().splitlines()
        return [(int(line.split()[0]), int(line.split()[1])) for line in lines]

    def moved(self) -> int:
        """Return how many bytes were read."""
        return sum(length for _, length in self.transfers())

    def _broken(self) -> None:
        raise TransportFailed("broken")


def main() -> None:
    """Fetch an input in a process of its own: SOURCE CACHE DIGEST SIZE [BREAK_AT].

    At BREAK_AT the transfer does not break but hangs until the process is killed.
    """
    source = BlobSource(Path(sys.argv[1]))
    if len(sys.argv) > 5:
        source.break_at = int(sys.argv[5])
        source._broken = sys.stdin.read  # type: ignore[assignment,method-assign]  # noqa: SLF001  # hangs
    cache = InputCache(Path(sys.argv[2]), source)
    path, _ = cache.hold(Input(sys.argv[3], int(sys.argv[4])), lambda _: None)
    sys.stdout.write(hashlib.sha256(path.read_bytes()).hexdigest())


if __name__ == "__main__":
    main()
