"""The parts of a farm: processes that are killed, frozen, and started again."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from taskq.embedded.redis_program import locate_redis
from tests.chaos.clocks import Clock
from tests.chaos.history import appending
from tests.fixtures.redis_servers import RedisServer

_AGAIN_S = 0.5
_END_S = 20.0
_ROOM_BYTES = 64
#: How a part may end on its own: by an order, or because the server is away, or its host is
#: banned, while it starts. An agent that must leave while its way is cut leaves its reports
#: in the spool, for its next start.
_IN_GOOD_ORDER = frozenset({os.EX_OK, os.EX_UNAVAILABLE, os.EX_NOPERM, os.EX_TEMPFAIL})


class Part:
    """A process that is started again when it has ended.

    argv: called at each start, with the number of the start, from 1. log: takes what all of its
    processes write. astray: how processes have ended that should not have, by themselves.
    """

    def __init__(
        self, name: str, argv: Callable[[int], list[str]], environment: Mapping[str, str], log: Path
    ) -> None:
        self.name = name
        self.starts = 0
        self.astray: list[int] = []
        self._argv = argv
        self._environment = environment
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._logs: list[subprocess.Popen[bytes]] = []
        self._again_at = 0.0

    @property
    def instance(self) -> str:
        """The name of the process that runs now."""
        return f"{self.name}.{self.starts}"

    @property
    def pid(self) -> int | None:
        """The process that runs now, None if there is none."""
        ended = self._process is None or self._process.poll() is not None
        return None if ended or self._process is None else self._process.pid

    def start(self) -> None:
        """Start it."""
        self.starts += 1
        with self._log.open("ab") as file:
            log = appending(file.fileno())
        self._logs.append(log)
        self._process = subprocess.Popen(
            self._argv(self.starts),
            env={**os.environ, **self._environment},
            stdin=subprocess.DEVNULL,
            stdout=log.stdin,
            stderr=log.stdin,
            start_new_session=True,
        )
        log.stdin.close()

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """End it, and wait for its log."""
        self.kill()
        for log in self._logs:
            log.wait(_END_S)

    def freeze(self) -> None:
        """Let it do nothing."""
        if self.pid is not None:
            os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on, or start it again."""
        if self.pid is not None:
            os.kill(self.pid, signal.SIGCONT)
        elif self._process is None:
            self.start()

    def look_after(self) -> None:
        """Start it again, some time after it has ended by itself."""
        if self._process is None or self._process.poll() is None:
            return
        if not self._again_at:
            self._again_at = time.monotonic() + _AGAIN_S
            if self._process.returncode not in _IN_GOOD_ORDER:
                self.astray.append(self._process.returncode)
        elif time.monotonic() > self._again_at:
            self._again_at = 0.0
            self.start()


class AgentPart(Part):
    """An agent, whose clock can be set and whose disk can become full."""

    clock: Clock | None = None

    def fill_disk(self) -> None:
        """Let no file of its own grow any more.

        A limit on the size of files stands for the full disk: it needs no right, and like that it
        lets the first bytes of a line through. The payload's processes lift it for themselves; log
        and history go through pipes.
        """
        self._limit(_ROOM_BYTES)

    def empty_disk(self) -> None:
        """Let its files grow again."""
        self._limit(resource.RLIM_INFINITY)

    def _limit(self, room: int) -> None:
        if self.pid is not None:
            _, most = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (room, most))


class RedisPart:
    """A Redis in front; what it has is gone when it is killed."""

    name = "redis"
    astray: tuple[int, ...] = ()

    def __init__(self, folder: Path) -> None:
        self.server = RedisServer(locate_redis(), folder)
        self._up = True

    def kill(self) -> None:
        """End it as a crash would."""
        self.server.kill()
        self._up = False

    def freeze(self) -> None:
        """Let it do nothing."""
        self.server.freeze()

    def thaw(self) -> None:
        """Let it go on, or start it again."""
        if self._up:
            self.server.thaw()
        else:
            self.server.start()
            self._up = True

    def close(self) -> None:
        """End it, whatever was done to it."""
        if self._up:
            self.server.thaw()
        self.server.close()


AnyPart = Any
"""A `Part` or a `RedisPart`."""
