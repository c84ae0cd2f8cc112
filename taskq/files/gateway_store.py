"""Store of blobs behind a gateway, in the gateway's own store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from taskq.db.gateway_queries import GatewayQueries
from taskq.files.blob_store import BlobStore, check_digest
from taskq.model.errors import NotFound, NotOverGateway
from taskq_agent.http.connections import chunks_of


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
        self._gateway.upload(digest, size, iter(chunks))
