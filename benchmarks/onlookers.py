"""Onlookers: `taskq top` on terminals, browsers, Prometheus, and a keeper with notifications."""

from __future__ import annotations

import fcntl
import http.client
import os
import pty
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote

from benchmarks.gateways import running_gateways, running_keeper
from benchmarks.load.work import LoadTarget
from taskq.api.client import Client
from taskq.model.errors import Unavailable

TOPS: Final = 2
PAGES: Final = 10
SCRAPE_S: Final = 5.0
READY_S: Final = 60.0
#: Seconds after all have begun: what each does at its start is over.
QUIET_S: Final = 3.0
_PROGRAM: Final = "from taskq_cli.main import main; main()"
_EVENTS: Final = ("finished", "paused", "no-agents", "failing", "slow", "disk")
_POLL_S: Final = 0.05


Seen: TypeAlias = list[int]
"""Sizes of what somebody has seen, one after the other."""


@contextmanager
def onlookers(client: Client, path: str, folder: Path) -> Iterator[dict[str, int]]:
    """Attach all to a queue, wait until each has seen something, and end them afterwards.

    Yield the processes by what they are, each the leader of its group. client: of the queue; the
    rule and the token that it makes stay. folder: for logs. Raise `Unavailable` if any sees
    nothing, at first or any more.
    """
    dsn, programs = client.database.dsn, folder / "programs"
    token, _ = client.tokens.create("manager", f"onlooker {time.monotonic_ns()}", ["/"])
    programs.mkdir(exist_ok=True)
    if not client.notifications.list():
        client.notifications.add("bench", path, _EVENTS, "command:nobody")
    with ExitStack() as attached:
        words = ["--pages", "--no-keeper"]
        gateways = attached.enter_context(running_gateways(dsn, 1, folder, options=words))
        keeper = attached.enter_context(running_keeper(dsn, folder, ["--programs", str(programs)]))
        tops = [attached.enter_context(_top(dsn, path)) for _ in range(TOPS)]
        address, page = gateways.addresses[0], f"/campaign?path={quote(path)}"
        live = f"/live?path={quote(path)}&levels=1"
        seen = [screen for _, screen in tops]
        seen += [attached.enter_context(_looking(address, token, page, live)) for _ in range(PAGES)]
        scraped = attached.enter_context(_scraping(address, token))
        _wait_for(seen, [0] * len(seen))
        _wait_for([scraped], [0])
        time.sleep(QUIET_S)
        before = [len(screen) for screen in seen]
        pids = {f"top {number}": pid for number, (pid, _) in enumerate(tops, 1)}
        yield {"gateway with pages": gateways.pids[0], "keeper": keeper.pid, **pids}
        _wait_for(seen, before)


def _wait_for(seen: Sequence[Seen], before: Sequence[int]) -> None:
    """Wait until all have seen more than before; raise `Unavailable` if that takes long."""
    deadline = time.monotonic() + READY_S
    while not all(len(screen) > count for screen, count in zip(seen, before, strict=True)):
        if time.monotonic() > deadline:
            raise Unavailable("somebody who looks sees nothing")
        time.sleep(_POLL_S)


@contextmanager
def _top(dsn: str, path: str) -> Iterator[tuple[int, Seen]]:
    """Run `taskq top` on a terminal of 80 columns; yield its process, and what is drawn."""
    ours, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, "top", path],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=os.environ | {"TASKQ_DSN": dsn, "TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(terminal)
    seen: Seen = []

    def draw() -> None:
        with suppress(OSError):  # nobody has the terminal open any more
            while drawn := os.read(ours, 65_536):
                seen.append(len(drawn))

    drawing = threading.Thread(target=draw)
    drawing.start()
    try:
        yield process.pid, seen
    finally:
        process.kill()
        process.wait()
        drawing.join()
        os.close(ours)


@contextmanager
def _looking(address: LoadTarget, token: str, page: str, live: str) -> Iterator[Seen]:
    """Open a page, and follow what is live on it; yield what comes."""
    seen: Seen = []
    with closing(_connected(address)) as connection:
        _asked(connection, page, token).read()
        answer = _asked(connection, live, token)

        def follow() -> None:
            with suppress(OSError, http.client.HTTPException, ValueError):  # it was closed
                while line := answer.readline():
                    if line.startswith(b"data:"):
                        seen.append(len(line))

        following = threading.Thread(target=follow)
        following.start()
        try:
            yield seen
        finally:
            connection.sock.shutdown(socket.SHUT_RDWR)
            following.join()


@contextmanager
def _scraping(address: LoadTarget, token: str) -> Iterator[Seen]:
    """Ask for the metrics, at once and then every five seconds; yield what comes."""
    seen, stop = Seen(), threading.Event()

    def scrape() -> None:
        while True:
            with closing(_connected(address)) as connection:
                seen.append(len(_asked(connection, "/metrics", token).read()))
            if stop.wait(SCRAPE_S):
                return

    scraping = threading.Thread(target=scrape)
    scraping.start()
    try:
        yield seen
    finally:
        stop.set()
        scraping.join()


def _connected(address: LoadTarget) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(*address, timeout=READY_S)


def _asked(
    connection: http.client.HTTPConnection, path: str, token: str
) -> http.client.HTTPResponse:
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    if answer.status != http.HTTPStatus.OK:
        raise Unavailable(f"{path} is answered with {answer.status}")
    return answer
