"""ASGI application of the gateway: one endpoint for each request."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final, TypeVar

from starlette.applications import Starlette
from starlette.concurrency import iterate_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from taskq.db.connections import Database
from taskq.files.archives import Checkpoints, Outputs
from taskq.files.blob_store import BlobStore, check_digest
from taskq.gateway import manager_queries, messages, metrics, openapi
from taskq.gateway.auth import AgentSession, Identity, Manager
from taskq.gateway.errors import Busy, ErrorAnswer
from taskq.gateway.manager_queries import ManagerQueries, offered
from taskq.gateway.openapi import Endpoint
from taskq.gateway.pages_process import PagesProcess
from taskq.gateway.requests import address_of, check_target, length_of, read_body
from taskq.gateway.service import Service
from taskq.model.errors import Forbidden, TaskqError, Unauthorized
from taskq.model.page_paths import PATHS
from taskq.pilots import agent_file
from taskq_agent import protocol
from taskq_agent.errors import SessionLost
from taskq_agent.protocol import Held, Input
from taskq_agent.task_messages import CheckpointAnswer, FollowingAnswer
from taskq_agent.transport import MAX_BLOB_BYTES

JSON: Final = "application/json"
_RANGE: Final = re.compile(r"bytes=(\d{1,12})-(\d{0,12})", re.ASCII)
_BEARER: Final = "bearer "

Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Response]])
Message = TypeVar("Message")


#: All endpoints, in the order of the routes; `App` has a method for each.
ENDPOINTS: Final[list[Endpoint]] = []


def _endpoint(method: str, path: str, **of_document: Any) -> Callable[[Handler], Handler]:
    """Declare that a method of `App` serves an endpoint; its docstring is the summary."""

    def declared(handler: Handler) -> Handler:
        summary = handler.__doc__ or ""
        ENDPOINTS.append(Endpoint(method, path, handler.__name__, summary, **of_document))
        return handler

    return declared


class App:
    """The endpoints; `asgi` is the application."""

    def __init__(
        self,
        service: Service,
        database: Database,
        blobs: BlobStore,
        queries: ManagerQueries,
        pages: PagesProcess | None = None,
    ) -> None:
        self._service = service
        self._blobs = blobs
        self._checkpoints = Checkpoints(database, blobs)
        self._outputs = Outputs(database, blobs)
        self._queries = queries
        routes = [
            Route(one.path, self._guarded(getattr(self, one.name)), methods=[one.method])
            for one in ENDPOINTS
        ]
        routes.append(Route("/v1/openapi.json", self._guarded(self.describe), methods=["GET"]))
        if pages is not None:
            passed = self._guarded(partial(pages.answer, lambda: service.draining))
            routes += [Route(path, passed, methods=[method]) for path, method in PATHS.items()]
        self.asgi = Starlette(routes=routes, exception_handlers={HTTPException: self._http_error})
        # A redirect would go to whatever host the Host header of the request names.
        self.asgi.router.redirect_slashes = False

    # Agents

    @_endpoint(
        "POST", "/v1/sessions", needs="site", takes=messages.HelloMessage, gives=protocol.Welcome
    )
    async def open(self, request: Request) -> Response:
        """Open an agent's session."""
        # Most hellos take the fast path instead.
        token = _token(request)
        hello = await self._message(request, messages.read_hello, messages.MAX_HELLO_BYTES)
        return _json(
            await self._service.open(token, hello.to_protocol(), address_of(request.client))
        )

    @_endpoint(
        "DELETE", "/v1/session", needs="session", takes=messages.SessionEndMessage, optional=True
    )
    async def close(self, request: Request) -> Response:
        """End the session, and perhaps say why."""
        token = _token(request)
        # Most ends take the fast path instead.
        body = await read_body(request, messages.MAX_HELLO_BYTES)
        await self._service.close_session(token, body)
        return Response(status_code=204)

    @_endpoint(
        "POST", "/v1/exchange", needs="session", takes=messages.Exchange, gives=protocol.Answer
    )
    async def exchange(self, request: Request) -> Response:
        """Report ended attempts, claim tasks."""
        # Most exchanges take the fast path instead.
        token = _token(request)
        agent = await self._service.agent(token)
        most = messages.MAX_EXCHANGE_BYTES
        message = await self._message(request, messages.read_exchange, most)
        answer = await self._service.exchange(agent, message)
        return _json(await self._service.finish(agent, token, message, answer))

    @_endpoint(
        "POST",
        "/v1/beat",
        needs="session",
        takes=messages.HeartbeatMessage,
        gives=FollowingAnswer,
    )
    async def heartbeat(self, request: Request) -> Response:
        """Keep the session alive, and say what it holds."""
        agent = await self._service.agent(_token(request))
        message = await self._message(request, messages.read_heartbeat)
        return _json(await self._service.heartbeat(agent, message))

    # Blobs

    @_endpoint(
        "GET",
        "/v1/blobs/{digest}",
        needs="session",
        gives=openapi.BYTES,
        parameters=(openapi.DIGEST, openapi.RANGE),
        in_parts=True,
    )
    async def read_blob(self, request: Request) -> Response:
        """Fetch an input, or a part of it."""
        identity = await self._identity(request, anew=True)
        digest = check_digest(request.path_params["digest"])
        if isinstance(identity, AgentSession):
            await self._service.check_input(identity, digest)
        size = await asyncio.to_thread(self._blobs.size, digest)
        wanted = _RANGE.fullmatch(request.headers.get("range", ""))
        offset = int(wanted[1]) if wanted else 0
        end = min(size, int(wanted[2]) + 1) if wanted and wanted[2] else size
        if wanted and offset >= end:
            self._service.metrics.failures["no_such_part"] += 1
            why = f"there is no such part of a blob of {size} bytes"
            answer = _failed(ErrorAnswer(416, "no_such_part", why))
            answer.headers["content-range"] = f"bytes */{size}"
            return answer
        headers = {"content-length": str(end - offset), "accept-ranges": "bytes"}
        if wanted:
            headers["content-range"] = f"bytes {offset}-{end - 1}/{size}"
        status, kind = 206 if wanted else 200, "application/octet-stream"
        if request.method == "HEAD":
            return Response(None, status, headers, kind)
        chunks = iterate_in_threadpool(self._blobs.read(digest, offset, end))
        return StreamingResponse(chunks, status, headers, kind)

    @_endpoint(
        "PUT",
        "/v1/blobs/{digest}",
        needs="session",
        takes=openapi.BYTES,
        parameters=(openapi.DIGEST,),
    )
    async def write_blob(self, request: Request) -> Response:
        """Store a large result, or a submitter's input."""
        identity = await self._identity(request, anew=True)
        digest = check_digest(request.path_params["digest"])
        if isinstance(identity, Manager) and length_of(request) > MAX_BLOB_BYTES:
            await self._queries.store(_token(request), digest, self._blobs, request)
            return Response(status_code=204)
        uploads = self._service.uploads
        if uploads.locked():
            raise Busy
        async with uploads:
            data = await read_body(request, MAX_BLOB_BYTES)
            await asyncio.to_thread(self._blobs.put_verified, digest, data)
        return Response(status_code=204)

    @_endpoint(
        "POST",
        "/v1/checkpoint",
        needs="session",
        takes=messages.CheckpointMessage,
        gives=CheckpointAnswer,
    )
    async def checkpoint(self, request: Request) -> Response:
        """Find or save the checkpoint of a task that the session works on."""
        session, held, saved = await self._archive(request)
        if not saved.digest:
            found, failures = await asyncio.to_thread(self._checkpoints.find, session, held)
            blob = () if found is None else (found.digest, found.size)
            return _json(replace(CheckpointAnswer(True, *blob), memory_failures=failures))
        if await asyncio.to_thread(self._checkpoints.save, session, held, saved):
            return _json(CheckpointAnswer(True, saved.digest, saved.size))
        return _json(CheckpointAnswer(held=False))

    @_endpoint(
        "POST",
        "/v1/output",
        needs="session",
        takes=messages.CheckpointMessage,
        gives=CheckpointAnswer,
    )
    async def output(self, request: Request) -> Response:
        """Save a blob as the output files of a task that the session works on."""
        session, held, saved = await self._archive(request)
        held_now = await asyncio.to_thread(self._outputs.save, session, held, saved)
        return _json(CheckpointAnswer(held_now))

    async def _archive(self, request: Request) -> tuple[int, Held, Input]:
        """Return the session, the attempt and the archive that a request names."""
        agent = await self._service.agent(_token(request))
        message = await self._message(request, messages.read_checkpoint)
        held = Held(message.campaign, message.task, message.lease)
        return agent.session, held, Input(message.digest, message.size)

    # Managers

    @_endpoint(
        "POST",
        "/v1/manage/{query}",
        needs="manager",
        takes=openapi.VALUES,
        gives=openapi.LINES,
        parameters=(openapi.QUERY, openapi.REST),
    )
    async def manage(self, request: Request) -> Response:
        """Run one of the offered statements, by its name."""
        await self._manager(request)
        name = request.path_params["query"]
        try:
            answer = await self._queries.answer(_token(request), name, request)
        except TaskqError as error:
            return _failed(manager_queries.error_answer(self._service.failed(error), error))
        if offered(name).wakes:
            self._service.poll_soon()
        return answer

    @_endpoint("GET", "/metrics", needs="manager", gives=openapi.TEXT)
    async def metrics(self, request: Request) -> Response:
        """Metrics for Prometheus."""
        manager = await self._manager(request)
        text = await self._service.metrics_text(manager.paths)
        return Response(text, media_type=metrics.CONTENT_TYPE)

    # Without a token

    async def describe(self, _: Request) -> Response:
        """Fetch the OpenAPI document, which does not describe itself."""
        return _json(document())

    @_endpoint("GET", "/healthz", gives=openapi.HealthMessage)
    async def health(self, _: Request) -> Response:
        """Say that the process lives."""
        return _json({"status": "ok"})

    @_endpoint("GET", "/readyz", gives=openapi.HealthMessage)
    async def ready(self, _: Request) -> Response:
        """Say whether it can serve."""
        await self._service.check_ready()
        return _json({"status": "ok"})

    @_endpoint("GET", "/taskq-agent.pyz", gives=openapi.ZIP)
    async def agent_file(self, _: Request) -> Response:
        """Fetch the agent."""
        return Response(await asyncio.to_thread(agent_file.built), media_type="application/zip")

    @_endpoint("GET", "/taskq-agent.pyz.sha256", gives=openapi.TEXT)
    async def agent_checksum(self, _: Request) -> Response:
        """Fetch the agent's SHA-256, as `sha256sum --check` takes it."""
        line = await asyncio.to_thread(agent_file.checksum_line)
        return Response(f"{line}\n", media_type="text/plain")

    # Shared by several endpoints

    async def _message(
        self,
        request: Request,
        read: Callable[[bytes], Message],
        most: int = messages.MAX_BODY_BYTES,
    ) -> Message:
        """Decode the message of a request when its turn comes, and return it."""
        token, large = _token(request), self._service.large_bodies
        if (size := length_of(request)) <= most:
            large.check(token, size)
        body = await read_body(request, most)
        return await large.decoded(body, read, token=token, is_gone=request.is_disconnected)

    async def _identity(self, request: Request, *, anew: bool = False) -> Identity:
        # anew: for requests that run no statement that checks whether the session has ended.
        return await self._service.identities.admit(_token(request), anew=anew)

    async def _manager(self, request: Request) -> Manager:
        try:
            identity = await self._identity(request)
        except SessionLost:
            identity = None
        if not isinstance(identity, Manager):
            raise Forbidden("this needs a manager's token")
        self._service.metrics.managed += 1
        return identity

    def _guarded(self, serve: Handler) -> Callable[[Request], Awaitable[Response]]:
        """Wrap an endpoint so that its errors become answers."""

        async def guarded(request: Request) -> Response:
            try:
                check_target(request)
                return await serve(request)
            except ClientDisconnect:
                self._service.metrics.abandoned += 1
                return Response(status_code=499)
            except Exception as error:  # noqa: BLE001  # each is answered, and defects are logged
                return _failed(self._service.failed(error))

        return guarded

    async def _http_error(self, _: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        headers = error.headers if isinstance(error, HTTPException) else None
        code, text = _ROUTING.get(status, ("malformed", "this cannot be read"))
        self._service.metrics.failures[code] += 1
        return Response(ErrorAnswer(status, code, text).body(), status, headers, media_type=JSON)


_ROUTING: Final = {
    404: ("not_found", "there is nothing at this path; see /v1/openapi.json"),
    405: ("not_allowed", "this path has other methods; see /v1/openapi.json"),
}


def bearer(value: str) -> str:
    """Return the token in an Authorization header; raise `Unauthorized` if there is none."""
    if not value[: len(_BEARER)].lower() == _BEARER:
        raise Unauthorized("no token; send it as `Authorization: Bearer TOKEN`")
    return value[len(_BEARER) :].strip()


def _token(request: Request) -> str:
    return bearer(request.headers.get("authorization", ""))


def _failed(known: ErrorAnswer) -> Response:
    headers = {"retry-after": str(known.after_s)} if known.retry else {}
    return Response(known.body(), known.status, headers, media_type=JSON)


def _json(answer: object) -> Response:
    return Response(messages.encode(answer), media_type=JSON)


@cache
def document() -> dict[str, Any]:
    """Return the OpenAPI document of all endpoints."""
    return openapi.document(ENDPOINTS)
