"""Meters of the server during a case: a held snapshot, the CPU time of a server process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from taskq.db.connections import Database, Statements
from taskq.model.errors import Conflict

NS: Final = 1e9

Clock = Callable[[], float]


@contextmanager
def held_snapshot(database: Database) -> Iterator[None]:
    """Hold a snapshot during the block; raise `Conflict` if it has not stood still."""
    with database.transaction() as statements:
        statements.execute("benchmarks.sql/repeatable_read")
        (backend,) = statements.rows("backend")
        held = database.value("benchmarks.sql/held", pid=backend["pid"])
        yield
        if held is None or database.value("benchmarks.sql/held", pid=backend["pid"]) != held:
            raise Conflict("no snapshot was held during the measurement")


def busy_clock(statements: Statements) -> tuple[Clock, str]:
    """Return a clock of the seconds that a connection's server process works, and its name.

    It is the kernel's account of the process if that runs on this machine, else the time that
    passes here.
    """
    (backend,) = statements.rows("backend")
    account = Path(f"/proc/{backend['pid']}/schedstat")  # first field: nanoseconds on a core
    if backend["here"] and account.exists():
        return (lambda: int(account.read_text().split()[0]) / NS), "time on a core"
    return time.perf_counter, "time of the statements"
