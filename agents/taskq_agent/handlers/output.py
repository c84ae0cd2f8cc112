"""Tail of the output of a payload, in bounded memory."""

from __future__ import annotations

from typing import Optional

from taskq_agent.text import clean


class Tail:
    """Keeps the last `limit` bytes of a stream in bounded memory."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._kept = bytearray()

    def add(self, chunk: bytes) -> None:
        """Append a chunk."""
        self._kept += chunk[-self.limit :]
        if len(self._kept) > 2 * self.limit:
            del self._kept[: -self.limit]

    def clear(self) -> None:
        """Discard everything."""
        self._kept.clear()

    def bytes(self) -> bytes:
        """Return the last `limit` bytes, or all if there were fewer."""
        return bytes(self._kept[-self.limit :])

    def text(self) -> Optional[str]:
        """Return what is kept as clean text; None if that is empty.

        Bytes that are not UTF-8 become replacement characters, which are longer: the text is cut
        again, so that its UTF-8 form has at most `limit` bytes.
        """
        text = clean(self.bytes().decode("utf-8", "replace"))
        return text.encode()[-self.limit :].decode("utf-8", "ignore") or None
