"""Accepts connections that are to be encrypted, and shakes hands.

uvicorn hears of a client when the handshake is over, so that half-made ones counted nowhere, and
asyncio gives each a minute. Here each counts as a client from the moment in which it is accepted,
has some seconds from then on, and there are only so many at a time, of one address and in all: one
more takes the place of the oldest. So who opens connections and is silent displaces himself, while
others need a few milliseconds. Few are accepted at a time: those that have begun go on in between.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

#: From being accepted to the end of the handshake.
HANDSHAKE_S: Final = 10.0
#: For the peer to say goodbye as well, after all that was to be sent has gone.
GOODBYE_S: Final = 5.0
MOST_SHAKING: Final = 1_024
MOST_OF_ADDRESS: Final = 256
AT_ONCE: Final = 16
#: Without a file to spare, nobody is accepted for so long.
PAUSE_S: Final = 0.5


class Handshakes:
    """Connections of a listening socket, up to the end of their handshakes; for one asyncio loop.

    make: makes the protocol of a client. has_room: tells, from the number of half-made ones,
    whether one more client can be let in. displaced: called for each that is not, or not any more.
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
        # In the order in which they were accepted: all, and those of each address.
        self._shaking: dict[asyncio.Task[None], str] = {}
        self._of: defaultdict[str, dict[asyncio.Task[None], None]] = defaultdict(dict)

    def begin(self) -> None:
        """Accept clients from now on."""
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def close(self) -> None:
        """Accept nobody any more; who shakes hands is left to it."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listener.fileno())

    async def wait_closed(self) -> None:
        """Cut those who still shake hands."""
        for task in self._shaking:
            task.cancel()
        if self._shaking:
            await asyncio.wait(self._shaking)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                client, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no file is left
                self._loop.remove_reader(self._listener.fileno())
                self._pause = self._loop.call_later(PAUSE_S, self.begin)
                return
            if not self._has_room(len(self._shaking)):
                self._displaced()
                client.close()
                continue
            client.setblocking(False)
            self._make_room(address[0])
            task = self._loop.create_task(self._shake(client))
            self._shaking[task] = address[0]
            self._of[address[0]][task] = None
            task.add_done_callback(self._shaken)

    def _make_room(self, address: str) -> None:
        """Give up the oldest, where there are too many with one more of an address."""
        of_address = self._of.get(address, {})
        if len(of_address) >= MOST_OF_ADDRESS:
            oldest = next(iter(of_address))
        elif len(self._shaking) >= MOST_SHAKING:
            oldest = next(iter(self._shaking))
        else:
            return
        self._displaced()
        oldest.cancel()
        self._shaken(oldest)

    def _shaken(self, task: asyncio.Task[None]) -> None:
        address = self._shaking.pop(task, None)
        if address is not None:
            del self._of[address][task]
            if not self._of[address]:
                del self._of[address]

    async def _shake(self, client: socket.socket) -> None:
        # A peer that is no client of ours, or none any more, is not worth a line in the log.
        loop: Any = self._loop  # uvloop's, which knows both time-outs in each Python
        with suppress(OSError):
            await loop.connect_accepted_socket(
                self._make,
                client,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=GOODBYE_S,  # of asyncio from Python 3.11 on; of uvloop
            )
