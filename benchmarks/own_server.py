"""Temporary PostgreSQL server that a case can stop and start, for the duration of a block."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from taskq.embedded import Server


@contextmanager
def own_server(place: Path | None = None) -> Iterator[Server]:
    """Make an embedded server, which is up; stop and remove it afterwards.

    place: a folder for its files; None: that of temporary files.
    """
    home = Path(tempfile.mkdtemp(prefix="taskq-bench-", dir=place))
    home.chmod(0o755)  # root's server runs as another user, who must get there
    server = Server(home)
    try:
        server.up()
        yield server
    finally:
        server.down(immediate=True)
        shutil.rmtree(home)
