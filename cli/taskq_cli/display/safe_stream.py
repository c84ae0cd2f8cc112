"""Binary stream to a terminal that escapes control characters."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import BinaryIO

from taskq_cli.display.text import printable


class SafeStream:
    """The stream methods that `taskq.files.destination` uses; writes UTF-8 as printable text."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def write(self, data: bytes) -> int:
        """Write bytes."""
        self._stream.write(printable(self._decode(data)).encode())
        return len(data)

    def writelines(self, lines: Iterable[bytes]) -> None:
        """Write lines."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush."""
        self._stream.flush()

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._stream.fileno()
