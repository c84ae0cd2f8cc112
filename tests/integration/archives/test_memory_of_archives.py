"""Memory of archives and restores: of each range that is finished, little more than names stays."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from taskq import Client
from taskq.archives.restoring import restore
from taskq.archives.writing import archive
from taskq.db.connections import Database
from taskq.files.blobs import open_blobs
from taskq.results.parquet import require_pyarrow
from tests.fixtures.queues import Hire
from tests.helpers.retention import ended

RANGES = 20
RANGE_TASKS = 50
#: For each range: names, digests and numbers of its three files. Its tasks' ids, and nothing else
#: of them, would take as much again.
MOST_BYTES = 2_500


@contextmanager
def noting_memory() -> Iterator[Callable[[int, int, str], None]]:
    """Give an `on_progress`; then see that what is held has not grown with the ranges.

    Those of the first half fill caches.
    """
    held: dict[str, dict[int, int]] = {}

    def note(done: int, of: int, what: str) -> None:
        gc.collect()
        now = tracemalloc.get_traced_memory()[0] + require_pyarrow().total_allocated_bytes()
        least, place = held.setdefault(what, {}), min(done * RANGES // of, RANGES - 1)
        least[place] = min(now, least.get(place, now))

    tracemalloc.start()
    try:
        yield note
    finally:
        tracemalloc.stop()
    for what, least in held.items():
        grown = least[RANGES - 1] - least[RANGES // 2]
        assert grown < MOST_BYTES * RANGES // 2, what
    assert len(held) == 2


def test_memory_does_not_grow_with_the_ranges_of_an_archive(
    queue: Client, database: Database, hire: Hire, tmp_path: Path
) -> None:
    """Neither while it is written, nor while it is verified, nor while it is restored."""
    ended(queue, hire, "/c", tasks=RANGES * RANGE_TASKS)
    blobs = open_blobs(database)
    with noting_memory() as note:
        made = archive(database, blobs, "/c", tmp_path / "a", note, range_tasks=RANGE_TASKS)
    assert sum(file.table == "attempts" for file in made.manifest.files) == RANGES
    with noting_memory() as note:
        restore(database, blobs, tmp_path / "a", "/d", note, step_rows=RANGE_TASKS)
    assert queue.campaign("/d").status().done == RANGES * RANGE_TASKS
