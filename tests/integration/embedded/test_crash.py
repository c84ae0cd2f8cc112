"""Whatever a crash leaves behind, the next `up` ends well or says what to do."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import psycopg
import pytest

from taskq.embedded import Installation, Server, ServerInfo, postmaster
from taskq.embedded.postmaster import Postmaster
from taskq.model.errors import Conflict, ServerUnsuitable, Unavailable
from tests.helpers.waiting import wait_until
from tests.integration.embedded.support import (
    IS_ROOT,
    call,
    command,
    kill,
    rewrite,
    store,
    value,
)


def test_commits_survive_a_killed_server(server: Server) -> None:
    """SIGKILL leaves a stale pid file; the next start recovers what was committed."""
    store(server.up(), "survived", 1000)
    kill(server)
    assert server.status() is None
    assert value(server.up(), "select count(*) from survived") == 1000


def test_commits_survive_an_immediate_stop(server: Server) -> None:
    """`down --immediate` is a crash that one asks for."""
    store(server.up(), "at_once", 1000)
    assert server.down(immediate=True)
    assert value(server.up(), "select count(*) from at_once") == 1000


def test_pid_that_another_process_has_by_now_is_not_believed(server: Server) -> None:
    """PostgreSQL itself would refuse to start; taskq starts and leaves that process alone."""
    killed = kill(server)
    data = server.home.data
    owner = data.stat().st_uid
    stranger = subprocess.Popen(["sleep", "600"], user=owner if IS_ROOT else None)
    try:
        for path in (data / "postmaster.pid", server.home.path / "run/.s.PGSQL.5432.lock"):
            rewrite(path, re.sub(r"^\d+", str(stranger.pid), path.read_text()))
        assert server.status() is None
        assert not server.down()
        info = server.up()
        assert info.started_now
        assert info.pid not in {stranger.pid, killed.pid}
        assert server.down()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_zombie_is_not_taken_for_a_server(tmp_path: Path) -> None:
    """In a container whose first process collects no children, dead servers keep their pid."""
    child = subprocess.Popen(["true"])
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not Postmaster(tmp_path, child.pid).is_process()
    finally:
        child.wait()


def test_start_waits_for_processes_of_a_killed_server(server: Server) -> None:
    """As long as one of them may write, a second server on the data would destroy it."""
    info = server.up()
    log_size = info.log_file.stat().st_size
    found: list[ServerInfo] = []
    with psycopg.connect(info.dsn) as connection:
        backend = connection.info.backend_pid
        os.kill(backend, signal.SIGSTOP)
        kill(server)
        starting = threading.Thread(target=lambda: found.append(server.up()))
        starting.start()
        try:
            wait_until(lambda: "still in use" in info.log_file.read_text()[log_size:])
            assert server.status() is None
        finally:
            os.kill(backend, signal.SIGCONT)
            starting.join()
    assert found[0].started_now
    assert value(found[0], "select 1") == 1


def test_lost_socket_is_reported(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody removed the socket of a server that is at work: say so, do not start another."""
    monkeypatch.setattr(postmaster, "SOCKET_TIMEOUT_S", 0.1)
    info = server.up()
    (server.home.path / "run/.s.PGSQL.5432").unlink()
    assert server.status() is None
    with pytest.raises(Unavailable, match=r"its socket was removed.*taskq down"):
        server.up()
    assert server.down()
    assert server.up().pid != info.pid


def test_server_of_another_host_is_left_alone(server: Server) -> None:
    """On a home directory that hosts share, a pid says nothing about the other hosts."""
    kill(server)
    state = server.home.state
    before = state.read_text()
    rewrite(state, json.dumps({"host": "login-2", "boot_id": "other", "version": "18"}))
    for verb in (server.up, server.status, server.down):
        with pytest.raises(Conflict, match="host 'login-2'"):
            verb()
    rewrite(state, before)
    assert server.up().started_now


def test_server_that_was_stopped_elsewhere_may_be_started_here(server: Server) -> None:
    """A clean stop leaves no pid file, so any host may be the next."""
    server.up()
    server.down()
    rewrite(server.home.state, json.dumps({"host": "login-2", "boot_id": "other"}))
    assert server.up().started_now


def test_empty_pid_file_of_a_full_disk_is_no_obstacle(server: Server) -> None:
    """PostgreSQL itself would refuse to start until somebody removes the file."""
    server.up()
    server.down()
    pid_file = server.home.data / "postmaster.pid"
    pid_file.touch(mode=0o600)
    if IS_ROOT:
        shutil.chown(pid_file, server.home.data.owner())
    assert server.status() is None
    assert server.up().started_now


def test_damaged_pid_file_is_named(server: Server) -> None:
    """Nobody can tell whether a server runs, so the user is asked to look."""
    server.up()
    server.down()
    pid_file = server.home.data / "postmaster.pid"
    pid_file.write_text("no number\n")
    try:
        with pytest.raises(ServerUnsuitable, match=r"postmaster\.pid is damaged: .* remove it"):
            server.up()
    finally:
        pid_file.unlink()


def test_pid_file_is_not_read_through_a_link(server: Server, tmp_path: Path) -> None:
    """The data directory may be another user's, who could point root at any file."""
    server.up()
    server.down()
    secret = tmp_path / "secret"
    secret.write_text("1\nof root alone\n")
    pid_file = server.home.data / "postmaster.pid"
    pid_file.symlink_to(secret)
    try:
        with pytest.raises(ServerUnsuitable, match=r"postmaster\.pid: Too many levels of symbolic"):
            server.up()
    finally:
        pid_file.unlink()


@pytest.mark.thorough
def test_interrupted_creation_is_done_again(place: Path) -> None:
    """A data directory is there complete or not at all."""
    home = place / "home"
    with subprocess.Popen(command(home, "up", uid=os.geteuid())) as process:
        wait_until(lambda: list(home.glob("data.unfinished.*/data/PG_VERSION")))
        process.kill()
    assert not (home / "data").exists()
    server = Server(home)
    assert server.up().started_now

    def restart_leaves_nothing() -> bool:
        # At first the initdb of the killed process may still be writing.
        server.down()
        server.up()
        return not list(home.glob("data.unfinished.*"))

    wait_until(restart_leaves_nothing)


@pytest.mark.thorough
def test_failed_creation_leaves_nothing(place: Path, installation: Installation) -> None:
    """A disk that takes no more: the error repeats what initdb said and says what to do."""
    (answer,) = call(place / "home", "up", installation=installation, max_file_bytes=2**20)
    assert answer["error"] == "Unavailable"
    assert str(place / "home") in answer["text"]
    assert "TASKQ_HOME" in answer["text"]
    assert not (place / "home/data").exists()
    assert not list((place / "home").glob("data.unfinished.*"))
