"""TLS handshakes of clients, from being accepted to their end.

Handshakes are bounded in number and time. A protocol learns of a client only when its handshake is
over, so it does not count unfinished ones, and asyncio gives each a minute. Here a connection
counts as a client as soon as it is accepted, and its handshake then has some seconds. The number
under way is limited, for each address and in all: one more displaces the oldest. A client that
opens connections and stays silent displaces its own; the handshakes of others take a few
milliseconds. Few connections are accepted at a time, so that handshakes under way proceed in
between.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

#: Seconds from being accepted to the end of the handshake.
HANDSHAKE_S: Final = 10.0
#: Seconds for the peer to end TLS as well, after everything was sent.
GOODBYE_S: Final = 5.0
MOST_SHAKING: Final = 1_024
MOST_OF_ADDRESS: Final = 256
AT_ONCE: Final = 16
#: Seconds for which nothing is accepted after the process has run out of file descriptors.
PAUSE_S: Final = 0.5


class Handshakes:
    """Connections of a listening socket, up to the end of their handshakes; for one asyncio loop.

    make: makes the protocol of a client. has_room: returns whether one more client can be accepted,
    given the number of handshakes under way. displaced: called for each connection that is refused
    or displaced.
    """

    def __init__(
        self,
        listener: socket.socket,
        context: ssl.SSLContext,
        make: Callable[[], asyncio.Protocol],
        has_room: Callable[[int], bool],
        displaced: Callable[[], None],
    ) -> None:
        self._listener = listener
        self._context = context
        self._make = make
        self._has_room = has_room
        self._displaced = displaced
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        # In the order in which they were accepted: all handshakes, and those of each address.
        self._handshakes: dict[asyncio.Task[None], str] = {}
        self._by_address: defaultdict[str, dict[asyncio.Task[None], None]] = defaultdict(dict)

    def begin(self) -> None:
        """Accept clients from now on."""
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def close(self) -> None:
        """Stop accepting; handshakes under way go on."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listener.fileno())

    async def wait_closed(self) -> None:
        """Cancel the handshakes that are still under way."""
        for task in self._handshakes:
            task.cancel()
        if self._handshakes:
            await asyncio.wait(self._handshakes)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                client, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no file descriptor is left
                self._loop.remove_reader(self._listener.fileno())
                self._pause = self._loop.call_later(PAUSE_S, self.begin)
                return
            if not self._has_room(len(self._handshakes)):
                self._displaced()
                client.close()
                continue
            client.setblocking(False)
            self._make_room(address[0])
            task = self._loop.create_task(self._handshake(client))
            self._handshakes[task] = address[0]
            self._by_address[address[0]][task] = None
            task.add_done_callback(self._ended)

    def _make_room(self, address: str) -> None:
        """Cancel the oldest handshake if one more of an address would be too many."""
        of_address = self._by_address.get(address, {})
        if len(of_address) >= MOST_OF_ADDRESS:
            oldest = next(iter(of_address))
        elif len(self._handshakes) >= MOST_SHAKING:
            oldest = next(iter(self._handshakes))
        else:
            return
        self._displaced()
        oldest.cancel()
        self._ended(oldest)

    def _ended(self, task: asyncio.Task[None]) -> None:
        address = self._handshakes.pop(task, None)
        if address is not None:
            del self._by_address[address][task]
            if not self._by_address[address]:
                del self._by_address[address]

    async def _handshake(self, client: socket.socket) -> None:
        # A failed handshake is not logged: anybody can cause any number of them.
        loop: Any = self._loop  # uvloop's, which knows both time-outs in each Python
        with suppress(OSError):
            await loop.connect_accepted_socket(
                self._make,
                client,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=GOODBYE_S,  # of asyncio from Python 3.11 on; of uvloop
            )
