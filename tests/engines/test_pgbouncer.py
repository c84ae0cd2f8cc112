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
from taskq.embedded.account import Account, server_account
from tests.engines.load import LATER_S, SAID, Load, configured, program
from tests.fixtures.gateways import StartGateway, opened
from tests.helpers.postgres import Postgres, value
from tests.helpers.waiting import wait_until


class Pooler:
    """PgBouncer in front of a server, at a socket. server: as its file says it."""

    def __init__(self, server: str, account: Account, user: str) -> None:
        self._program = program("pgbouncer", "pgbouncer")
        self._account = account
        self.folder = Path(tempfile.mkdtemp(prefix="taskq-pgbouncer-"))
        text = configured(
            "pgbouncer.ini",
            {
                "host=127.0.0.1 port=5000 dbname=taskq": server,
                "listen_addr = *": "listen_addr =",
                "/run/pgbouncer": str(self.folder),
                "/var/log/pgbouncer": str(self.folder),
                "scram-sha-256\nauth_file = /etc/taskq/userlist.txt": "any",
            },
        )
        self._ini = self.folder / "pgbouncer.ini"
        self._ini.write_text(text)
        for path in (self.folder, self._ini):
            os.chown(path, self._account.uid, self._account.gid)
        self.dsn = make_conninfo(host=str(self.folder), port="6432", dbname="taskq", user=user)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it."""
        with (self.folder / "out").open("ab") as log:
            self._process = self._account.launch([self._program, str(self._ini)], log.fileno())
        socket = self.folder / ".s.PGSQL.6432"
        wait_until(socket.exists, timeout_s=LATER_S)

    def end(self, number: int) -> None:
        """End it by a signal, with all that is under way."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(LATER_S)
        (self.folder / ".s.PGSQL.6432").unlink(missing_ok=True)

    def close(self) -> None:
        """Kill it, and remove what it leaves."""
        self.end(signal.SIGKILL)
        shutil.rmtree(self.folder)


@pytest.fixture
def pooler(database: Database, postgres: Postgres) -> Iterator[Pooler]:
    """Give a PgBouncer in front of the test's database."""
    at = conninfo_to_dict(database.dsn)
    pooler = Pooler(
        f"host={at['host']} port={at['port']} dbname={at['dbname']} user={at['user']}",
        server_account(Path(value(postgres, "show data_directory"))),
        str(at["user"]),
    )
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
