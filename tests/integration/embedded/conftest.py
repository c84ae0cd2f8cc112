"""A server that the tests share, and places to make others in."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskq.embedded import Installation, Server, locate
from taskq.embedded.account import server_account
from taskq.embedded.home import Home
from taskq.embedded.installation import reachable
from tests.fixtures.servers import cheapest_folder, choose_user
from tests.integration.embedded.support import IS_ROOT


def _make_place() -> Path:
    # Not tmp_path, which is closed to the user that root's server runs as.
    path = Path(tempfile.mkdtemp(prefix="taskq-test-", dir=cheapest_folder()))
    path.chmod(0o777)
    return path


def _remove_place(path: Path) -> None:
    for data in path.rglob("data"):
        Server(data.parent).down(immediate=True)
    shutil.rmtree(path)


@pytest.fixture(autouse=True)
def _no_choices_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TASKQ_HOME", "TASKQ_PG_BIN", "TASKQ_RUN_AS"):
        monkeypatch.delenv(name, raising=False)
    choose_user()


@pytest.fixture
def place() -> Iterator[Path]:
    """Give a directory that everybody may enter and write."""
    path = _make_place()
    yield path
    _remove_place(path)


@pytest.fixture(scope="session")
def shared_home() -> Iterator[Path]:
    """Give a home whose name a shell, a list of paths or a quoted string would trip over."""
    parent = _make_place()
    yield parent / 'hömé o\' "$(exit 1)"\\'
    _remove_place(parent)


@pytest.fixture
def server(shared_home: Path) -> Server:
    """Give the shared server: each test may find it up or down, but without a TCP port."""
    return Server(shared_home)


@pytest.fixture(scope="session")
def installation() -> Iterator[Installation]:
    """Give an installation that the ordinary user can run, wherever the tests' own lies."""
    found = locate()
    if not IS_ROOT:
        yield found
        return
    place = _make_place()
    home = Home(place)
    yield reachable(found, server_account(home.data), home)
    _remove_place(place)
