"""Background load of the server during a case: checkpoints, vacuums and a held snapshot."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from benchmarks.meter import held_snapshot
from taskq.db.connections import Database, Statements
from taskq.model.errors import Unavailable

PAUSE_S: Final = 0.1
"""Between a checkpoint and the next: with nothing to write they would follow without end."""


@contextmanager
def unrest(database: Database) -> Iterator[None]:
    """Hold a snapshot, and let the server write checkpoints and vacuum the database all the time.

    When the block has ended nothing of it goes on. Raise `Conflict` if the snapshot did not stand
    still.
    """
    chores = [_Chore(database, name) for name in ("checkpoint", "analyze")]
    with held_snapshot(database):
        try:
            for chore in chores:
                chore.start()
            yield
        finally:
            for chore in chores:
                chore.end()


class _Chore(threading.Thread):
    """Runs a statement of the folder `bench` again and again."""

    def __init__(self, database: Database, name: str) -> None:
        super().__init__(name=f"taskq-bench-{name}", daemon=True)
        self._database = database
        self._statement = name
        self._over = threading.Event()
        self._running: Statements | None = None

    def run(self) -> None:
        """Repeat the statement until `end` is called."""
        with suppress(Unavailable), self._database.connection() as statements:
            self._running = statements
            while not self._over.wait(PAUSE_S):
                statements.execute(f"benchmarks.sql/{self._statement}")

    def end(self) -> None:
        """Cancel the running statement: a vacuum of a large table may take minutes."""
        self._over.set()
        if self._running is not None:
            self._running.cancel()
        self.join()
