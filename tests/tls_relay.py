"""TLS in front of a server that has none itself."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path


@contextmanager
def tls_relay(target: Path, context: ssl.SSLContext) -> Iterator[int]:
    """Pass on, meanwhile, what comes by TLS to a Unix socket; give the port of 127.0.0.1."""
    started: queue.Queue[tuple[int, Callable[[], object]]] = queue.Queue()

    async def serve() -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        passing: dict[asyncio.Task[None] | None, list[asyncio.StreamWriter]] = {}

        async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_unix_connection(str(target))
            this = asyncio.current_task()
            passing[this] = [writer, back]
            try:
                await asyncio.gather(_copy(reader, back), _copy(there, writer))
            finally:
                del passing[this]

        server = await asyncio.start_server(pass_on, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        started.put((port, lambda: loop.call_soon_threadsafe(ended.set)))
        async with server:
            await ended.wait()
            server.close()
            while passing:
                for writer in chain.from_iterable(passing.values()):
                    writer.transport.abort()
                await asyncio.sleep(0)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    port, end = started.get(timeout=10)
    try:
        yield port
    finally:
        end()
        thread.join()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while some := await reader.read(65_536):
            writer.write(some)
            await writer.drain()
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
