"""Temporary PgBouncer in front of a server, for the duration of a block."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from taskq.db.connections import Database
from taskq.embedded.account import server_account
from taskq.model.errors import NotFound, Unavailable

READY_S: Final = 10.0
PORT: Final = 6432
"""Names the socket; there is no TCP."""

# Everybody who can enter the folder is let in, and that is its owner and root.
_INI: Final = """\
[databases]
* = host={socket_dir} port={port} user={role}

[pgbouncer]
unix_socket_dir = {folder}
listen_addr =
listen_port = {listen_port}
auth_type = any
pool_mode = transaction
max_client_conn = 1000
default_pool_size = 16
logfile = {folder}/log
"""


class NoPooler(NotFound):
    """There is no PgBouncer, or none that could reach this server."""


@contextmanager
def pooled(database: Database) -> Iterator[Database]:
    """Give the database through a PgBouncer in transaction mode; raise `NoPooler`.

    Only for a server at a socket of this machine that lets its own user in without a password.
    """
    program = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if program is None:
        raise NoPooler("no pgbouncer")
    (server,) = database.rows("benchmarks.sql/server")
    if not server["here"]:
        raise NoPooler("the server is not reached by a socket of this machine")
    account = server_account(Path(server["data_dir"]))
    with tempfile.TemporaryDirectory(prefix="taskq-pgbouncer-") as name:
        folder = Path(name)
        ini = folder / "pgbouncer.ini"
        ini.write_text(_INI.format(folder=folder, listen_port=PORT, **server))
        ini.chmod(0o644)
        if account.is_other:
            os.chown(folder, account.uid, account.gid)
        with (folder / "out").open("wb") as log:
            process = account.launch([program, str(ini)], log.fileno())
        try:
            dsn = f"host={folder} port={PORT} user={server['role']} dbname={server['database']}"
            pooler = _opened(Database(dsn, server="PgBouncer"), process)
            try:
                yield pooler
            finally:
                pooler.close()
        finally:
            process.send_signal(signal.SIGINT)  # ends without waiting for clients
            process.wait()


def _opened(pooler: Database, process: subprocess.Popen[bytes]) -> Database:
    deadline = time.monotonic() + READY_S
    while True:
        try:
            return pooler.open()
        except Unavailable as error:  # noqa: PERF203  # to try again is the point
            if process.poll() is not None or time.monotonic() > deadline:
                raise NoPooler(f"PgBouncer does not serve: {error}") from None
            time.sleep(0.05)
