"""Up, down, status: one server, found by everybody, with all its data."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from taskq.embedded import Installation, Server, ServerInfo
from tests.integration.embedded.support import (
    IS_ROOT,
    ORDINARY_UID,
    call,
    command,
    environment,
    mode,
    rewrite,
    store,
    value,
)


def test_data_is_there_after_down_and_up(server: Server) -> None:
    """`down` ends the server, and the next `up` finds what was committed."""
    info = server.up()
    store(info, "kept", 42)
    assert server.down()
    assert server.status() is None
    assert not server.down()
    again = server.up()
    assert again.started_now
    assert again.pid != info.pid
    assert value(again, "select count(*) from kept") == 42


def test_up_of_a_running_server_is_fast_and_changes_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command calls it: it starts no process and waits for none."""
    info = server.up()
    with monkeypatch.context() as alone:
        alone.delattr("subprocess.Popen")
        alone.delattr("time.sleep")
        again = server.up()
    assert (again.pid, again.dsn, again.started_now) == (info.pid, info.dsn, False)
    status = server.status()
    assert status is not None
    assert status.pid == info.pid


def test_info_shows_the_process_that_runs(server: Server) -> None:
    """The answer is about the process that runs."""
    info = server.up()
    assert str(value(info, "select version()")).startswith(f"PostgreSQL {info.version_text} ")
    assert value(info, "show data_directory") == str(info.data_dir)
    assert info.data_dir == server.home.path / "data"
    assert value(info, "select current_user || '@' || current_database()") == "taskq@taskq"
    owner = "select pg_get_userbyid(datdba) from pg_database where datname = 'taskq'"
    assert value(info, owner) == "taskq"
    assert "ready to accept connections" in info.log_file.read_text()
    assert (info.run_as is not None) == IS_ROOT
    assert any("refuses to run as root" in note for note in info.notes) == IS_ROOT


@pytest.mark.thorough
def test_ordinary_user_runs_a_server_of_their_own(place: Path, installation: Installation) -> None:
    """No root, no other account: all that is made is the user's and closed to others."""
    home = place / "share/taskq"
    up, status, again = call(home, "up", "status", "up", installation=installation)
    assert (up["started_now"], up["run_as"], up["notes"]) == (True, None, [])
    assert status["pid"] == again["pid"] == up["pid"]
    assert not again["started_now"]
    assert mode(home) == mode(home / "data") == 0o700
    assert {path.stat().st_uid for path in [home, *home.iterdir()]} == {ORDINARY_UID}
    assert Path(f"/proc/{up['pid']}").stat().st_uid == ORDINARY_UID
    if IS_ROOT:
        # Root may look and stop, but makes no files among that user's.
        seen = Server(home).status()
        assert seen is not None
        assert value(seen, "select current_user") == "taskq"
        assert Server(home).down()
        (up,) = call(home, "up", installation=installation)
        assert up["started_now"]
    assert call(home, "down", "down", installation=installation) == [True, False]


@pytest.mark.thorough
def test_simultaneous_ups_make_one_server(place: Path, installation: Installation) -> None:
    """Several commands at once, the first ever: one makes it, all use it."""
    running = [
        subprocess.Popen(
            command(place / "home", "up"), env=environment(installation), stdout=subprocess.PIPE
        )
        for _ in range(4)
    ]
    answers = [json.loads(process.communicate(timeout=120)[0]) for process in running]
    assert len({answer["pid"] for answer in answers}) == 1
    assert sorted(answer["started_now"] for answer in answers) == [False, False, False, True]


def test_server_that_is_starting_already_is_waited_for(server: Server) -> None:
    """A call that was interrupted while it waited leaves a server under way, not a second one."""
    info = server.up()
    pid_file = info.data_dir / "postmaster.pid"
    text = pid_file.read_text()
    found: list[ServerInfo] = []
    rewrite(pid_file, text.replace("ready   ", "starting"))
    assert server.status() is None
    waiting = threading.Thread(target=lambda: found.append(server.up()))
    waiting.start()
    rewrite(pid_file, text)
    waiting.join()
    assert (found[0].pid, found[0].started_now) == (info.pid, False)


@pytest.mark.thorough
def test_server_outlives_signals_of_the_terminal(server: Server) -> None:
    """Ctrl-C, a closed terminal and the end of the caller are not the server's affair."""
    server.down()
    caller = subprocess.Popen(
        command(server.home.path, "up", "stay", uid=os.geteuid()),
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with caller:
        assert caller.stdout is not None
        started = json.loads(caller.stdout.readline())
        os.killpg(caller.pid, signal.SIGHUP)
        os.killpg(caller.pid, signal.SIGINT)
        assert caller.wait(timeout=60) != 0
    assert os.getsid(started["pid"]) != caller.pid
    info = server.up()
    assert info.pid == started["pid"]
    assert value(info, "select 1") == 1


@pytest.mark.thorough
def test_home_may_be_moved_to_a_path_too_long_for_a_socket(server: Server) -> None:
    """A socket's address holds 107 bytes; the socket then is in a private folder elsewhere."""
    store(server.up(), "moved", 3)
    server.down()
    moved = Server(server.home.path.parent / ("long" * 30))
    server.home.path.rename(moved.home.path)
    try:
        info = moved.up()
        assert value(info, "select count(*) from moved") == 3
        folder = Path(str(value(info, "show unix_socket_directories")).strip('"'))
        assert mode(folder) == 0o700
        assert not folder.is_relative_to(moved.home.path)
        assert moved.down()
        shutil.rmtree(folder)
    finally:
        moved.down()
        moved.home.path.rename(server.home.path)


def test_down_and_status_make_nothing(place: Path) -> None:
    """To ask is not to create."""
    server = Server(place / "home")
    assert server.status() is None
    assert not server.down()
    assert not (place / "home").exists()
