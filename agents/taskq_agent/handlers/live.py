"""Live view of the attempt that runs in a slot: its progress, and the end of its output.

A payload writes its progress to a file, whose last line counts: `0.4 sweep 40 of 100`, or
`40% sweep 40 of 100`; `-` stands for an unknown part. Any other line is all note. A program only
has to write the file, never waits for a reader, and can write it from inside a container.
"""

from __future__ import annotations

import base64
import os
import stat
import threading
from contextlib import suppress
from typing import Container, Optional, Tuple

from taskq_agent.protocol import Held
from taskq_agent.scratch import PROGRESS_FILE, READ_SAFELY, opened
from taskq_agent.task_messages import MAX_NOTE_CHARS, Update
from taskq_agent.text import clean

_READ_BYTES = 1_024
_UNKNOWN = "-"


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


class LiveAttempt:
    """The running attempt of a slot. `update` may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: Optional[Held] = None
        self._folder = ""
        self._output: Optional[Tail] = None

    def begin(self, held: Held, folder: str) -> None:
        """Begin an attempt with this scratch folder."""
        with self._lock:
            self._held, self._folder, self._output = held, folder, None

    def writes_to(self, output: Tail) -> None:
        """Set where the output of the attempt is from now on."""
        with self._lock:
            self._output = output

    def end(self) -> None:
        """End the attempt: there are no more updates of it."""
        with self._lock:
            self._held, self._output = None, None

    def update(self, followed: Container[Held]) -> Optional[Update]:
        """Return the attempt's update, with its output if `followed` contains it; None if empty."""
        with self._lock:
            held, folder, output = self._held, self._folder, self._output
        if held is None:
            return None
        fraction, note = parsed(_last_line(folder))
        text, written = None, 0
        if output is not None and held in followed:
            last, written = output.last()
            text = base64.b64encode(last).decode()
        with self._lock:
            if self._held is not held:  # by now the output is another attempt's
                return None
        if fraction is None and not note and text is None:
            return None
        return Update(held.campaign, held.task, held.lease, fraction, note, text, written)


def parsed(line: str) -> Tuple[Optional[float], str]:
    """Return the finished part and the note in a line; None and empty if it has none."""
    text = clean(line).strip()
    word, _, note = text.partition(" ")
    fraction = None
    with suppress(ValueError):
        fraction = float(word[:-1]) / 100 if word.endswith("%") else float(word)
    if word != _UNKNOWN and (fraction is None or not 0 <= fraction <= 1):
        fraction, note = None, text
    return fraction, note.strip()[:MAX_NOTE_CHARS]


def _last_line(folder: str) -> str:
    """Return the last whole line of the progress file in a folder; empty if there is none.

    No link is followed: a payload in a container must not show files of the node.
    """
    try:
        with opened(folder) as inside:
            fd = os.open(PROGRESS_FILE, READ_SAFELY, dir_fd=inside)
    except OSError:
        return ""
    try:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            return ""
        data = os.pread(fd, _READ_BYTES, max(0, about.st_size - _READ_BYTES))
    except OSError:
        return ""
    finally:
        os.close(fd)
    whole, newline, rest = data.rpartition(b"\n")
    lines = whole.split(b"\n") if newline else [rest]
    return next((line for line in reversed(lines) if line.strip()), b"").decode("utf-8", "replace")
