"""How a connection ends on which a client still sends: it must find its answer all the same.

When a connection is closed while data come that nobody reads, the kernel resets it, and an answer
that the client has not looked at yet may be gone. To read all that comes would let anybody keep us
busy. So we say that no more comes from here, and read a little more (RFC 9112, 9.6; lingering_close
of nginx). A client on Linux that is still sending when that is over gets EPIPE, as the other side
has closed in good order, and finds the answer then; after a reset alone it would not know that
there is one.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from typing import Final

#: What is still read, and thrown away.
LINGER_BYTES: Final = 1 << 20
#: ... and for how long at most.
LINGER_S: Final = 5.0


def half_close(transport: asyncio.Transport) -> None:
    """Say that nothing more comes from here, when all that was written has gone."""
    if transport.can_write_eof():
        transport.write_eof()
    elif transport.get_write_buffer_size() == 0:
        # TLS has no half; what is under it has. The answer says how long it is, so that nobody
        # could take a piece of it for the whole.
        with suppress(OSError), _twin(transport) as line:
            line.shutdown(socket.SHUT_WR)


def _twin(transport: asyncio.Transport) -> socket.socket:
    """Return the socket of a transport, which keeps its own; to be closed."""
    return socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
