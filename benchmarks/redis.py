"""Temporary Redis that a case can flush and kill, for the duration of a block."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from taskq.embedded.redis_program import locate_redis
from taskq.model.errors import Unavailable

READY_S: Final = 10.0
POLL_S: Final = 0.005
LAST_CHARS: Final = 400

_ENTRIES: Final = """\
local entries = 0
for _, list in ipairs(redis.call('keys', 'taskq:*:tasks:*')) do
    entries = entries + redis.call('llen', list)
end
return entries
"""


class Redis:
    """A server at a Unix socket, which saves nothing. It is up when this returns."""

    def __init__(self, folder: Path) -> None:
        """folder: for its socket and log; the path must be a short one."""
        self._socket = folder / "redis.sock"
        self._log = folder / "redis.log"
        self._argv = [
            *(str(locate_redis()), "--port", "0", "--unixsocket", str(self._socket)),
            *("--unixsocketperm", "700", "--dir", str(folder)),
            *("--save", "", "--appendonly", "no", "--daemonize", "no"),
        ]
        self.start()

    @property
    def url(self) -> str:
        """Its address, as `--redis` takes it."""
        return f"unix://{quote(os.fsencode(self._socket))}"

    def start(self) -> None:
        """Start it, with nothing in it; raise `Unavailable` if it does not answer."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for us; we end it
            )
        deadline = time.monotonic() + READY_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                said = self._log.read_text(errors="replace").strip()[-LAST_CHARS:]
                raise Unavailable(f"{self._argv[0]} does not answer: {said}")
            time.sleep(POLL_S)

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._process.wait()

    def flush(self) -> None:
        """Remove all that is in it."""
        self.ask("flushall")

    def entries(self) -> int:
        """Return how many tasks are in the lists of all fronts."""
        return int(self.ask("eval", _ENTRIES, "0").removeprefix(":"))

    def _answers(self) -> bool:
        with suppress(FileNotFoundError, ConnectionError):
            return self.ask("ping") == "+PONG"
        return False

    def ask(self, *words: str) -> str:
        """Send a command; return the reply, which has to be a single line."""
        parts = [f"*{len(words)}", *(part for word in words for part in (f"${len(word)}", word))]
        with socket.socket(socket.AF_UNIX) as server:
            server.settimeout(READY_S)
            server.connect(os.fspath(self._socket))
            server.sendall("".join(f"{part}\r\n" for part in parts).encode("ascii"))
            with server.makefile("rb") as replies:
                return replies.readline().decode().strip()


@contextmanager
def running_redis() -> Iterator[Redis]:
    """Start a Redis; end and forget it afterwards, whatever was done to it."""
    # Not the folder of the benchmark, whose path may be too long for a socket.
    folder = Path(tempfile.mkdtemp(prefix="taskq-redis-"))
    try:
        redis = Redis(folder)
        try:
            yield redis
        finally:
            redis.kill()
    finally:
        shutil.rmtree(folder)
