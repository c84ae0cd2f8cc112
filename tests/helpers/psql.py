"""The psql of the PostgreSQL that tests run on."""

from __future__ import annotations

import shutil
from pathlib import Path

from taskq import embedded


def psql_program() -> Path:
    """Return its path: next to the server's programs, else that of the system."""
    bundled = embedded.locate().bin_dir / "psql"
    return bundled if bundled.exists() else Path(shutil.which("psql") or "psql")
