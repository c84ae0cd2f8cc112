"""PgBouncer between everything and PostgreSQL: killed and started anew under load."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from taskq.db.connections import Database
from taskq.embedded.account import server_account
from tests.engines.load import LATER_S, SAID, Load, configured, program
from tests.fixtures.gateways import StartGateway, opened
from tests.helpers.postgres import Postgres, value
from tests.helpers.waiting import wait_until


class Pooler:
    """PgBouncer in front of a database, at a socket."""

    def __init__(self, dsn: str, data: Path) -> None:
        at = conninfo_to_dict(dsn)
        self._program = program("pgbouncer", "pgbouncer")
        self._account = server_account(data)
        self._folder = Path(tempfile.mkdtemp(prefix="taskq-pgbouncer-"))
        server = f"host={at['host']} port={at['port']} dbname={at['dbname']} user={at['user']}"
        text = configured(
            "pgbouncer.ini",
            {
                "host=db1.example.org port=5432 dbname=taskq": server,
                "listen_addr = *": "listen_addr =",
                "/run/pgbouncer": str(self._folder),
                "/var/log/pgbouncer": str(self._folder),
                "scram-sha-256\nauth_file = /etc/pgbouncer/userlist.txt": "any",
            },
        )
        self._ini = self._folder / "pgbouncer.ini"
        self._ini.write_text(text)
        for path in (self._folder, self._ini):
            os.chown(path, self._account.uid, self._account.gid)
        self.dsn = make_conninfo(
            host=str(self._folder), port="6432", dbname="taskq", user=str(at["user"])
        )
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it."""
        with (self._folder / "out").open("ab") as log:
            self._process = self._account.launch([self._program, str(self._ini)], log.fileno())
        socket = self._folder / ".s.PGSQL.6432"
        wait_until(socket.exists, timeout_s=LATER_S)

    def end(self, number: int) -> None:
        """End it by a signal, with all that is under way."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(LATER_S)
        (self._folder / ".s.PGSQL.6432").unlink(missing_ok=True)

    def close(self) -> None:
        """Kill it, and remove what it leaves."""
        self.end(signal.SIGKILL)
        shutil.rmtree(self._folder)


@pytest.fixture
def pooler(database: Database, postgres: Postgres) -> Iterator[Pooler]:
    """Give a PgBouncer in front of the test's database."""
    pooler = Pooler(database.dsn, Path(value(postgres, "show data_directory")))
    try:
        yield pooler
    finally:
        pooler.close()


def test_pooler_that_is_killed_costs_no_task(
    pooler: Pooler, start_gateway: StartGateway, tmp_path: Path
) -> None:
    """Killed, and shut down at once: connections are made anew, and nothing runs twice."""
    gateway = start_gateway(on=pooler.dsn, keeper=True, expected=SAID)
    with opened(pooler.dsn) as queue:
        load = Load(queue, gateway, tmp_path)
        with load.running():
            for number in (signal.SIGKILL, signal.SIGTERM):
                pooler.end(number)
                pooler.start()
                load.goes_on()
        load.assert_whole(once=True)
