"""Follow the output of a task while it runs, after the stored output of its ended attempts.

A follower asks every two seconds, and the agent sends the end of the output for as long as somebody
asks; see `follow.sql`.
"""

from __future__ import annotations

import base64
import codecs
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Final

from taskq.db.access import Queries
from taskq.db.rows import Row
from taskq.model.errors import NotFound
from taskq.model.pauses import sleep
from taskq.model.seed import FINAL
from taskq.model.views import Attempt
from taskq_agent.text import clean

ASK_S: Final = 2.0
#: Last characters shown, by which to find in a stored tail where they end.
_MARK_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class OutputPart:
    """The next part of a task's output; empty if only its state has changed.

    Attributes:
        status: Status of the task at this moment, with its `attempt` and `host`.
        skipped: Bytes before `text` that were not kept.
        text: Without terminal escapes.
        ended: The attempt that ends with this part.
    """

    status: str
    attempt: int
    host: str | None
    _: KW_ONLY
    text: str = ""
    skipped: int = 0
    ended: Attempt | None = None


def output_of(database: Queries, campaign: int, task: int) -> Iterator[OutputPart]:
    """Yield the output of the running attempt, and of those after it, until the task is final.

    The last part of an attempt that ends meanwhile comes from its stored tail. A task that is final
    yields only its last attempt.
    """
    shown: _Shown | None = None
    ended = 0
    before = None
    while True:
        row = _look(database, campaign, task)
        status, attempt, host = now = row["status"], row["attempt"], row["host"]
        if now != before:
            stored = database.rows("attempts", campaign=campaign, task=task)
            attempts = [Attempt(**row) for row in stored]
            if before is None:  # callers list those that ended before
                ended = len(attempts) - (status in FINAL)
            for last in attempts[ended:]:
                yield _last_part(status, last, shown)
            yield OutputPart(status, attempt, host)
            before, ended = now, len(attempts)
            shown = _Shown(attempt)
        if status in FINAL:
            return
        if shown is not None and row["written"] is not None:
            text, skipped = shown.new(row["written"], base64.b64decode(row["output"] or ""))
            if text or skipped:
                yield OutputPart(status, attempt, host, text=text, skipped=skipped)
        sleep(ASK_S)


def _last_part(status: str, attempt: Attempt, shown: _Shown | None) -> OutputPart:
    text = attempt.tail or ""
    if shown is not None and shown.attempt == attempt.attempt:
        text = shown.rest(text)
    return OutputPart(status, attempt.attempt, attempt.host, text=text, ended=attempt)


def _look(database: Queries, campaign: int, task: int) -> Row:
    rows = database.rows("follow", campaign=campaign, task=task)
    if not rows:
        raise NotFound("the task was removed meanwhile")
    return rows[0]


class _Shown:
    """Keeps track of the output shown of an attempt."""

    def __init__(self, attempt: int) -> None:
        self.attempt = attempt
        self._bytes = 0
        self._mark = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def new(self, written: int, last: bytes) -> tuple[str, int]:
        """Return new text among the last of the bytes written, and the bytes before it not kept.

        Fewer bytes than before mean another attempt, since this one was handed back.
        """
        if written < self._bytes:
            self._bytes = 0
        news = written - self._bytes
        self._bytes = written
        skipped = max(news - len(last), 0)
        if skipped:
            self._decoder.reset()
        text = clean(self._decoder.decode(last[max(len(last) - news, 0) :]))
        self._mark = (self._mark + text)[-_MARK_CHARS:]
        return text, skipped

    def rest(self, tail: str) -> str:
        """Return the rest of a stored tail; all of it if nothing in it was shown."""
        place = tail.find(self._mark)
        return tail if place < 0 else tail[place + len(self._mark) :]
