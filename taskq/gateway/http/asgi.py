"""Way of requests to an ASGI application, such as one of Starlette."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

from taskq.gateway.http.errors import ClientLeft, ErrorAnswer
from taskq.gateway.http.request import ClientRequest

Message: TypeAlias = MutableMapping[str, Any]
Application: TypeAlias = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]

_FAILED: Final = ErrorAnswer(500, "defect", "the server has failed; its log says why")
_OURS: Final = frozenset({b"content-length", b"connection", b"date", b"transfer-encoding"})


class AsgiServing:
    """Serves requests by an ASGI application. failed: called with the error of one that fails."""

    def __init__(self, application: Application, failed: Callable[[Exception], None]) -> None:
        self._application = application
        self._failed = failed

    def serve(self, request: ClientRequest) -> None:
        """Begin to answer a request."""
        request.link.spawn(self._answer(request))

    async def _answer(self, request: ClientRequest) -> None:
        exchange = _Exchange(request)
        try:
            await self._application(exchange.scope(), exchange.receive, exchange.send)
        except ClientLeft:
            pass
        except Exception as error:  # noqa: BLE001  # it goes to the log
            self._failed(error)
        if not request.is_answered:
            request.refuse(_FAILED)


class _Exchange:
    """One request, as ASGI sees it."""

    def __init__(self, request: ClientRequest) -> None:
        self._request = request
        self._parts = request.parts()
        self._has_body = True
        self._gone = asyncio.Event()
        request.when_gone = self._gone.set

    def scope(self) -> Message:
        request = self._request
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": request.version,
            "method": request.method.decode("ascii"),
            "scheme": "https" if request.link.is_encrypted else "http",
            "path": request.path,
            "raw_path": request.raw_path,
            "query_string": request.query,
            "root_path": "",
            "headers": list(request.headers),
            "client": (request.client, 0) if request.client else None,
            "server": None,
        }

    async def receive(self) -> Message:
        try:
            part = await anext(self._parts, None) if self._has_body else None
        except ClientLeft:
            return {"type": "http.disconnect"}
        if part is not None:
            return {"type": "http.request", "body": part, "more_body": True}
        if self._has_body:
            self._has_body = False
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        request = self._request
        if message["type"] == "http.response.start":
            headers = [(bytes(name).lower(), bytes(value)) for name, value in message["headers"]]
            kept = [header for header in headers if header[0] not in _OURS]
            if any(b"\r" in part or b"\n" in part for header in kept for part in header):
                raise ValueError("a header with a line end")
            lines = b"".join(b"%s: %s\r\n" % header for header in kept)
            length = dict(headers).get(b"content-length")
            request.start(message["status"], lines, None if length is None else int(length))
            return
        await request.write(message.get("body", b""))
        if not message.get("more_body", False):
            request.finish()
            self._gone.set()
