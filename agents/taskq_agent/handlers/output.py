"""Tail of the output of a payload, in bounded memory."""

from __future__ import annotations

import threading
from typing import Optional, Tuple

from taskq_agent.text import clean


class Tail:
    """Keeps the last `limit` bytes of a stream in bounded memory.

    `last` may be called from any thread.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._kept = bytearray()
        self._written = 0
        self._lock = threading.Lock()

    def add(self, chunk: bytes) -> None:
        """Append a chunk."""
        with self._lock:
            self._written += len(chunk)
            self._kept += chunk[-self.limit :]
            if len(self._kept) > 2 * self.limit:
                del self._kept[: -self.limit]

    def clear(self) -> None:
        """Discard everything."""
        with self._lock:
            self._written = 0
            self._kept.clear()

    def bytes(self) -> bytes:
        """Return the last `limit` bytes, or all if there were fewer."""
        return bytes(self._kept[-self.limit :])

    def last(self) -> Tuple[bytearray, int]:
        """Return the last `limit` bytes, and how many have come in all."""
        with self._lock:
            return self._kept[-self.limit :], self._written

    def text(self) -> Optional[str]:
        """Return the kept bytes as clean text; None if that is empty.

        Bytes that are not UTF-8 become replacement characters, which are longer. So the text is cut
        again, and its UTF-8 form has at most `limit` bytes.
        """
        text = clean(self.bytes().decode("utf-8", "replace"))
        return text.encode()[-self.limit :].decode("utf-8", "ignore") or None
