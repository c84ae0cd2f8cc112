"""Seeding: streams tasks into a campaign by COPY, a chunk at a time.

A chunk is one transaction: under a lock for the campaign it asks which of its keys are there
already, copies the others, and makes them claimable. So memory is bounded by a chunk, seeding
the same again adds nothing, and what was committed before an interruption is not lost.

COPY needs a right on the table, which nobody but its owner has. For others a chunk is one call of
`submit`, which does the same and takes the server a tenth longer.

While the database takes in a chunk, the next one is read and encoded: the records in the thread of
the caller, who may have bound them to it, the database in another.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout  # not the built-in one before 3.11
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from taskq.database import Database, Statements
from taskq.errors import InvalidTask, TaskqError
from taskq.model import Seed
from taskq.sources.records import BadLine

CHUNK: Final = 10_000
CHUNK_CHARS: Final = 4_000_000
#: The reading thread pauses after so many records. Without, it keeps the interpreter for 5 ms
#: whenever the other thread has an answer of the database, and seeding takes a third longer.
POLITE_EVERY: Final = 100
POLITE_S: Final = 1e-6
#: How long an interrupted seeding waits for the chunk on its way.
GRACE_S: Final = 5.0

Seedable: TypeAlias = Seed | Mapping[str, Any] | BadLine
Encoded: TypeAlias = tuple[str, str, int]


@dataclass(slots=True)
class SeedCount:
    """How far seeding is: records read, tasks added, keys known before, bad records passed over."""

    read: int = 0
    added: int = 0
    known: int = 0
    bad: int = 0


@dataclass(slots=True)
class _Chunk:
    """Tasks by their keys; read, bad: records when its last one had been read."""

    tasks: dict[str, Encoded]
    read: int
    bad: int


def seed(
    database: Database,
    campaign: int,
    path: str,
    records: Iterable[Seedable],
    *,
    on_bad: Callable[[BadLine], None] | None,
    on_progress: Callable[[SeedCount], None] | None,
) -> SeedCount:
    """Seed a campaign, known by its id and its path; see `Campaign.seed`."""
    count, ahead = SeedCount(), SeedCount()
    sender = _Sender(database, campaign, path)
    sending: Future[int] | None = None
    sent: _Chunk | None = None

    def arrive(timeout_s: float | None = None) -> None:
        """Wait for the chunk on its way, and count it."""
        nonlocal sending
        if sending is None or sent is None:
            return
        try:
            count.added += sending.result(timeout_s)
        except Exception:
            sending = None
            raise
        sending = None
        count.read, count.bad = sent.read, sent.bad
        count.known = count.read - count.added - count.bad
        if on_progress is not None:
            on_progress(count)

    with ThreadPoolExecutor(1, "taskq-seed") as thread:
        try:
            for chunk in _chunks(_encoded(records, ahead, on_bad), ahead):
                arrive()
                sending, sent = thread.submit(sender.send, chunk), chunk
            arrive()
        except InvalidTask as error:
            arrive()
            raise InvalidTask(
                f"{error} (tasks added so far: {count.added}; "
                "seeding again goes on from there and adds none twice)"
            ) from error
        except BaseException:
            # Reading broke off. What is on its way may arrive, but must not keep anybody.
            try:
                with suppress(TaskqError, TimeoutError, FutureTimeout):
                    arrive(GRACE_S)
            finally:
                sender.cancel()
            raise
    count.read, count.bad = ahead.read, ahead.bad
    count.known = count.read - count.added - count.bad
    return count


def _chunks(encoded: Iterable[Encoded], ahead: SeedCount) -> Iterator[_Chunk]:
    """Yield records by their keys, of several with one key the first."""
    tasks: dict[str, Encoded] = {}
    chars = 0
    for one in encoded:
        tasks.setdefault(one[0], one)
        chars += len(one[1])
        if len(tasks) % POLITE_EVERY == 0:
            time.sleep(POLITE_S)
        if len(tasks) >= CHUNK or chars >= CHUNK_CHARS:
            yield _Chunk(tasks, ahead.read, ahead.bad)
            tasks, chars = {}, 0
    if tasks:
        yield _Chunk(tasks, ahead.read, ahead.bad)


def _encoded(
    records: Iterable[Seedable], count: SeedCount, on_bad: Callable[[BadLine], None] | None
) -> Iterator[Encoded]:
    """Encode records; the bad ones go to `on_bad`, or end it all if there is none."""
    for number, record in enumerate(records, 1):
        count.read += 1
        if isinstance(record, BadLine):
            bad = record
        else:
            try:
                yield (record if isinstance(record, Seed) else Seed(record)).encoded()
                continue
            except InvalidTask as error:
                bad = BadLine(number, str(error), "")
        if on_bad is None:
            raise InvalidTask(f"record at {bad.number}: {bad.reason}")
        count.bad += 1
        on_bad(bad)


class _Sender:
    """Takes chunks into a campaign, one after the other, in a thread of its own."""

    def __init__(self, database: Database, campaign: int, path: str) -> None:
        self._database = database
        self._campaign = campaign
        self._path = path
        self._may_copy: bool | None = None
        self._running: Statements | None = None

    def send(self, chunk: _Chunk) -> int:
        """Take a chunk into the campaign; return how many tasks that added."""
        with self._database.transaction() as statements:
            self._running = statements
            try:
                if self._may_copy is None:
                    self._may_copy = statements.value("may_copy")
                if self._may_copy:
                    return self._copy(statements, chunk.tasks)
                return int(statements.value("submit", path=self._path, tasks=_array(chunk.tasks)))
            finally:
                self._running = None

    def _copy(self, statements: Statements, tasks: dict[str, Encoded]) -> int:
        campaign = self._campaign
        above = statements.value("seed_begin", campaign=campaign)
        keys = json.dumps([*tasks])
        for row in statements.rows("seed_known", campaign=campaign, keys=keys):
            del tasks[row["key"]]
        if tasks:
            statements.copy_text("seed_copy", _lines(campaign, tasks.values()))
            statements.value("seed_end", campaign=campaign, above=above)
        return len(tasks)

    def cancel(self) -> None:
        """Break off the chunk on its way, if there is one: none of it is added."""
        if self._running is not None:
            self._running.cancel()


def _lines(campaign: int, tasks: Iterable[Encoded]) -> str:
    """Return tasks as COPY takes them, in one piece; encoded JSON has no control characters."""
    return "".join(
        [
            f"{campaign}\t{_escaped(key)}\t{payload.replace(_BACKSLASH, _TWICE)}\t{priority}\n"
            for key, payload, priority in tasks
        ]
    )


def _array(tasks: dict[str, Encoded]) -> str:
    """Return tasks as `submit` takes them: a JSON array."""
    return "[" + ",".join(map(task_json, tasks.values())) + "]"


def task_json(encoded: Encoded) -> str:
    """Return a task as `submit` takes it."""
    key, payload, priority = encoded
    return f'{{"key":{json.dumps(key)},"payload":{payload},"priority":{priority}}}'


def _escaped(key: str) -> str:
    if key.isalnum():
        return key
    key = key.replace(_BACKSLASH, _TWICE)
    return key.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


_BACKSLASH: Final = "\\"
_TWICE: Final = "\\\\"
