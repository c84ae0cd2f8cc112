"""Seeding: streams tasks into a campaign by COPY, one chunk at a time.

A chunk is one transaction: under a lock for the campaign it looks up which keys exist, copies the
other tasks, and makes them claimable. So memory is bounded by a chunk, seeding is idempotent, and
chunks that were committed before an interruption stay.

The database compares the payloads of existing keys. Only these payloads are sent for that, so new
tasks cost no more; see `key_conflicts`.

COPY needs a right on the table that only its owner has. For other logins a chunk is one call of
`seed_tasks`, which does the same and takes the server a tenth longer. A gateway calls it too, for
smaller chunks.

While the database stores a chunk, the next one is read and encoded. The caller's thread reads the
records, since they may be bound to it; another thread calls the database.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeout  # not the built-in one before 3.11
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any, Final, TypeAlias

from taskq.db.access import Queries
from taskq.db.connections import Database, Row, Statements
from taskq.db.pacing import PacedChange
from taskq.ingest import key_conflicts
from taskq.ingest.key_conflicts import OnConflict
from taskq.ingest.repeats import Repeats
from taskq.ingest.sources.records import BadLine, Source
from taskq.model.errors import Clash, InvalidTask, KeyConflict, TaskqError
from taskq.model.given import elements
from taskq.model.seed import MAX_PAYLOAD_BYTES, Encoded, Seed

CHUNK: Final = 10_000
CHUNK_CHARS: Final = 4_000_000
#: Limits of a chunk over a gateway, which others use too.
REMOTE_CHUNK: Final = 2_000
REMOTE_CHUNK_CHARS: Final = 500_000
#: The reading thread sleeps after this many records. Otherwise it holds the interpreter lock for
#: 5 ms whenever the other thread gets an answer, and seeding takes a third longer.
POLITE_EVERY: Final = 100
POLITE_S: Final = 1e-6
#: Seconds that an interrupted seeding waits for the chunk in flight.
GRACE_S: Final = 5.0

Seedable: TypeAlias = Seed | Mapping[str, Any] | BadLine
Numbered: TypeAlias = tuple[int, Encoded]

_BACKSLASH: Final = "\\"
_TWICE: Final = "\\\\"


@dataclass(slots=True)
class SeedCount:
    """Progress of seeding.

    Attributes:
        read: Records read.
        added: Tasks added.
        known: Records that the campaign had before.
        bad: Bad records, skipped.
        conflicts: Records whose key is stored with another payload: skipped, or added under
            numbered keys, in which case `added` counts them too.
    """

    _: KW_ONLY
    read: int = 0
    added: int = 0
    known: int = 0
    bad: int = 0
    conflicts: int = 0


@dataclass(frozen=True, slots=True)
class Conflicts:
    """Policy for records whose key is stored with another payload; tell: called for some."""

    choice: OnConflict = "fail"
    tell: Callable[[Clash], None] | None = None


@dataclass(slots=True)
class _Chunk:
    """Tasks by key. read, bad: counts of the seeding when the chunk's last record was read.

    again: further records with the key of one of these tasks. text: the tasks in COPY's format.
    """

    tasks: dict[str, Numbered]
    again: list[Numbered]
    read: int
    bad: int
    text: bytes = b""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of a chunk in the database; clashes: some of its conflicts."""

    added: int
    conflicts: int = 0
    clashes: tuple[Clash, ...] = ()


def seed(
    database: Queries,
    campaign: int,
    path: str,
    records: Iterable[Seedable],
    *,
    conflicts: Conflicts,
    on_bad: Callable[[BadLine], None] | None,
    on_progress: Callable[[SeedCount], None] | None,
) -> SeedCount:
    """Seed a campaign, known by its id and its path; see `Campaign.seed`."""
    key_conflicts.check_choice(conflicts.choice)
    progress, ahead, repeats = _Progress(conflicts, on_progress), SeedCount(), Repeats()
    sender = _Sender(database, campaign, path, conflicts.choice)
    in_flight: Future[_Outcome] | None = None
    pending: _Chunk | None = None

    def await_chunk(timeout_s: float | None = None) -> None:
        """Wait for the chunk in flight, and count it."""
        nonlocal in_flight
        if in_flight is None or pending is None:
            return
        try:
            outcome = in_flight.result(timeout_s)
        except Exception:
            in_flight = None
            raise
        in_flight = None
        progress.add(pending, outcome)

    try:
        for chunk in _chunks(
            _encoded(elements("records", records), ahead, on_bad), ahead, repeats, *sender.chunk
        ):
            sender.prepare(chunk)
            await_chunk()
            in_flight, pending = _begun(partial(sender.send, chunk)), chunk
        await_chunk()
    except KeyConflict:
        raise
    except InvalidTask as error:
        await_chunk()
        raise InvalidTask(
            f"{error} (tasks added so far: {progress.count.added}; "
            "seed again: it continues from there and adds none twice)"
        ) from error
    except BaseException:
        # Reading was interrupted. Wait a bounded time for the chunk in flight, then cancel it.
        left = () if in_flight is None else (in_flight,)
        try:
            with suppress(TaskqError, TimeoutError, FutureTimeout):
                await_chunk(GRACE_S)
        finally:
            sender.cancel()
            wait(left, GRACE_S)
        raise
    if isinstance(records, Source):
        repeats.note(records)
    return progress.end(ahead)


def _begun(send: Callable[[], _Outcome]) -> Future[_Outcome]:
    """Send a chunk in a thread that does not hold up the program's end, in case of no answer."""
    future = Future[_Outcome]()

    def run() -> None:
        try:
            future.set_result(send())
        except BaseException as error:  # noqa: BLE001  # the waiting thread raises it
            future.set_exception(error)

    threading.Thread(target=run, name="taskq-seed", daemon=True).start()
    return future


class _Progress:
    """Counts committed chunks, and calls the callbacks."""

    def __init__(
        self, conflicts: Conflicts, on_progress: Callable[[SeedCount], None] | None
    ) -> None:
        self.count = SeedCount()
        self._conflicts = conflicts
        self._on_progress = on_progress

    def add(self, chunk: _Chunk, outcome: _Outcome) -> None:
        """Count a committed chunk."""
        self.count.added += outcome.added
        self.count.conflicts += outcome.conflicts
        self._read(chunk.read, chunk.bad)
        if self._conflicts.tell is not None:
            for clash in outcome.clashes:
                self._conflicts.tell(clash)
        if self._on_progress is not None:
            self._on_progress(self.count)

    def end(self, ahead: SeedCount) -> SeedCount:
        """Return the final count, once all chunks are committed."""
        self._read(ahead.read, ahead.bad)
        return self.count

    def _read(self, read: int, bad: int) -> None:
        count = self.count
        passed_over = count.conflicts if self._conflicts.choice == "skip" else 0
        count.read, count.bad = read, bad
        count.known = read - count.added - bad - passed_over


def _chunks(
    encoded: Iterable[Numbered], ahead: SeedCount, repeats: Repeats, most: int, most_chars: int
) -> Iterator[_Chunk]:
    """Yield chunks of records by key; the first of several records with a key is its task."""
    tasks: dict[str, Numbered] = {}
    again: list[Numbered] = []
    chars = 0
    for record in encoded:
        key, payload, _ = record[1]
        before = tasks.setdefault(key, record)
        if before is not record:
            again.append(record)
            repeats.look(record, before)
        chars += len(payload)
        records = len(tasks) + len(again)
        if records % POLITE_EVERY == 0:
            time.sleep(POLITE_S)
        if records >= most or chars >= most_chars:
            yield _Chunk(tasks, again, ahead.read, ahead.bad)
            tasks, again, chars = {}, [], 0
    if tasks:
        yield _Chunk(tasks, again, ahead.read, ahead.bad)


def _encoded(
    records: Iterable[Seedable], count: SeedCount, on_bad: Callable[[BadLine], None] | None
) -> Iterator[Numbered]:
    """Encode and number records; pass bad ones to `on_bad`, or raise `InvalidTask` without it."""
    source = records if isinstance(records, Source) else None
    for number, record in enumerate(records, 1):
        count.read += 1
        if isinstance(record, BadLine):
            bad = record
        else:
            try:
                encoded = (record if isinstance(record, Seed) else Seed(record)).encoded()
            except InvalidTask as error:
                bad = BadLine(number, str(error), "")
            else:
                yield (source and source.line) or number, encoded
                continue
        if on_bad is None:
            raise InvalidTask(f"record at {bad.number}: {bad.reason}")
        count.bad += 1
        on_bad(bad)


class _Sender:
    """Writes chunks to a campaign one by one, in its own thread."""

    def __init__(
        self, database: Queries, campaign: int, path: str, on_conflict: OnConflict
    ) -> None:
        self._database = database
        #: Records and characters of payloads that end a chunk.
        self.chunk = CHUNK, CHUNK_CHARS
        if not isinstance(database, Database):
            self.chunk = min(CHUNK, REMOTE_CHUNK), min(CHUNK_CHARS, REMOTE_CHUNK_CHARS)
        self._campaign = campaign
        self._path = path
        self._pace = PacedChange(database)
        self._on_conflict = on_conflict
        self._may_copy: bool | None = None if isinstance(database, Database) else False
        self._running: Statements | None = None
        self._to_name = key_conflicts.MAX_REPORTED_CLASHES
        self._compared: list[int] = []  # numbers of the records in the last comparison
        self._added = 0

    def prepare(self, chunk: _Chunk) -> None:
        """Format a chunk for COPY in the reader's thread; the database stores the one before."""
        if self._may_copy is not False:
            chunk.text = _lines(self._campaign, chunk.tasks.values())

    def send(self, chunk: _Chunk) -> _Outcome:
        """Send a chunk; raise `KeyConflict` if there are conflicts and the policy is "fail"."""
        try:
            with self._pace.step():
                sent = self._transact(chunk)
        except KeyConflict as error:
            raise key_conflicts.seeding_conflict(error, self._compared, self._added) from error
        self._added += sent.added
        if sent.added and isinstance(self._database, Database):
            self._database.announce_tasks()
        return sent

    def _transact(self, chunk: _Chunk) -> _Outcome:
        if not isinstance(self._database, Database):
            return self._call(self._database, chunk)
        with self._database.transaction() as statements:
            self._running = statements
            try:
                if self._may_copy is None:
                    self._may_copy = statements.value("may_copy")
                if self._may_copy:
                    return self._copy(statements, chunk)
                return self._call(statements, chunk)
            finally:
                self._running = None

    def _copy(self, statements: Statements, chunk: _Chunk) -> _Outcome:
        campaign, tasks = self._campaign, chunk.tasks
        above = statements.value("seed_begin", campaign=campaign)
        known: list[Row] = []
        if statements.value("seed_within", campaign=campaign, low=min(tasks), high=max(tasks)):
            known = statements.rows("seed_known", campaign=campaign, keys=json.dumps([*tasks]))
        compared = [tasks.pop(row["seed_known"]) for row in known] + chunk.again
        if tasks:
            text = _lines(campaign, tasks.values()) if known else chunk.text
            statements.copy_text("seed_copy", text)
        found = _Outcome(0)
        if compared:
            found = self._compare(statements, "seed_again", compared, campaign=campaign)
        if not tasks and not found.conflicts:
            return found
        largest = _largest(chunk)
        added = statements.value("seed_end", campaign=campaign, above=above, largest=largest)
        return _Outcome(added, found.conflicts, found.clashes)

    def _call(self, statements: Queries, chunk: _Chunk) -> _Outcome:
        tasks = [*chunk.tasks.values(), *chunk.again]
        return self._compare(statements, "seed_tasks", tasks, path=self._path)

    def _compare(
        self, statements: Queries, name: str, tasks: list[Numbered], **where: object
    ) -> _Outcome:
        """Run a statement that compares tasks, in order of their numbers, with stored ones."""
        tasks.sort(key=itemgetter(0))
        self._compared = [number for number, _ in tasks]
        (row,) = statements.rows(
            name,
            tasks="[" + ",".join([task_json(encoded) for _, encoded in tasks]) + "]",
            on_conflict=self._on_conflict,
            named=self._to_name,
            **where,
        )
        clashes = key_conflicts.reported_clashes(row["named"], self._compared)
        self._to_name -= len(clashes)
        return _Outcome(row.get("added", 0), row["conflicts"], clashes)

    def cancel(self) -> None:
        """Cancel the chunk in flight, if there is one; then none of it is added."""
        if self._running is not None:
            self._running.cancel()


def _largest(chunk: _Chunk) -> int:
    """Return the most bytes that PostgreSQL writes for a payload of a chunk."""
    payloads = [record[1] for _, record in chain(chunk.tasks.values(), chunk.again)]
    longest = max(map(len, payloads), default=0)
    # A character has at most four bytes in UTF-8. Python writes exponents with a sign, and
    # PostgreSQL writes a number with an exponent at most 60 times as long.
    grows = any("e-" in payload or "e+" in payload for payload in payloads)
    return min(longest * (60 if grows else 4), MAX_PAYLOAD_BYTES)


def _lines(campaign: int, tasks: Iterable[Numbered]) -> bytes:
    """Return tasks in COPY's text format. Keys and JSON have no control characters."""
    return "".join(
        [
            f"{campaign}\t{key.replace(_BACKSLASH, _TWICE)}\t"
            f"{payload.replace(_BACKSLASH, _TWICE)}\t{priority}\n"
            for _, (key, payload, priority) in tasks
        ]
    ).encode()


def task_json(encoded: Encoded) -> str:
    """Return a task as the JSON text that `submit` and `seed_tasks` take."""
    key, payload, priority = encoded
    return f'{{"key":{json.dumps(key)},"payload":{payload},"priority":{priority}}}'
