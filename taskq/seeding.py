"""Seeding: streams tasks into a campaign by COPY, a chunk at a time.

A chunk is one transaction: under a lock for the campaign it asks which of its keys are there
already, copies the others, and makes them claimable. So memory is bounded by a chunk, seeding
the same again adds nothing, and what was committed before an interruption is not lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from taskq.database import Database
from taskq.errors import InvalidTask
from taskq.model import Seed
from taskq.sources.records import BadLine

CHUNK: Final = 5_000
CHUNK_CHARS: Final = 4_000_000

Seedable: TypeAlias = Seed | Mapping[str, Any] | BadLine
Encoded: TypeAlias = tuple[str, str, int]


@dataclass(slots=True)
class SeedCount:
    """How far seeding is: records read, tasks added, keys known before, bad records passed over."""

    read: int = 0
    added: int = 0
    known: int = 0
    bad: int = 0


def seed(
    database: Database,
    campaign: int,
    records: Iterable[Seedable],
    *,
    on_bad: Callable[[BadLine], None] | None,
    on_progress: Callable[[SeedCount], None] | None,
) -> SeedCount:
    """Seed a campaign; see `Campaign.seed`."""
    count = SeedCount()
    encoded = _encoded(records, count, on_bad)
    try:
        for chunk in _chunks(encoded):
            _seed_chunk(database, campaign, chunk, count)
            if on_progress is not None:
                on_progress(count)
    except InvalidTask as error:
        raise InvalidTask(
            f"{error} (tasks added so far: {count.added}; "
            "seeding again goes on from there and adds none twice)"
        ) from error
    return count


def _chunks(encoded: Iterable[Encoded]) -> Iterator[dict[str, Encoded]]:
    """Yield records by their keys, of several with one key the first."""
    chunk: dict[str, Encoded] = {}
    chars = 0
    for one in encoded:
        chunk.setdefault(one[0], one)
        chars += len(one[1])
        if len(chunk) >= CHUNK or chars >= CHUNK_CHARS:
            yield chunk
            chunk, chars = {}, 0
    if chunk:
        yield chunk


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


def _seed_chunk(
    database: Database, campaign: int, chunk: dict[str, Encoded], count: SeedCount
) -> None:
    with database.transaction() as statements:
        above = statements.value("seed_begin", campaign=campaign)
        for row in statements.rows("seed_known", campaign=campaign, keys=list(chunk)):
            del chunk[row["key"]]
        if chunk:
            statements.copy("seed_copy", ((campaign, *one) for one in chunk.values()))
            statements.value("seed_end", campaign=campaign, above=above)
    count.added += len(chunk)
    count.known = count.read - count.added - count.bad
