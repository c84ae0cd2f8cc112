"""docs/restoring.md can be typed in order, between two real servers."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from taskq.embedded import Server
from taskq.embedded.installation import Installation, locate
from tests.fixtures.servers import make_home
from tests.helpers.older_postgres import older_programs, readable
from tests.helpers.tutorial import TUTORIALS, Shell, readers_shell
from tests.helpers.waiting import free_port, wait_until

pytestmark = pytest.mark.thorough

PAGE = TUTORIALS.parent / "restoring.md"
OLDER = sorted(older_programs())
NEW_SERVER = "On a new server"
EMBEDDED = "An older PostgreSQL under an embedded queue"
#: As the page of production makes them, and a group.
LOGINS = """
    create role queue_owner login password 'choose-one';
    create role queue_gateway login password 'choose-two';
    create role ada login password 'choose-three';
    create role chemists;
    create role eve login password 'choose-seven' valid until '2099-01-01' connection limit 20;
    grant chemists to eve;
"""
GRANTS = (
    "gateway queue_gateway",
    "manager queue_gateway",
    "pickler queue_gateway",
    "submitter ada",
    "operator ada",
    "reader chemists",
)
PASSWORDS = """\
localhost:{old}:*:queue_owner:choose-one
localhost:{old}:*:queue_gateway:choose-two
localhost:{new}:*:admin:choose-eight
localhost:{new}:*:queue_owner:choose-four
localhost:{new}:*:queue_gateway:choose-five
"""
#: A farm's data: tasks in each status, an agent that is gone, an input, a token, a quota, a rule.
FARM = """\
taskq campaign create /farm/done --max-attempts 2 --backoff 0 -- sh -c 'test {{n}} -ne 7'
taskq seed /farm/done --sweep n=1:60
taskq agent run --campaign /farm/done --slots 4 --until-empty > done.log 2>&1
taskq campaign create /farm/held --backoff 1h \
    -- sh -c 'test {{n}} -ne 1 && until test -e {gate}; do sleep 0.1; done'
taskq seed /farm/held --sweep n=1:40
echo reference > reference.txt && taskq input add /farm/held reference.txt
taskq token create nodes --kind site --campaign /farm --expires-in 90d --to nodes.token
taskq owner quota queue_owner --running 1000
taskq notify add pager --to command:pager --campaign /farm --on paused
"""


class Side(NamedTuple):
    """A server: its superuser's address, and its port."""

    dsn: str
    port: int


@contextmanager
def side(installation: Installation | None = None) -> Iterator[Side]:
    """Give a server that is as safe as `db check` asks for, and listens at a port."""
    home = make_home()
    (home / "conf" / "user.conf").write_text("")
    server, port = Server(home, installation), free_port()
    try:
        yield Side(server.up(port=port).dsn, port)
    finally:
        server.down(immediate=True)
        shutil.rmtree(home)


def run(shell: Shell, line: str) -> str:
    """Run a command that must succeed."""
    printed = shell.run(f"{line} || echo command-has-failed")
    assert "command-has-failed" not in printed, (line, printed)
    return printed


def logins(dsn: str, *, database: str = "postgres") -> str:
    """Return the address of a maintenance database."""
    return make_conninfo(dsn, dbname=database)


def fill(shell: Shell, folder: Path) -> None:
    """Make a farm's data in the database of TASKQ_DSN, which is the owner's."""
    run(shell, "taskq db migrate")
    for grant in GRANTS:
        run(shell, f"taskq db grant {grant}")
    for line in FARM.format(gate=folder / "gate").replace("\\\n", "").splitlines():
        run(shell, line)
    run(shell, "taskq agent run --campaign /farm/held --slots 4 > held.log 2>&1 & agent=$!")
    wait_until(lambda: counts(shell)["delayed"] == 1 and counts(shell)["working"] == 4)
    run(shell, "kill -9 $agent; wait $agent 2> /dev/null || true")


def counts(shell: Shell, dsn: str = "$TASKQ_DSN") -> dict[str, int]:
    """Return how many tasks of /farm/held have each status."""
    said = run(shell, f'taskq status /farm/held --output json --dsn "{dsn}"')
    return dict(json.loads(said))


def test_queue_is_restored_on_a_new_server_without_an_error(tmp_path: Path) -> None:
    """By an administrator who is no superuser; then agents with the old token end all tasks."""
    older_than_ours(tmp_path, None)


@pytest.mark.skipif(not OLDER, reason="needs an older PostgreSQL: `make older-postgres`")
def test_queue_is_restored_from_an_older_postgresql(tmp_path: Path) -> None:
    """The dump is made by the programs of the newer one, as the page says."""
    with readable(older_programs()[OLDER[0]]) as programs:
        older_than_ours(tmp_path, locate(str(programs)))


def older_than_ours(folder: Path, installation: Installation | None) -> None:
    """Restore from a server of an installation on one of ours."""
    certificate = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 90 -keyout key.pem -out cert.pem"
        " -subj /CN=localhost -addext subjectAltName=DNS:localhost 2> openssl.log"
    )
    environment = {"PATH": f"{locate().bin_dir}{os.pathsep}{os.environ['PATH']}"}
    with (
        side(installation) as old,
        side() as new,
        readers_shell(folder, environment) as shell,
    ):
        with psycopg.connect(logins(old.dsn), autocommit=True) as superuser:
            superuser.execute(LOGINS)
            superuser.execute("create database queue owner queue_owner template template0")
        with psycopg.connect(logins(new.dsn), autocommit=True) as superuser:
            superuser.execute("create role admin login createrole createdb password 'choose-eight'")
        passwords = folder / ".pgpass"
        passwords.write_text(PASSWORDS.format(old=old.port, new=new.port))
        passwords.chmod(0o600)
        run(shell, f"export TASKQ_DSN=postgresql://queue_owner@localhost:{old.port}/queue")
        run(shell, certificate)
        fill(shell, folder)
        gateway = str(free_port())
        names = {
            "db.example.org:5432": f"localhost:{old.port}",
            "new.example.org:5432": f"localhost:{new.port}",
            "gw.example.org": "localhost",
            "8443": gateway,
            "0.0.0.0": "127.0.0.1",  # noqa: S104  # it is not bound here
        }
        try:
            assert shell.follow(PAGE, names, heading=NEW_SERVER) == 14
            agents_end_what_is_left(shell, folder, gateway)
            assert "no violations" in run(shell, "taskq audit / --dsn $NEW")
        finally:
            shell.run("kill %?gateway; wait")
        with psycopg.connect(logins(new.dsn, database="queue")) as superuser:
            rows = superuser.execute(
                "select r.rolconnlimit, r.rolsuper, pg_has_role('eve', 'chemists', 'usage')"
                " from pg_roles r where r.rolname = 'eve'"
            ).fetchall()
        assert rows == [(20, False, True)]


def agents_end_what_is_left(shell: Shell, folder: Path, gateway: str) -> None:
    """Work with the token of the old server; the tasks of the agent that is gone run again."""

    def recovered() -> bool:
        run(shell, "taskq recover /farm --silent-for 1s --yes --dsn $NEW")
        return counts(shell, "$NEW")["working"] == 0

    wait_until(recovered)
    (folder / "gate").touch()
    run(
        shell,
        f"taskq-agent run --gateway https://localhost:{gateway} --token-file nodes.token"
        " --ca cert.pem --slots 4 --max-tasks 39 > nodes.log 2>&1",
    )
    left = counts(shell, "$NEW")
    assert (left["done"], left["delayed"], left["working"]) == (39, 1, 0), left


@pytest.mark.skipif(not OLDER, reason="needs an older PostgreSQL: `make older-postgres`")
def test_embedded_queue_is_carried_over_from_an_older_postgresql(tmp_path: Path) -> None:
    """The command that finds the old data names the page; its steps keep what they began with."""
    home = make_home()
    major = OLDER[-1]
    places = [home, Path(f"{home}-old"), Path(f"{home}-new")]
    (home / "conf" / "user.conf").write_text("# mine\n")
    try:
        with readable(older_programs()[major]) as programs, readers_shell(tmp_path) as shell:
            run(shell, f"export TASKQ_HOME={home}")
            carry_over(shell, home, major, programs)
            run(shell, f"TASKQ_PG_BIN={programs} TASKQ_HOME={home}-old taskq down")
    finally:
        for place in places:
            Server(place).down(immediate=True)
            shutil.rmtree(place, ignore_errors=True)


def begin_in_vain(shell: Shell, home: Path) -> None:
    """Stop in the midst, with the new server killed; then do what the page says of that."""
    run(shell, f"TASKQ_HOME={home}-new taskq up > vain.log 2>&1")
    info = Server(Path(f"{home}-new")).status()
    assert info is not None
    os.kill(info.pid, signal.SIGKILL)
    line = "TASKQ_HOME=$QUEUE-new taskq down --delete-data"
    assert line in " ".join(PAGE.read_text().split())
    run(shell, f"QUEUE={home}; {line} --yes > vain.log 2>&1")


def carry_over(shell: Shell, home: Path, major: int, programs: Path) -> None:
    """Follow the page with data of older programs."""
    old = f"TASKQ_PG_BIN={programs}"
    run(shell, f"{old} taskq campaign create /c -- true")
    run(shell, f"{old} taskq seed /c --sweep n=1:30")
    run(shell, f"{old} taskq agent run --campaign /c --max-tasks 20 > agent.log 2>&1")
    run(shell, "taskq down")
    refusal = " ".join(shell.run("taskq status /; echo exit code $?").split())
    assert f"was made by PostgreSQL {major}" in refusal
    assert f"docs/{PAGE.name}, {EMBEDDED}" in refusal
    assert "exit code 77" in refusal
    names = {"$HOME/.local/share/taskq": str(home), "/usr/lib/postgresql/15/bin": str(programs)}
    begin_in_vain(shell, home)
    assert shell.follow(PAGE, names, heading=EMBEDDED) == 17
    assert "66.6 % of 30 tasks" in run(shell, "taskq status /c")
    run(shell, "taskq agent run --campaign /c --until-empty > agent.log 2>&1")
    assert "no violations" in run(shell, "taskq audit /")
    assert Path(f"{home}-old", "data", "PG_VERSION").read_text() == f"{major}\n"
    assert (home / "conf" / "user.conf").read_text() == "# mine\n"
