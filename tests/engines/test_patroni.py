"""Patroni with etcd: the leader is killed under load, and another member is made the leader."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from taskq.db import migrations
from taskq.db.connections import Database
from taskq.embedded.account import Account, server_account
from tests.engines.load import LATER_S, SAID, Load, configured, program
from tests.fixtures.gateways import StartGateway, opened
from tests.helpers.freezing import frozen
from tests.helpers.waiting import free_port, wait_until
from tests.integration.gateway.site import upkeep

MEMBERS = 3
#: Seconds in which a member says how it is.
ASKED_S = 3.0


class Member:
    """One member: Patroni, and the PostgreSQL that it runs."""

    def __init__(self, name: str, folder: Path, account: Account, etcd: int) -> None:
        self.port, self.rest = free_port(), free_port()
        self.data = folder / name
        self._account = account
        self._log = folder / f"{name}.log"
        self._yml = folder / f"{name}.yml"
        changes = {
            "name: db1": f"name: {name}",
            "0.0.0.0:8008": f"127.0.0.1:{self.rest}",
            "db1.example.org:8008": f"127.0.0.1:{self.rest}",
            "db1.example.org:2379,db2.example.org:2379,db3.example.org:2379": f"127.0.0.1:{etcd}",
            "0.0.0.0:5432": f"127.0.0.1:{self.port}",
            "db1.example.org:5432": f"127.0.0.1:{self.port}",
            "samenet": "127.0.0.1/32",
            "/var/lib/postgresql/15/taskq": str(self.data),
            "/usr/lib/postgresql/15/bin": newest_postgresql(),
        }
        self._yml.write_text(configured("patroni.yml", changes))
        os.chown(self._yml, account.uid, account.gid)
        self._command = [patroni_program(), str(self._yml)]
        self.start()

    def start(self) -> None:
        """Start Patroni, which starts PostgreSQL."""
        with self._log.open("ab") as log:
            self._process = self._account.launch(self._command, log.fileno())

    def kill(self) -> None:
        """Kill both: first Patroni, so that it does not start the other anew."""
        self._process.kill()
        self._process.wait(LATER_S)
        with suppress(OSError, ValueError):
            os.kill(int((self.data / "postmaster.pid").read_text().splitlines()[0]), signal.SIGQUIT)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let both do nothing meanwhile, while their connections stay open."""
        with frozen(self.data, self._process.pid):
            yield

    def ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what Patroni answers; nothing while it does not."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.rest}/{path}", data)
        # Of a frozen member too; a switchover takes long.
        patience_s = ASKED_S if body is None else LATER_S
        try:
            with urllib.request.urlopen(request, timeout=patience_s) as reply:  # noqa: S310
                answer = reply.read()
        except OSError:
            return {}
        with suppress(ValueError):
            return dict(json.loads(answer))
        return {"text": answer.decode()}

    def said(self) -> str:
        """Return the end of its log."""
        return self._log.read_text()[-4_000:]


class Patroni:
    """Three members and an etcd. dsn: names all members."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="taskq-patroni-"))
        self.account = account = server_account(self._folder / "none")
        os.chown(self._folder, account.uid, account.gid)
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        words = ["--data-dir", self._folder / "etcd", "--initial-cluster", f"default={peer}"]
        words += ["--listen-client-urls", client, "--advertise-client-urls", client]
        words += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        with (self._folder / "etcd.log").open("ab") as log:
            etcd = [program("etcd", "etcd-server"), *map(str, words)]
            self._etcd = account.launch(etcd, log.fileno())
        port = int(client.rpartition(":")[2])
        self.members = [
            Member(f"db{number}", self._folder, account, port) for number in range(1, MEMBERS + 1)
        ]
        ports = ",".join(str(member.port) for member in self.members)
        hosts = ",".join("127.0.0.1" for _ in self.members)
        self.dsn = (
            f"host={hosts} port={ports} dbname=postgres user=postgres password=secret1"
            " connect_timeout=3"
        )

    def close(self) -> None:
        """Kill all, and remove it."""
        for member in self.members:
            member.kill()
        self._etcd.kill()
        self._etcd.wait(LATER_S)
        shutil.rmtree(self._folder, ignore_errors=True)

    def is_whole(self) -> bool:
        """Return whether a leader has two standbys that follow, one of them synchronous."""
        roles = [
            record["role"]
            for record in self.cluster()
            if record["state"] in {"running", "streaming"}
        ]
        return sorted(roles) == ["leader", "replica", "sync_standby"]

    def cluster(self) -> list[dict[str, Any]]:
        """Return what is known of the members by those that answer."""
        for member in self.members:
            state = member.ask("cluster")
            if state:
                return [*state["members"]]
        return []

    def leader(self) -> Member | None:
        """Return the leader, if there is one."""
        names = [record["port"] for record in self.cluster() if record["role"] == "leader"]
        return next((member for member in self.members if member.port in names), None)

    def hand_over(self) -> Member:
        """Have the leader hand over to the synchronous standby; return that."""
        by_role = {record["role"]: record for record in self.cluster()}
        leader, heir = by_role["leader"], by_role["sync_standby"]
        member = next(member for member in self.members if member.port == leader["port"])
        member.ask("switchover", {"leader": leader["name"], "candidate": heir["name"]})
        return next(member for member in self.members if member.port == heir["port"])

    def said(self) -> str:
        """Return the logs of all."""
        return "\n\n".join(member.said() for member in self.members) + str(self.cluster())


def patroni_program() -> str:
    """Return the path of Patroni, as docs/high-availability.md installs it."""
    path = os.environ.get("TASKQ_TEST_PATRONI", "/opt/patroni/bin/patroni")
    assert Path(path).exists(), (
        "these tests need Patroni in /opt/patroni, or where TASKQ_TEST_PATRONI says: as root"
        " `/usr/bin/python3 -m venv /opt/patroni`, then"
        " `/opt/patroni/bin/pip install 'patroni[etcd3,psycopg3]>=3.0.3'`"
    )
    return path


def newest_postgresql() -> str:
    """Return the folder with the programs of the newest PostgreSQL of the system."""
    folders = Path("/usr/lib/postgresql").glob("*/bin")
    newest = max(folders, key=lambda path: int(path.parent.name), default=None)
    assert newest, "these tests need PostgreSQL: `apt-get install postgresql` as root"
    return str(newest)


@pytest.fixture
def patroni() -> Iterator[Patroni]:
    """Give three members, with the schema."""
    started = Patroni()
    try:
        wait_until(started.is_whole, timeout_s=LATER_S, on_timeout=started.said)
        database = Database(started.dsn).open()
        migrations.migrate(database)
        database.close()
        yield started
    finally:
        started.close()


def change_leaders(patroni: Patroni, load: Load) -> None:
    """Kill the leader, let it come back, and hand over."""
    dead = patroni.leader()
    assert dead is not None
    dead.kill()
    load.until(lambda: patroni.leader() not in {None, dead}, patroni.said)
    load.goes_on()
    dead.start()
    load.until(patroni.is_whole, patroni.said)
    heir = patroni.hand_over()
    load.until(lambda: patroni.leader() is heir, patroni.said)


def test_leader_that_is_killed_costs_no_task(
    patroni: Patroni, start_gateway: StartGateway, tmp_path: Path
) -> None:
    """A leader that hands over loses none either: with a synchronous standby nothing runs twice."""
    gateway = start_gateway(on=patroni.dsn, expected=SAID)
    with opened(patroni.dsn) as queue, upkeep(patroni.dsn):
        load = Load(queue, gateway, tmp_path)
        with load.running():
            change_leaders(patroni, load)
        load.assert_whole(once=True)
