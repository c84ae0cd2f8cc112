"""The end of a connection whose client still sends, so that it gets its answer.

A lingering close gives a client that still sends its answer. If a server closes a connection while
unread data arrive, the kernel resets it, and the client may lose an answer that it has not read
yet. If the gateway read everything, anybody could keep it busy. So the gateway closes its own
direction and reads a little more (RFC 9112, 9.6; lingering_close of nginx). A client on Linux that
still sends after that gets EPIPE, since the gateway has closed in good order, and then finds the
answer; after a reset alone it would not know that there is one.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from typing import Final

#: Bytes that are still read, and discarded.
LINGER_BYTES: Final = 1 << 20
#: ... and the seconds for which they are read.
LINGER_S: Final = 5.0


def half_close(transport: asyncio.Transport) -> None:
    """Close the sending direction once all written data are sent."""
    if transport.can_write_eof():
        transport.write_eof()
    elif transport.get_write_buffer_size() == 0:
        # TLS cannot be closed in one direction, but the TCP connection can. The answer has a
        # content-length, so a part of it cannot be taken for the whole.
        with suppress(OSError), _twin(transport) as twin:
            twin.shutdown(socket.SHUT_WR)


def _twin(transport: asyncio.Transport) -> socket.socket:
    """Return a duplicate of a transport's socket, to be closed by the caller."""
    return socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
