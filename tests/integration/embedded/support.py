"""Helpers of the tests of the embedded server."""

from __future__ import annotations

import json
import os
import pwd
import signal
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from taskq.embedded import Installation, Server, ServerInfo
from tests.helpers.waiting import wait_until

IS_ROOT = os.geteuid() == 0
ORDINARY_UID = pwd.getpwnam("nobody").pw_uid if IS_ROOT else os.geteuid()

root_only = pytest.mark.skipif(not IS_ROOT, reason="only root can become another user")

# Modules are imported before the switch: the interpreter may lie in root's closed home.
PROGRAM = """
import importlib.metadata, json, os, resource, sys, tempfile, time, traceback
from pathlib import Path
from taskq.embedded import Server
from taskq.model.errors import TaskqError
uid, max_file_bytes, umask, home, *verbs = sys.argv[1:]
os.umask(int(umask))
if os.geteuid() == 0 and uid != "0":
    os.setgroups([])
    os.setgid(int(uid))
    os.setuid(int(uid))
if int(max_file_bytes):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(max_file_bytes), int(max_file_bytes)))
server = Server(Path(home))
for verb in verbs:
    if verb == "stay":
        time.sleep(600)
    try:
        answer = getattr(server, verb)()
    except TaskqError as error:
        answer = {"error": type(error).__name__, "text": str(error)}
    else:
        if hasattr(answer, "dsn"):
            answer = {name: getattr(answer, name) for name in answer.__slots__}
    print(json.dumps(answer, default=str), flush=True)
"""


def command(
    home: Path,
    *verbs: str,
    uid: int = ORDINARY_UID,
    max_file_bytes: int = 0,
    umask: int = 0o022,
) -> Sequence[str]:
    """Return a command that calls the verbs of a home's server as that user."""
    limits = [str(uid), str(max_file_bytes), str(umask)]
    return [sys.executable, "-c", PROGRAM, *limits, str(home), *verbs]


def environment(installation: Installation) -> dict[str, str]:
    """Return this process's environment with that installation chosen."""
    return os.environ | {"TASKQ_PG_BIN": str(installation.bin_dir)}


def call(
    home: Path,
    *verbs: str,
    installation: Installation,
    uid: int = ORDINARY_UID,
    max_file_bytes: int = 0,
    umask: int = 0o022,
) -> list[Any]:
    """Return what each verb answered in a process of that user's, whose output is a pipe."""
    said = subprocess.run(
        command(home, *verbs, uid=uid, max_file_bytes=max_file_bytes, umask=umask),
        env=environment(installation),
        stdout=subprocess.PIPE,
        timeout=120,
        check=True,
    )
    return [json.loads(line) for line in said.stdout.splitlines()]


def value(info: ServerInfo, sql: str) -> object:
    """Return the one value that a query gives."""
    with psycopg.connect(info.dsn) as connection:
        row = connection.execute(sql.encode()).fetchone()
    assert row is not None
    return row[0]


def store(info: ServerInfo, table: str, rows: int) -> None:
    """Commit that many rows to a table of its own."""
    with psycopg.connect(info.dsn) as connection:
        connection.execute(f"drop table if exists {table}".encode())
        connection.execute(f"create table {table} as select generate_series(1, {rows})".encode())


def kill(server: Server) -> ServerInfo:
    """Kill the server as a crash would; it leaves its pid file behind."""
    found = server.up()
    os.kill(found.pid, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{found.pid}").exists())
    return found


def rewrite(path: Path, text: str) -> None:
    """Replace a file's text in place: it keeps its owner, and is at no moment empty."""
    with path.open("r+") as file:
        file.write(text)
        file.truncate()


def mode(path: Path) -> int:
    """Return a file's permissions."""
    return stat.S_IMODE(path.stat().st_mode)
