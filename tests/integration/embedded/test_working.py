"""A server that listens and cannot work is not taken for one that runs."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import signal
import subprocess
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import psycopg
import pytest

from taskq.db.connections import Database
from taskq.db.translation import EMBEDDED
from taskq.embedded import Installation, RedisServer, Server, ServerInfo, redis_server
from taskq.embedded.installation import locate
from taskq.model.errors import ServerUnsuitable, Unavailable
from tests.helpers.waiting import wait_until
from tests.integration.embedded.support import store, value


def copied(installation: Installation, place: Path) -> Path:
    """Return the folder of programs of a copy, as a new environment has it."""
    prefix = installation.bin_dir.parent
    target = place / prefix.parent.name / prefix.name
    shutil.copytree(prefix, target, symlinks=True)
    libraries = prefix.parent.with_name(f"{prefix.parent.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, place / libraries.name, symlinks=True)
    for path in (place, *place.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755)
    return target / "bin"


@pytest.fixture
def remade(installation: Installation, place: Path) -> Path:
    """Give the folder of programs of an environment that can be removed and made again."""
    return copied(installation, place / "environment")


@pytest.mark.thorough
def test_server_whose_programs_were_removed_is_started_anew(
    installation: Installation, remade: Path, place: Path
) -> None:
    """With those that are there now; nothing that was stored is lost."""
    first = Server(place / "home", locate(os.fspath(remade))).up()
    store(first, "kept", 3)
    shutil.rmtree(place / "environment")
    with (
        closing(Database(first.dsn, server=EMBEDDED)) as database,
        pytest.raises(Unavailable, match="`taskq up` starts it anew") as broken,
    ):
        database.open().execute("tests.helpers/plain_block")
    assert "plpgsql" in str(broken.value)
    second = Server(place / "home", installation)
    assert second.status() is None
    found = second.up()
    assert (found.started_now, found.pid != first.pid) == (True, True)
    assert value(found, "select count(*) from kept") == 3
    assert not second.up().started_now


@pytest.mark.thorough
def test_server_stays_where_no_other_can_be_started(
    remade: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without programs nothing is stopped: what is connected may go on."""
    monkeypatch.setenv("TASKQ_PG_BIN", os.fspath(remade))
    server = Server(place / "home")
    with psycopg.connect(server.up().dsn, autocommit=True) as before:
        shutil.rmtree(place / "environment")
        with pytest.raises(ServerUnsuitable, match="holds no PostgreSQL"):
            server.up()
        assert before.execute("select 1").fetchone() == (1,)


def shared_by(info: ServerInfo) -> tuple[set[Path], set[str]]:
    """Return the shared memory of a server and its processes: POSIX's files, System V's ids."""
    files: set[Path] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            if str(info.pid) in {process.name, parent}:
                maps = (process / "maps").read_text()
                files |= set(map(Path, re.findall(r"/dev/shm/Post\w+\.\d+", maps)))  # noqa: S108  # as it is
    table = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    rows = [line.split() for line in table]
    return files, {row[1] for row in rows if row[4] == str(info.pid)}


def remove_shared(info: ServerInfo) -> None:
    """Remove its shared memory, as logind does when the user logs out (RemoveIPC)."""
    files, numbers = shared_by(info)
    for file in files:
        file.unlink()
    for number in numbers:
        subprocess.run(["ipcrm", "-m", number], check=True)


def fill_statistics(info: ServerInfo) -> None:
    """Have so many tables that the server's statistics need further shared memory."""
    with psycopg.connect(info.dsn, autocommit=True) as connection:
        for number in range(400):
            connection.execute(f"create table wide{number} (x int)".encode())
            connection.execute(f"select from wide{number}".encode())


@pytest.mark.thorough
def test_logout_leaves_a_server_that_works(place: Path, installation: Installation) -> None:
    """With its own settings it needs nothing that a logout removes, also after a crash."""
    server = Server(place / "home", installation)
    info = server.up()
    fill_statistics(info)
    files, numbers = shared_by(info)
    assert (files, len(numbers)) == (set(), 1)
    remove_shared(info)
    with psycopg.connect(info.dsn, autocommit=True) as killed:
        os.kill(killed.info.backend_pid, signal.SIGKILL)
    assert server.up().pid == info.pid
    wait_until(lambda: value_if_up(info) == 400)


def value_if_up(info: ServerInfo) -> object:
    """Return how many tables there are; None while the server recovers."""
    with suppress(psycopg.OperationalError):
        return value(info, "select count(*) from pg_class where relname like 'wide%'")
    return None


@pytest.mark.thorough
def test_server_without_its_shared_memory_is_started_anew(
    place: Path, installation: Installation
) -> None:
    """One with a setting that a logout does not spare."""
    server = Server(place / "home", installation)
    server.up()
    (server.home.conf / "user.conf").write_text("dynamic_shared_memory_type = posix\n")
    server.down()
    info = server.up()
    fill_statistics(info)
    remove_shared(info)
    with pytest.raises(Unavailable, match="`taskq up` starts it anew"):
        Database(info.dsn, server=EMBEDDED).open()
    assert server.status() is None
    found = server.up()
    assert (found.started_now, found.pid != info.pid) == (True, True)
    assert value_if_up(found) == 400


@pytest.mark.thorough
def test_busy_server_is_left_alone(place: Path, installation: Installation) -> None:
    """One that has no connection to spare works."""
    server = Server(place / "home", installation)
    server.up()
    (server.home.conf / "user.conf").write_text(
        "max_connections = 3\nsuperuser_reserved_connections = 0\n"
        "reserved_connections = 0\nmax_wal_senders = 0\n"
    )
    server.down()
    info = server.up()
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(psycopg.connect(info.dsn))
        assert server.up().pid == info.pid
        with pytest.raises(Unavailable, match="cannot do this now"):
            Database(info.dsn, server=EMBEDDED).open()


@pytest.mark.thorough
def test_redis_that_answers_nothing_is_replaced(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has nothing that cannot be lost."""
    monkeypatch.setattr(redis_server, "STOP_TIMEOUT_S", 0.5)
    server = RedisServer(place / "home")
    frozen = server.up()
    os.kill(frozen.pid, signal.SIGSTOP)
    try:
        assert server.status() is None
        found = server.up()
        assert (found.started_now, found.pid != frozen.pid) == (True, True)
        assert server.status() is not None
    finally:
        server.down()


def test_file_system_without_locks_is_refused(
    place: Path, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As some network file systems are; no such is at hand, so the call is replaced."""

    def flock(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(ServerUnsuitable, match=r"has no locks .* a local disk"):
        Server(place / "home", installation).up()
