"""Endpoints of the gateway."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final, TypeVar

from taskq.db.connections import Database
from taskq.files.archives import Checkpoints, Outputs
from taskq.files.blob_store import CHUNK_BYTES, MAX_INPUT_BYTES, BlobStore, check_digest
from taskq.gateway import manager_queries, messages, metrics, openapi
from taskq.gateway.auth import AgentSession, Identity, Manager
from taskq.gateway.http.errors import ErrorAnswer
from taskq.gateway.http.flow import PIECE_BYTES
from taskq.gateway.http.proxies import parsed_address
from taskq.gateway.http.request import ClientRequest
from taskq.gateway.http.response import JSON, HttpResponse, PartedResponse
from taskq.gateway.http.routes import Routes, Steps
from taskq.gateway.manager_queries import ManagerQueries
from taskq.gateway.manager_statements import offered
from taskq.gateway.openapi import Endpoint
from taskq.gateway.pages_process import PagesProcess
from taskq.gateway.service import Service
from taskq.gateway.uploads import Uploads
from taskq.model.errors import Forbidden, TaskqError, Unauthorized
from taskq.model.page_paths import PATHS
from taskq.pilots import agent_file
from taskq_agent import protocol
from taskq_agent.errors import SessionLost
from taskq_agent.protocol import Answer, Held, Input
from taskq_agent.task_messages import CheckpointAnswer, FollowingAnswer
from taskq_agent.transport import MAX_BLOB_BYTES

_RANGE: Final = re.compile(r"bytes=(\d{1,12})-(\d{0,12})", re.ASCII)

Handler = TypeVar("Handler", bound=Callable[..., Steps | None])
Message = TypeVar("Message")

_BEARER: Final = b"bearer "

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
    """The endpoints, and the `routes` to them."""

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
        self._uploads = Uploads(blobs)
        failures = service.metrics.failures
        self.routes = Routes(service.failed, failures, "see /v1/openapi.json")
        for endpoint in ENDPOINTS:
            self.routes.add(endpoint.method, endpoint.path, getattr(self, endpoint.name))
        self.routes.add("GET", "/v1/openapi.json", self.describe)
        if pages is not None:
            passed = partial(pages.answer, lambda: service.draining)
            for path, method in PATHS.items():
                self.routes.add(method, path, passed)

    # Agents

    @_endpoint(
        "POST", "/v1/sessions", needs="site", takes=messages.HelloMessage, gives=protocol.Welcome
    )
    async def open(self, request: ClientRequest) -> HttpResponse:
        """Open an agent's session."""
        token = _token(request)
        hello = await self._message(request, messages.read_hello, messages.MAX_HELLO_BYTES)
        if (task := asyncio.current_task()) is not None:
            request.when_gone = task.cancel
        return _json(await self._service.open(token, hello, _address(request)))

    @_endpoint(
        "DELETE", "/v1/session", needs="session", takes=messages.SessionEndMessage, optional=True
    )
    async def close(self, request: ClientRequest) -> HttpResponse:
        """End the session, and perhaps say why."""
        token = _token(request)
        body = await request.read(messages.MAX_HELLO_BYTES)
        await self._service.close_session(token, body)
        return HttpResponse(status=204)

    @_endpoint(
        "POST", "/v1/exchange", needs="session", takes=messages.Exchange, gives=protocol.Answer
    )
    def exchange(self, request: ClientRequest) -> Steps | None:
        """Report ended attempts, claim tasks."""
        token = _token(request)
        agent = self._service.identities.agent(token)
        if agent is None or not request.is_small:
            return self._prepared_exchange(request, token)
        # Thousands a second: a task for each would cost a tenth of the time.
        self._exchange(request, token, agent, messages.read_exchange(request.body()))
        return None

    async def _prepared_exchange(self, request: ClientRequest, token: str) -> None:
        agent = await self._agent(request)
        most = messages.MAX_EXCHANGE_BYTES
        message = await self._message(request, messages.read_exchange, most)
        if not request.is_gone:
            self._exchange(request, token, agent, message)

    def _exchange(
        self, request: ClientRequest, token: str, agent: AgentSession, message: messages.Exchange
    ) -> None:
        link, claim = request.link, (agent.session, message.lease)
        link.untaken.act_for(agent.token_id)
        # An exchange repeated under the same lease id may have tasks already; and perhaps so has
        # the first of a session on this connection.
        is_new = link.memo is not None and link.memo[0] == claim[0] and link.memo != claim
        link.memo = claim
        answered = partial(self._exchanged, request)
        begin = self._service.exchanges.begin
        exchange = begin(agent, token, message, answered, is_new=is_new)
        if not request.is_answered:
            request.when_gone = exchange.abandon

    def _exchanged(self, request: ClientRequest, outcome: Answer | Exception) -> None:
        if isinstance(outcome, Exception):
            request.refuse(self._service.failed(outcome))
        else:
            request.answer(200, messages.encode(outcome))

    @_endpoint(
        "POST",
        "/v1/beat",
        needs="session",
        takes=messages.HeartbeatMessage,
        gives=FollowingAnswer,
    )
    async def heartbeat(self, request: ClientRequest) -> HttpResponse:
        """Keep the session alive, and say what it holds."""
        agent = await self._agent(request)
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
    async def read_blob(self, request: ClientRequest) -> HttpResponse:
        """Fetch an input, or a part of it."""
        identity = await self._identity(request, anew=True)
        digest = check_digest(request.value)
        if isinstance(identity, AgentSession):
            await self._service.check_input(identity, digest)
        size = await asyncio.to_thread(self._blobs.size, digest)
        wanted = _RANGE.fullmatch(request.header(b"range"))
        offset = int(wanted[1]) if wanted else 0
        end = min(size, int(wanted[2]) + 1) if wanted and wanted[2] else size
        if wanted and offset >= end:
            self._service.metrics.failures["no_such_part"] += 1
            why = f"there is no such part of a blob of {size} bytes"
            refusal = ErrorAnswer(416, "no_such_part", why)
            headers = {"content-range": f"bytes */{size}"}
            return HttpResponse(refusal.body(), refusal.status, headers=headers)
        headers = {"accept-ranges": "bytes"}
        if wanted:
            headers["content-range"] = f"bytes {offset}-{end - 1}/{size}"
        status, kind = 206 if wanted else 200, "application/octet-stream"

        def read(at: int, upto: int) -> bytes:
            return b"".join(self._blobs.read(digest, at, upto))

        return PartedResponse(
            read,
            offset,
            end,
            part_bytes=CHUNK_BYTES,
            status=status,
            headers=headers,
            media_type=kind,
        )

    @_endpoint(
        "PUT",
        "/v1/blobs/{digest}",
        needs="session",
        takes=openapi.BYTES,
        parameters=(openapi.DIGEST,),
    )
    async def write_blob(self, request: ClientRequest) -> HttpResponse:
        """Store a large result, or a submitter's input."""
        identity = await self._identity(request, anew=True)
        digest = check_digest(request.value)
        most = MAX_BLOB_BYTES
        if isinstance(identity, Manager) and request.length > most:
            await self._queries.check_submitter(_token(request))
            most = MAX_INPUT_BYTES
        await self._uploads.store(request, digest, most=most)
        return HttpResponse(status=204)

    @_endpoint(
        "POST",
        "/v1/checkpoint",
        needs="session",
        takes=messages.CheckpointMessage,
        gives=CheckpointAnswer,
    )
    async def checkpoint(self, request: ClientRequest) -> HttpResponse:
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
    async def output(self, request: ClientRequest) -> HttpResponse:
        """Save a blob as the output files of a task that the session works on."""
        session, held, saved = await self._archive(request)
        held_now = await asyncio.to_thread(self._outputs.save, session, held, saved)
        return _json(CheckpointAnswer(held_now))

    async def _archive(self, request: ClientRequest) -> tuple[int, Held, Input]:
        """Return the session, the attempt and the archive that a request names."""
        agent = await self._agent(request)
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
        parameters=(openapi.QUERY, openapi.REST, openapi.WAIT),
    )
    async def manage(self, request: ClientRequest) -> HttpResponse | None:
        """Run one of the offered statements, by its name."""
        await self._manager(request)
        name = request.value
        try:
            answer = await self._queries.answer(_token(request), name, request, self._service.ends)
        except TaskqError as error:
            request.refuse(manager_queries.error_answer(self._service.failed(error), error))
            return None
        if offered(name).wakes:
            self._service.exchanges.poll_soon()
        return answer

    @_endpoint("GET", "/metrics", needs="manager", gives=openapi.TEXT)
    async def metrics(self, request: ClientRequest) -> HttpResponse:
        """Metrics for Prometheus."""
        manager = await self._manager(request)
        text = await self._service.metrics_text(manager.paths)
        return HttpResponse(text, media_type=metrics.CONTENT_TYPE)

    # Without a token

    async def describe(self, _: ClientRequest) -> HttpResponse:
        """Fetch the OpenAPI document, which does not describe itself."""
        return _parted(_described(), JSON)

    @_endpoint("GET", "/healthz", gives=openapi.HealthMessage)
    async def health(self, _: ClientRequest) -> HttpResponse:
        """Say that the process lives."""
        return _json({"status": "ok"})

    @_endpoint("GET", "/readyz", gives=openapi.HealthMessage)
    async def ready(self, _: ClientRequest) -> HttpResponse:
        """Say whether it can serve."""
        await self._service.check_ready()
        return _json({"status": "ok"})

    @_endpoint("GET", "/taskq-agent.pyz", gives=openapi.ZIP)
    async def agent_file(self, _: ClientRequest) -> HttpResponse:
        """Fetch the agent."""
        return _parted(await asyncio.to_thread(agent_file.built), "application/zip")

    @_endpoint("GET", "/taskq-agent.pyz.sha256", gives=openapi.TEXT)
    async def agent_checksum(self, _: ClientRequest) -> HttpResponse:
        """Fetch the agent's SHA-256, as `sha256sum --check` takes it."""
        line = await asyncio.to_thread(agent_file.checksum_line)
        return HttpResponse(f"{line}\n".encode(), media_type="text/plain")

    # Shared by several endpoints

    async def _message(
        self,
        request: ClientRequest,
        read: Callable[[bytes], Message],
        most: int = messages.MAX_BODY_BYTES,
    ) -> Message:
        """Decode the message of a request when its turn comes, and return it."""
        token, large = _token(request), self._service.large_bodies
        if request.length <= most:
            large.check(token, request.length)
        body = await request.read(most)
        return await large.decoded(body, read, token=token, is_gone=lambda: request.is_gone)

    async def _identity(self, request: ClientRequest, *, anew: bool = False) -> Identity:
        # anew: for requests that run no statement that checks whether the session has ended.
        identity = await self._service.identities.admit(_token(request), anew=anew)
        request.link.untaken.act_for(identity.token_id)
        return identity

    async def _agent(self, request: ClientRequest) -> AgentSession:
        agent = await self._service.agent(_token(request))
        request.link.untaken.act_for(agent.token_id)
        return agent

    async def _manager(self, request: ClientRequest) -> Manager:
        try:
            identity = await self._identity(request)
        except SessionLost:
            identity = None
        if not isinstance(identity, Manager):
            raise Forbidden("this needs a manager's token")
        self._service.metrics.managed += 1
        return identity


def _token(request: ClientRequest) -> str:
    """Return the token of a request; raise `Unauthorized` if it has none."""
    value = request.fields.get(b"authorization", b"")
    if not value[: len(_BEARER)].lower() == _BEARER:
        raise Unauthorized("no token; send it as `Authorization: Bearer TOKEN`")
    return value[len(_BEARER) :].decode("latin-1").strip()


def _address(request: ClientRequest) -> str:
    """Return the IP address of a client; raise `Forbidden` if a proxy does not pass it on."""
    try:
        return str(parsed_address(request.client))
    except ValueError:
        raise Forbidden(
            f"{request.client!r:.80}, from where this comes, is not an address"
        ) from None


def _json(answer: object) -> HttpResponse:
    return HttpResponse(messages.encode(answer))


def _parted(data: bytes, media_type: str) -> HttpResponse:
    """Return an answer with data that all clients share, so that none keeps more than a piece."""
    return PartedResponse(
        lambda at, upto: data[at:upto],
        0,
        len(data),
        part_bytes=PIECE_BYTES,
        media_type=media_type,
    )


@cache
def _described() -> bytes:
    return messages.encode(document())


@cache
def document() -> dict[str, Any]:
    """Return the OpenAPI document of all endpoints."""
    return openapi.document(ENDPOINTS)
