"""Simulated wide-area network on one machine: a proxy that delays all data.

    python -m benchmarks.wan FILE TARGET DELAY_S

FILE: the number of a listening socket that is open in this process. TARGET: `host:port`, or the
path of a unix socket. Each direction is delayed by so many seconds, in order; there is neither loss
nor a limit to the bandwidth. Data on a connection are delayed; opening it is not.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from benchmarks.loop import Loop

CHUNK: Final = 262_144
MOST_ON_THE_WAY: Final = 4_194_304
"""Bytes of a connection, in one direction; then the sender has to wait, as for a window of TCP."""


class Wan:
    """Carries what comes in on a listening socket to a target and back."""

    def __init__(self, listener: socket.socket, target: str, delay_s: float) -> None:
        self.loop = Loop()
        self._listener = listener
        self._target = target
        self._delay_s = delay_s
        # The delay is one for all, so what came first is due first.
        self._way: deque[tuple[float, _Side, bytes]] = deque()
        listener.setblocking(False)
        self.loop.watch(listener.fileno(), self._accept)

    def put(self, side: _Side, data: bytes) -> None:
        """Send something on its way to a side; nothing stands for the end."""
        if not self._way:
            self.loop.at(self.loop.now + self._delay_s, self._deliver)
        self._way.append((self.loop.now + self._delay_s, side, data))

    def _deliver(self) -> None:
        while self._way and self._way[0][0] <= self.loop.now:
            _, side, data = self._way.popleft()
            side.take(data)
        if self._way:
            self.loop.at(self._way[0][0], self._deliver)

    def _accept(self) -> None:
        with suppress(BlockingIOError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = _connected(self._target)
                except OSError:
                    near.close()
                    continue
                here, other = _Side(self, near), _Side(self, far)
                here.peer, other.peer = other, here
                here.watch()
                other.watch()


class _Side:
    """One end of a connection: what it reads is on the way to its peer."""

    peer: _Side

    def __init__(self, wan: Wan, end: socket.socket) -> None:
        end.setblocking(False)
        if end.family != socket.AF_UNIX:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._wan = wan
        self._end = end
        self._unsent = b""
        self._on_the_way = 0
        self._writing = self._received_end = self._peer_ended = self._closed = False

    def watch(self) -> None:
        """Read as far as the peer keeps up, and write what is left."""
        reading = not self._received_end and self._on_the_way < MOST_ON_THE_WAY
        self._writing = bool(self._unsent)
        self._wan.loop.watch(
            self._end.fileno(), self._ready, reading=reading, writing=self._writing
        )

    def take(self, data: bytes) -> None:
        """Get what has arrived from the peer."""
        if self._closed:
            return
        if data:
            self._unsent += data
            self._write()
            return
        self._peer_ended = True
        if not self._unsent:
            self._finish()

    def delivered(self, count: int) -> None:
        """Note that this many bytes have been delivered."""
        was_full = self._on_the_way >= MOST_ON_THE_WAY
        self._on_the_way -= count
        if was_full and not self._closed:
            self.watch()

    def _finish(self) -> None:
        """Pass the peer's end on, after all that came before it."""
        with suppress(OSError):
            self._end.shutdown(socket.SHUT_WR)
        if self._received_end:
            self._close()

    def _ready(self) -> None:
        if self._unsent:
            self._write()
        if not (self._closed or self._received_end):
            self._read()

    def _read(self) -> None:
        try:
            data = self._end.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            self._break()
            return
        self._wan.put(self.peer, data)
        self._on_the_way += len(data)
        self._received_end = not data
        if self._received_end and self._peer_ended and not self._unsent:
            self._close()
        elif self._received_end or self._on_the_way >= MOST_ON_THE_WAY:
            self.watch()

    def _write(self) -> None:
        try:
            sent = self._end.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._break()
            return
        self._unsent = self._unsent[sent:]
        self.peer.delivered(sent)
        if self._writing != bool(self._unsent):
            self.watch()
        if self._peer_ended and not self._unsent:
            self._finish()

    def _break(self) -> None:
        """Close the broken connection at once; the peer is closed after the delay."""
        self._close()
        self._wan.put(self.peer, b"")

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            self._wan.loop.forget(self._end.fileno())
            self._end.close()


@contextmanager
def delayed(listener: socket.socket, target: str, delay_s: float) -> Iterator[None]:
    """Let a process of its own carry what comes in on a listening socket, during the block."""
    file = listener.fileno()
    argv = [sys.executable, "-m", "benchmarks.wan", str(file), target, str(delay_s)]
    # Where this package is found: it is not installed.
    root = Path(__file__).resolve().parents[1]
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, pass_fds=[file], cwd=root)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _connected(address: str) -> socket.socket:
    if address.startswith("/"):
        end = socket.socket(socket.AF_UNIX)
        end.connect(address)
        return end
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)))


def main(file: str, target: str, delay_s: str) -> None:
    """Run the proxy until a signal ends the process."""
    with socket.socket(fileno=int(file)) as listener:
        Wan(listener, target, float(delay_s)).loop.run(lambda: True)


if __name__ == "__main__":
    main(*sys.argv[1:])
