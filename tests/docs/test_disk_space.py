"""docs/disk-space.md can be typed in order, and the tables have the sizes that it says."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from taskq.db import migrations
from taskq.db.connections import Database
from taskq.embedded import Server
from taskq.embedded.installation import locate
from tests.fixtures.servers import make_home
from tests.helpers.tutorial import TUTORIALS, Shell, readers_shell

pytestmark = pytest.mark.thorough

PAGE = TUTORIALS.parent / "disk-space.md"
ON_PAGE = "postgresql://queue_owner@db.example.org:5432/queue"


@pytest.fixture
def dsn() -> Iterator[str]:
    """Give the address of a server of the reader."""
    home = make_home()
    server = Server(home)
    try:
        with closing(Database(server.up().dsn).open()) as database:
            migrations.migrate(database)
            yield database.dsn
    finally:
        server.down(immediate=True)
        shutil.rmtree(home)


def size(dsn: str, what: str) -> int:
    """Return the bytes of the rows, or the indexes, of the keys and payloads of tasks."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute(f"select pg_{what}_size('taskq.spec')").fetchone()
    assert row is not None
    return int(row[0])


def test_disk_space_comes_back_as_the_page_says(tmp_path: Path, dsn: str) -> None:
    """Rows in the midst of a table make room for others only; indexes and rows shrink apart."""
    environment = {"PATH": f"{locate().bin_dir}{os.pathsep}{os.environ['PATH']}"}
    with readers_shell(tmp_path, environment) as shell:
        follow(shell, dsn, "See what is large")
        rows, indexes = size(dsn, "table"), size(dsn, "indexes")
        follow(shell, dsn, "Remove what has ended")
        assert rows * 0.9 < size(dsn, "table") < rows * 1.1
        follow(shell, dsn, "Let new tasks use the room")
        assert size(dsn, "table") < rows * 1.2
        follow(shell, dsn, "Shrink the files")
        assert size(dsn, "table") < rows / 4
        assert size(dsn, "indexes") < indexes / 4


def follow(shell: Shell, dsn: str, heading: str) -> None:
    """Do what the page says below a heading."""
    assert shell.follow(PAGE, {ON_PAGE: f"'{dsn}'"}, heading=heading)
