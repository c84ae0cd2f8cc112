"""Fast path, without ASGI, for exchanges and for the begin and end of sessions.

An exchange is a small request with a small answer, and there are many thousands a second. ASGI
makes a task, an event and several dictionaries for each: twice what the exchange itself costs this
process. The connection therefore serves exchanges directly. Agents come and leave by the thousand
within a second, when their batch jobs begin or are killed. All other requests, and those that are
unusual in any way, go to the application, which answers them in the same way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final

from taskq.dispatch.batching import Submitted
from taskq.gateway.app import bearer
from taskq.gateway.auth import AgentSession
from taskq.gateway.connection import IDLE_S, ClientConnection
from taskq.gateway.messages import Exchange, encode, read_exchange, read_hello
from taskq.gateway.requests import LARGE_BYTES, address_of
from taskq.gateway.service import NOTHING
from taskq_agent.protocol import Answer

_EXCHANGE: Final = (b"POST", b"/v1/exchange")
_HELLO: Final = (b"POST", b"/v1/sessions")
_END: Final = (b"DELETE", b"/v1/session")
_SERVED: Final = (_EXCHANGE, _HELLO, _END)


class _NoEvent:
    """A stand-in for the event by which uvicorn wakes the reader of a body."""

    def set(self) -> None:
        """Do nothing."""


@dataclass(slots=True, eq=False)
class _Call:
    """A request being served; to uvicorn it is the request cycle of the connection."""

    message_event: ClassVar = _NoEvent()

    kind: tuple[bytes, bytes]  # one of `_SERVED`
    keep_alive: bool
    began: float = field(default_factory=time.perf_counter)
    parts: list[bytes] = field(default_factory=list)
    more_body: bool = True
    disconnected: bool = False
    response_complete: bool = False
    submitted: Submitted | None = None
    task: asyncio.Task[None] | None = None

    def body(self) -> bytes:
        """Return the body, and keep it no longer."""
        body = b"".join(self.parts)
        self.parts.clear()
        return body


class AgentConnection(ClientConnection):
    """A connection with the fast path."""

    _arriving: _Call | None = None
    _call: _Call | None = None
    # The Authorization header of the last request; and of the last request that was served: the
    # header, its session, and the lease id.
    _authorization = b""
    _known_authorization = b""
    _agent: AgentSession | None = None
    _takeovers = -1
    _lease = ""

    def on_headers_complete(self) -> None:
        """Choose between the fast path and the application."""
        request = self.parser.get_method(), self.url
        if (
            request in _SERVED
            and self.parser.get_http_version() == "1.1"
            and not self.expect_100_continue
            and not self.parser.should_upgrade()
            and not self.is_busy
            and self._is_small()
            # Behind a proxy, the application finds out who the client is.
            and not (request == _HELLO and self.config.proxy_headers)
        ):
            self.end_head()
            call = _Call(request, keep_alive=self.parser.should_keep_alive())
            self._arriving = self._call = self.running = call
            self.cycle = self._call  # type: ignore[assignment]  # has all that uvicorn looks at
        else:
            self._arriving = None
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body."""
        call = self._arriving
        if call is None:
            super().on_body(body)
        else:
            self.count_body(len(body))
            call.parts.append(body)

    def on_message_complete(self) -> None:
        """Serve a request that has arrived in full."""
        call, self._arriving = self._arriving, None
        if call is None:
            super().on_message_complete()
            return
        call.more_body = False
        self.arrived()
        if not call.response_complete:
            self._begin(call)

    def connection_lost(self, exc: Exception | None) -> None:
        """Abandon the exchange that the client was waiting for; a session still ends."""
        super().connection_lost(exc)
        call = self._call
        if call is not None and not call.response_complete:
            self.service.metrics.abandoned += 1
            if call.submitted is not None:
                call.submitted.abandon()
            if call.task is not None and call.kind != _END:
                call.task.cancel()

    def _is_small(self) -> bool:
        """Return whether the body may be read before the token is checked, and decoded at once."""
        headers = dict(reversed(self.headers))  # the first one counts, as for the application
        self._authorization = headers.get(b"authorization", b"")
        return int(headers.get(b"content-length", LARGE_BYTES + 1)) <= LARGE_BYTES

    # Requests

    def _begin(self, call: _Call) -> None:
        try:
            service = self.service
            if call.kind != _EXCHANGE:
                serve = self._open if call.kind == _HELLO else self._end
                self._spawn(call, serve(call, _token(self._authorization)))
                return
            known = (
                self._authorization == self._known_authorization
                and self._takeovers == service.takeovers()
            )
            agent = self._agent if known else None
            if agent is None:
                self._spawn(call, self._identify_and_exchange(call, self._authorization))
                return
            message = read_exchange(call.body())
            # An exchange repeated under the same lease id may have tasks already.
            is_new, self._lease = message.lease != self._lease, message.lease
            if is_new and service.would_wait(agent, message):
                self._spawn(call, self._finish(call, agent, message, NOTHING))
                return
            callback = partial(self._answered, call, agent, message)
            call.submitted = service.submit(agent, message, callback)
        except Exception as error:  # noqa: BLE001  # each is answered
            self._fail(call, error)

    def _answered(
        self, call: _Call, agent: AgentSession, message: Exchange, outcome: Answer | Exception
    ) -> None:
        if isinstance(outcome, Exception):
            self._fail(call, outcome)
        elif self.service.is_final(message, outcome):
            self.service.metrics.took(time.perf_counter() - call.began)
            self._succeed(call, self.service.with_orders(message, outcome))
        else:
            self._spawn(call, self._finish(call, agent, message, outcome))

    async def _finish(
        self, call: _Call, agent: AgentSession, message: Exchange, answer: Answer
    ) -> None:
        token = _token(self._known_authorization)
        self._succeed(call, await self.service.finish(agent, token, message, answer))

    async def _identify_and_exchange(self, call: _Call, header: bytes) -> None:
        takeovers = self.service.takeovers()
        agent = await self.service.agent(_token(header))
        message = read_exchange(call.body())
        # The next request on this connection will most likely send the same header, byte for byte.
        self._known_authorization, self._agent, self._lease = header, agent, message.lease
        self._takeovers = takeovers
        answer = await self.service.exchange(agent, message)
        await self._finish(call, agent, message, answer)

    def _spawn(self, call: _Call, steps: Coroutine[Any, Any, None]) -> None:
        call.task = self.loop.create_task(steps)
        call.task.add_done_callback(lambda task: self._spawned(call, task))

    def _spawned(self, call: _Call, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            error = task.exception()
            if isinstance(error, Exception):
                self._fail(call, error)

    async def _open(self, call: _Call, token: str) -> None:
        hello = read_hello(call.body()).to_protocol()
        welcome = await self.service.open(token, hello, address_of(self.client))
        self._write(call, 200, encode(welcome))

    async def _end(self, call: _Call, token: str) -> None:
        await self.service.close_session(token, call.body())
        self._write(call, 204, b"")

    # Answers

    def _succeed(self, call: _Call, answer: Answer) -> None:
        self._write(call, 200, encode(answer))

    def _fail(self, call: _Call, error: Exception) -> None:
        known = self.service.failed(error)
        extra = b"retry-after: %s\r\n" % str(known.after_s).encode() if known.retry else b""
        self._write(call, known.status, known.body(), extra)

    def _write(self, call: _Call, status: int, body: bytes, extra: bytes = b"") -> None:
        if call.disconnected or call.response_complete:
            return
        call.response_complete = True
        if call.more_body:
            call.keep_alive = False  # the rest of the body is not worth reading
        if not call.keep_alive:
            extra += b"connection: close\r\n"
        self.send(status, body, extra)
        if not call.keep_alive:
            self.close()
            return
        self.server_state.total_requests += 1
        if self.flow.write_paused:
            self.flow.pause_reading()  # until the client has taken its answers
            return
        self.deadline = time.monotonic() + IDLE_S
        self.flow.resume_reading()
        if self.pipeline or self._final_error is not None:
            self.on_response_complete()


def _token(authorization: bytes) -> str:
    return bearer(authorization.decode("latin-1"))
