"""Where an embedded server may be made, and what stands in its way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from taskq.embedded import Installation, Server
from taskq.embedded.account import server_account
from taskq.embedded.home import Home, default_home
from taskq.model.errors import ServerUnsuitable
from tests.integration.embedded.support import IS_ROOT, ORDINARY_UID, call


def test_home_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """TASKQ_HOME first; then root's fixed place, or the user's data directory."""
    monkeypatch.setenv("XDG_DATA_HOME", "/xdg")
    assert default_home() == Path("/var/lib/taskq" if IS_ROOT else "/xdg/taskq")
    monkeypatch.setenv("TASKQ_HOME", "/elsewhere")
    assert default_home() == Path("/elsewhere")


@pytest.mark.parametrize("name", ["closed/home", "file", "file/home"])
def test_directory_that_cannot_be_made_is_named(
    place: Path, installation: Installation, name: str
) -> None:
    """An unwritable parent, and a file in the way."""
    (place / "closed").mkdir(mode=0o555)
    (place / "file").write_text("")
    (answer,) = call(place / name, "up", installation=installation)
    assert answer["error"] == "ServerUnsuitable"
    assert str(place / name) in answer["text"]
    assert "TASKQ_HOME" in answer["text"]
    assert {path.name for path in place.rglob("*")} == {"closed", "file"}


def test_a_place_where_nobody_can_write_is_not_to_be_tried_again(
    installation: Installation,
) -> None:
    """Not even root makes a folder in /proc, which says that it does not exist."""
    (answer,) = call(Path("/proc/taskq"), "up", installation=installation)
    assert answer["error"] == "ServerUnsuitable"
    assert "TASKQ_HOME" in answer["text"]


@pytest.mark.parametrize("major", ["13", "99"])
def test_data_of_another_major_version_is_kept(place: Path, major: str) -> None:
    """The error names the directory, both versions and a way out."""
    home = Home(place / "home")
    home.make(server_account(home.data))
    home.data.mkdir()
    (home.data / "PG_VERSION").write_text(f"{major}\n")
    if IS_ROOT:
        os.chown(home.data, ORDINARY_UID, -1)
    with pytest.raises(ServerUnsuitable, match=rf"PostgreSQL {major}, but .*TASKQ_PG_BIN"):
        Server(home.path).up()
    assert [path.name for path in home.data.iterdir()] == ["PG_VERSION"]


def test_folder_with_other_files_is_not_taken_for_data(place: Path) -> None:
    """Nothing of the user's is overwritten."""
    home = Home(place / "home")
    home.make(server_account(home.data))
    home.data.mkdir()
    (home.data / "thesis.tex").write_text("")
    with pytest.raises(ServerUnsuitable, match="is not empty and no data directory"):
        Server(home.path).up()
    assert (home.data / "thesis.tex").exists()


def test_socket_folder_of_somebody_else_is_refused(place: Path) -> None:
    """Whoever can write in the socket's folder can pose as the server."""
    home = Home(place)
    (place / "run").mkdir()
    (place / "run").chmod(0o777)
    with pytest.raises(ServerUnsuitable, match="closed to others"):
        home.make_socket_dir(server_account(home.data))
