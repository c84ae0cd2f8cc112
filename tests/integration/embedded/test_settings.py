"""Settings of the server: durable, closed, modest, and open to the user's own."""

from __future__ import annotations

import socket
from urllib.parse import quote

import psycopg
import pytest

from taskq.embedded import Server, account
from taskq.embedded.postmaster import read_pid_file
from taskq.embedded.settings import shared_buffers_mib
from taskq.model.errors import Conflict, Unavailable, UsageError
from tests.helpers.waiting import free_port
from tests.integration.embedded.support import mode, rewrite, value


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("data_checksums", "on"),
        ("listen_addresses", ""),
        ("max_connections", "300"),
        ("min_wal_size", "32MB"),
        ("jit", "off"),
        ("TimeZone", "UTC"),
    ],
)
def test_settings_are_durable_and_closed(server: Server, setting: str, expected: str) -> None:
    """The embedded server loses nothing that was committed and opens no port."""
    assert value(server.up(), f"show {setting}") == expected


@pytest.mark.parametrize(
    ("memory_gib", "expected_mib"), [(0.25, 128), (4, 512), (8, 1024), (512, 1024)]
)
def test_shared_buffers_are_modest(memory_gib: float, expected_mib: int) -> None:
    """An eighth of the memory, between 128 MiB and 1 GiB."""
    assert shared_buffers_mib(int(memory_gib * 2**30)) == expected_mib


def test_nobody_is_trusted(server: Server) -> None:
    """Peer by socket, a password by TCP; the files are valid, and closed to others."""
    info = server.up()
    methods = "select string_agg(distinct auth_method, ' ' order by auth_method)"
    assert value(info, f"{methods} from pg_hba_file_rules") == "peer scram-sha-256"
    assert value(info, "select count(*) from pg_hba_file_rules where error is not null") == 0
    running = read_pid_file(info.data_dir)
    assert running is not None
    assert running.socket_dir is not None
    assert mode(running.socket_dir) == mode(info.data_dir) == 0o700
    assert mode(server.home.password) == 0o600


@pytest.mark.thorough
def test_settings_of_the_user_win_and_stay(server: Server) -> None:
    """user.conf is read last and never rewritten."""
    server.up()
    server.down()
    user = server.home.conf / "user.conf"
    before = user.read_text()
    rewrite(user, "max_connections = 77\n")
    try:
        assert value(server.up(), "show max_connections") == "77"
        assert user.read_text() == "max_connections = 77\n"
    finally:
        rewrite(user, before)
        server.down()


@pytest.mark.thorough
def test_wrong_setting_is_reported_from_the_log(server: Server) -> None:
    """A server that does not start says why, and nothing is left running."""
    server.up()
    server.down()
    user = server.home.conf / "user.conf"
    before = user.read_text()
    rewrite(user, "shared_buffers = 'much'\n")
    try:
        with pytest.raises(Unavailable, match=r'(?s)server\.log.*"shared_buffers": "much"'):
            server.up()
        assert server.status() is None
    finally:
        rewrite(user, before)
    assert server.up().started_now


def test_log_of_long_use_is_put_aside(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is limited at each start, and the one before it is kept."""
    server.up()
    server.down()
    monkeypatch.setattr(account, "MAX_LOG_BYTES", 10)
    log = server.up().log_file
    assert log.with_name("server.log.1").stat().st_size > 10
    assert log.read_text().count("starting PostgreSQL") == 1


def test_port_can_be_opened_with_a_password(server: Server) -> None:
    """TCP is for those who hold the password; the socket stays the way of the owner."""
    server.down()
    port = free_port()
    info = server.up(port=port)
    try:
        assert any(str(port) in note for note in info.notes)
        assert server.up(port=port).pid == info.pid
        assert value(info, "select inet_server_port()") is None
        dsn = f"postgresql://taskq@127.0.0.1:{port}/taskq?password="
        password = server.home.password.read_text().strip()
        with psycopg.connect(dsn + quote(password)) as connection:
            assert connection.execute("select inet_server_port()").fetchone() == (port,)
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(dsn + "wrong")
    finally:
        server.down()


def test_taken_port_is_named_and_nothing_is_started(server: Server) -> None:
    """The user learns which port, and that none is needed."""
    server.down()
    with socket.socket() as other:
        other.bind(("127.0.0.1", free_port()))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(Unavailable, match=rf"port {port} .* choose another, or none"):
            server.up(port=port)
        assert server.status() is None
    assert server.up().started_now


def test_port_of_a_server_that_runs_without_is_a_conflict(server: Server) -> None:
    """A running server is not restarted behind its clients."""
    info = server.up()
    with pytest.raises(Conflict, match="taskq down"):
        server.up(port=free_port())
    assert server.up().pid == info.pid


@pytest.mark.parametrize("port", [0, 80, 32_768, 70_000])
def test_port_outside_the_range_is_refused(server: Server, port: int) -> None:
    """Privileged ports, and those that outgoing connections get, are no place for a server."""
    with pytest.raises(UsageError, match="1024 to 32767"):
        server.up(port=port)
