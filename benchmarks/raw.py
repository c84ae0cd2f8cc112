"""Limit of the server: pgbench claims and completes rows of a bare table, two transactions each."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final, Literal

from taskq import embedded
from taskq.db.catalogue import statement
from taskq.db.connections import Database
from taskq.model.errors import NotFound, Unavailable

BATCH: Final = 100
LEAST_S: Final = 1
"""pgbench takes whole seconds."""

_TPS: Final = re.compile(r"tps = ([\d.]+)")


class Raw:
    """The bare table of a database, and pgbench runs on it."""

    def __init__(self, database: Database, folder: Path) -> None:
        """Make the table; raise `NotFound` if there is no pgbench. folder: for scripts."""
        self._database = database
        self._folder = folder
        self._waiting = 0.0
        with database.connection() as statements:
            statements.script(statement("benchmarks.sql/table"))

    def top_up(self, rows: int) -> None:
        """Add rows until about this many are waiting."""
        if rows > self._waiting:
            missing = round(rows - self._waiting)
            self._database.execute("benchmarks.sql/fill", rows=missing)
            self._waiting += missing

    def rate(self, kind: Literal["one", "batch"], clients: int, seconds: float) -> float:
        """Return completed rows a second, with so many clients, prepared statements."""
        rows = BATCH if kind == "batch" else 1
        whole_s = max(LEAST_S, round(seconds))
        found = rows * pgbench(
            self._database.dsn,
            kind,
            self._folder,
            "--protocol=prepared",
            f"--client={clients}",
            f"--jobs={min(clients, 2)}",
            f"--time={whole_s}",
            "--define=id=0",
            "--define=ids={}",
        )
        self._waiting -= found * whole_s
        return found


def pgbench(dsn: str, script: str, folder: Path, *options: str) -> float:
    """Run a script of `benchmarks/sql` and return how often it ran a second."""
    file = folder / f"{script}.sql"
    file.write_text(statement(f"benchmarks.sql/{script}"))
    argv = [str(_pgbench()), "--no-vacuum", f"--file={file}", *options, dsn]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    found = _TPS.search(done.stdout)
    if done.returncode or found is None:
        raise Unavailable(f"pgbench failed: {done.stderr.strip()[-300:]}")
    return float(found[1])


def _pgbench() -> Path:
    nearby = embedded.locate().bin_dir / "pgbench"
    found = str(nearby) if nearby.exists() else shutil.which("pgbench")
    if found is None:
        raise NotFound("no pgbench next to the PostgreSQL programs or on PATH")
    return Path(found)
