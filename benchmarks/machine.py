"""Environment of the figures, read from the machine and the server."""

from __future__ import annotations

import os
import platform
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from taskq.db.connections import Database
from taskq.model.errors import ServerUnsuitable

FSYNCS: Final = 64
MUST_BE_ON: Final = ("fsync", "synchronous_commit", "full_page_writes")


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine and server. fsync_us: the median of writing 8 kB and syncing them."""

    cores: int
    memory_gb: float
    kernel: str
    python: str
    postgresql: str
    fsync_us: float


def look(database: Database, folder: Path) -> Machine:
    """Return the machine; raise `ServerUnsuitable` if the server does not make commits durable.

    folder: on the disk that the server writes to, as far as that is known.
    """
    for row in database.rows("benchmarks.sql/settings", names=list(MUST_BE_ON)):
        if row["setting"] != "on":
            raise ServerUnsuitable(
                f"{row['place']} sets {row['name']} = {row['setting']}; without it figures mean "
                "nothing, so none are printed"
            )
    (server,) = database.rows("server")
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        memory_gb=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        kernel=platform.release(),
        python=platform.python_version(),
        postgresql=server["version_text"],
        fsync_us=fsync_us(folder),
    )


def fsync_us(folder: Path) -> float:
    """Return the median time of writing 8 kB to a file and syncing it, in microseconds."""
    path = folder / f".taskq-fsync-{os.getpid()}"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        times = []
        for _ in range(FSYNCS):
            began = time.perf_counter()
            os.pwrite(file, bytes(8192), 0)
            os.fdatasync(file)
            times.append(time.perf_counter() - began)
    finally:
        os.close(file)
        path.unlink()
    return round(statistics.median(times) * 1e6, 1)
