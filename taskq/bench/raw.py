"""The limit: pgbench claims and completes rows of a bare table, in two transactions each."""

from __future__ import annotations

import importlib.resources
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final, Literal

from taskq import embedded
from taskq.database import Database
from taskq.errors import NotFound, Unavailable

BATCH: Final = 100

_TPS: Final = re.compile(r"tps = ([\d.]+)")


class Raw:
    """The bare table of a database, and pgbench runs on it."""

    def __init__(self, database: Database, folder: Path) -> None:
        """Make the table; raise `NotFound` if there is no pgbench. folder: for scripts."""
        self._database = database
        self._folder = folder
        self._pgbench = _pgbench()
        scripts = importlib.resources.files("taskq.sql.bench")
        for kind in ("one", "batch"):
            (folder / f"{kind}.sql").write_text(scripts.joinpath(f"{kind}.sql").read_text())
        with database.connection() as statements:
            statements.script(scripts.joinpath("table.sql").read_text())

    def fill(self, rows: int) -> None:
        """Add waiting rows."""
        self._database.execute("fill", folder="bench", rows=rows)

    def rate(self, kind: Literal["one", "batch"], clients: int, seconds: float) -> float:
        """Return completed rows a second, with so many clients, prepared statements."""
        argv = [
            str(self._pgbench),
            "--no-vacuum",
            "--protocol=prepared",
            f"--file={self._folder / kind}.sql",
            f"--client={clients}",
            f"--jobs={min(clients, 2)}",
            f"--time={max(1, round(seconds))}",
            "--define=id=0",
            "--define=ids={}",
            self._database.dsn,
        ]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        found = _TPS.search(done.stdout)
        if done.returncode or found is None:
            raise Unavailable(f"pgbench failed: {done.stderr.strip()[-300:]}")
        return float(found[1]) * (BATCH if kind == "batch" else 1)


def _pgbench() -> Path:
    beside = embedded.locate().bin_dir / "pgbench"
    found = str(beside) if beside.exists() else shutil.which("pgbench")
    if found is None:
        raise NotFound("no pgbench beside the PostgreSQL programs or on PATH")
    return Path(found)
