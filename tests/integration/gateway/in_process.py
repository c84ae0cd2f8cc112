"""A gateway's endpoints, served over HTTP by the loop of a test, so that a test can change them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from taskq.db.connections import Database
from taskq.files.blob_store import BlobStore
from taskq.gateway.app import App
from taskq.gateway.http.clients import HttpClients
from taskq.gateway.http.connection import HttpConnection
from taskq.gateway.manager_queries import ManagerQueries
from taskq.gateway.service import Service
from taskq.gateway.settings import Settings
from tests.integration.gateway.peers import request_bytes


@asynccontextmanager
async def endpoints(database: Database) -> AsyncIterator[int]:
    """Serve the endpoints, without blobs; yield the port."""
    service = Service(database, Settings(), lambda: len(clients.connections))
    app = App(service, database, cast("BlobStore", None), ManagerQueries(database))
    clients = HttpClients(app.routes.serve, service.metrics, most=100, kept=service.bytes)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: HttpConnection(clients), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in clients.tasks:
            task.cancel()
        while clients.connections:
            for connection in [*clients.connections]:
                connection.abort()
            await asyncio.sleep(0)
        await service.close()


async def posted(port: int, path: str, token: str, body: bytes = b"", *headers: str) -> int:
    """Return the status of the answer to a request of a client that does not leave."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request_bytes("POST", path, token=token, body=body, headers=headers))
        return int((await reader.readline()).split()[1])
    finally:
        writer.close()
