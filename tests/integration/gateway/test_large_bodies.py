"""Large bodies are decoded one at a time, with rests; nobody else waits for more than one."""

from __future__ import annotations

import asyncio
import json
from typing import cast

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message

from taskq.files.blob_store import BlobStore
from taskq.gateway import requests as bodies
from taskq.gateway.app import App
from taskq.gateway.errors import Busy, failure
from taskq.gateway.manager_queries import ManagerQueries
from taskq.gateway.messages import BadRequest, HeartbeatMessage, heartbeat_arguments, read_heartbeat
from taskq.gateway.requests import LARGE_BYTES, LargeBodies
from taskq.gateway.service import Service
from taskq.gateway.settings import Settings
from taskq_agent.protocol import MAX_CLAIM, LeaseIds
from tests.fixtures.gateways import Realm
from tests.integration.gateway.peers import report_of

LARGE = bytes(LARGE_BYTES + 1)
SPOILT = b"?" * len(LARGE)
SMALL = bytes(LARGE_BYTES)


class Desk:
    """Large bodies, and which of them were decoded. gone: the tokens whose clients have left."""

    def __init__(self) -> None:
        self.bodies = LargeBodies()
        self.decoded: list[str] = []
        self.gone: set[str] = set()

    def bring(self, token: str, body: bytes = LARGE) -> asyncio.Task[int]:
        """Bring a body; return the task that decodes it."""

        def read(body: bytes) -> int:
            self.decoded.append(token)
            if body == SPOILT:
                raise BadRequest("spoilt")
            return len(body)

        async def is_gone() -> bool:
            return token in self.gone

        return asyncio.create_task(self.bodies.decoded(body, read, token=token, is_gone=is_gone))


@pytest.fixture
def endless_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the rest after a large body outlast every test."""
    monkeypatch.setattr(bodies, "REST_FACTOR", 1e12)


@pytest.mark.usefixtures("endless_rest")
async def test_large_bodies_wait_undecoded_for_the_rest_to_end() -> None:
    """However many come at once; small ones wait for nothing."""
    desk = Desk()
    large = [desk.bring(token) for token in "abcd"]
    assert await large[0] == len(LARGE)
    assert await desk.bring("e", SMALL) == len(SMALL)
    assert await desk.bring("b", SMALL) == len(SMALL)
    assert desk.decoded == ["a", "e", "b"]
    assert not any(one.done() for one in large[1:])
    for one in large[1:]:
        one.cancel()
    await asyncio.wait(large[1:])


async def test_large_bodies_get_their_turns_in_order() -> None:
    """All of them, though one in between makes no sense."""
    desk = Desk()
    some = [desk.bring("a"), desk.bring("b", SPOILT), desk.bring("c")]
    outcomes = await asyncio.gather(*some, return_exceptions=True)
    assert [type(one) for one in outcomes] == [int, BadRequest, int]
    assert desk.decoded == ["a", "b", "c"]
    assert await desk.bring("b") == len(LARGE)


@pytest.mark.usefixtures("endless_rest")
async def test_bodies_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """In bytes, and a token has one place; who comes then is asked to come again."""
    monkeypatch.setattr(bodies, "MOST_BYTES", 3 * len(LARGE))
    desk = Desk()
    await desk.bring("a")
    waiting = [desk.bring(token) for token in "ab"]
    await asyncio.sleep(0)
    for token, size in (("b", 1), ("c", 2)):
        with pytest.raises(Busy) as refused:
            await desk.bring(token, LARGE * size)
        told = failure(refused.value)
        assert (told.status, told.retry) == (503, True)
    waiting.append(desk.bring("c"))
    await asyncio.sleep(0)
    assert not waiting[-1].done()
    for one in waiting:
        one.cancel()
    await asyncio.wait(waiting)
    last = desk.bring("b", LARGE * 3)
    await asyncio.sleep(0)
    assert not last.done(), "the places of those who have left are free"
    last.cancel()


async def test_body_of_a_client_that_has_left_is_not_decoded() -> None:
    """Nobody rests after it."""
    desk = Desk()
    desk.gone = {"a", "b"}
    left = [desk.bring(token) for token in "ab"]
    assert await desk.bring("c") == len(LARGE)
    outcomes = await asyncio.gather(*left, return_exceptions=True)
    assert [type(one) for one in outcomes] == [ClientDisconnect] * 2
    assert desk.decoded == ["c"]


def test_large_exchanges_that_come_together_are_all_answered(realm: Realm) -> None:
    """On connections that the gateway knows."""
    realm.seed(3 * MAX_CLAIM)
    agents = [realm.agent() for _ in range(3)]
    for agent in agents:
        reports = [report_of(task, result={"n": 1}) for task in agent.claim_many(MAX_CLAIM)]
        request = agent.request(reports=reports)
        assert len(request) > LARGE_BYTES
        agent.peer.send(request)
    for agent in agents:
        reply = agent.peer.reply()
        assert {ack["verdict"] for ack in reply.json["acks"]} == {"accepted"}
    assert realm.campaign.status().done == 3 * MAX_CLAIM


@pytest.mark.usefixtures("endless_rest")
@pytest.mark.parametrize("path", ["/v1/exchange", "/v1/beat"])
async def test_application_decodes_large_requests_in_turns(realm: Realm, path: str) -> None:
    """And goes on with small ones."""
    tokens = [realm.agent().token for _ in range(3)]
    service = Service(realm.queue.database, Settings(), lambda: 3)
    blobs, queries = cast("BlobStore", None), cast("ManagerQueries", None)
    app = App(service, realm.queue.database, blobs, queries).asgi
    try:
        large, waiting = (
            asyncio.create_task(posted(app, path, token, b"{}" + b" " * LARGE_BYTES))
            for token in tokens[:2]
        )
        assert await large == 200
        assert await posted(app, path, tokens[2], b"{}") == 200
        assert not waiting.done()
        # Refused unread: the length is all that comes of it.
        assert await posted(app, path, tokens[1], None, len(LARGE)) == 503
        waiting.cancel()
    finally:
        await service.close()


async def posted(
    app: ASGIApp, path: str, token: str, body: bytes | None, length: int | None = None
) -> int:
    """Return the status of the answer to a request of a client that does not leave.

    body: None if it never comes. length: of the body, as the head says.
    """
    request = [] if body is None else [{"type": "http.request", "body": body}]
    statuses: list[int] = []

    async def receive() -> Message:
        return request.pop() if request else await asyncio.Future()

    async def send(message: Message) -> None:
        if "status" in message:
            statuses.append(message["status"])

    headers = [(b"authorization", f"Bearer {token}".encode())]
    if length is not None:
        headers.append((b"content-length", str(length).encode()))
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode()}
    await app({**scope, "query_string": b"", "headers": headers}, receive, send)
    return statuses[0]


def test_heartbeat_is_written_as_it_was_read() -> None:
    """Each attempt with its fence, in the form that the database takes."""
    lease = LeaseIds()()
    held = [{"campaign": 1, "task": n, "lease": lease} for n in range(3)]
    trouble: dict[str, object] = {"failures": 2, "error_class": "a\x1b[2Jb", "try_in_s": 1.5}
    trouble["warnings"] = ["disk"]
    tally = [{"campaign": 1, "done": 2, "failed": 3}]
    body = {"held": held, "drawn": "", "timeline": 4, "trouble": trouble, "tally": tally}
    message = read_heartbeat(json.dumps(body).encode())
    assert isinstance(message, HeartbeatMessage)
    assert json.loads(heartbeat_arguments(message, 7)[0]) == {
        "session": 7,
        "held": [[1, n, lease] for n in range(3)],
        "pending": [],
        "drawn": None,
        "timeline": 4,
        "trouble": {"failures": 2, "error_class": "ab", "try_in_s": 1.5, "warnings": ["disk"]},
        "tally": [[1, 2, 3]],
    }
