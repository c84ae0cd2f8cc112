"""Large bodies are decoded one at a time, with rests; nobody else waits for more than one."""

from __future__ import annotations

import asyncio
import json

import pytest

from taskq.gateway import large_bodies as bodies
from taskq.gateway.errors import failure
from taskq.gateway.http.errors import BadRequest, Busy, ClientLeft
from taskq.gateway.http.request import LARGE_BYTES
from taskq.gateway.large_bodies import LargeBodies
from taskq.gateway.messages import heartbeat_arguments, read_heartbeat
from taskq_agent.lease_ids import LeaseIds
from taskq_agent.protocol import MAX_CLAIM
from tests.fixtures.gateways import Realm
from tests.integration.gateway.in_process import endpoints, posted
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

        return asyncio.create_task(
            self.bodies.decoded(body, read, token=token, is_gone=lambda: token in self.gone)
        )


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
    assert not any(task.done() for task in large[1:])
    for task in large[1:]:
        task.cancel()
    await asyncio.wait(large[1:])


async def test_large_bodies_get_their_turns_in_order() -> None:
    """All of them, though one in between makes no sense."""
    desk = Desk()
    some = [desk.bring("a"), desk.bring("b", SPOILT), desk.bring("c")]
    outcomes = await asyncio.gather(*some, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [int, BadRequest, int]
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
        refusal = failure(refused.value)
        assert (refusal.status, refusal.retry) == (503, True)
    waiting.append(desk.bring("c"))
    await asyncio.sleep(0)
    assert not waiting[-1].done()
    for task in waiting:
        task.cancel()
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
    assert [type(outcome) for outcome in outcomes] == [ClientLeft] * 2
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
    async with endpoints(realm.queue.database) as port:
        large, waiting = (
            asyncio.create_task(posted(port, path, token, b"{}" + b" " * LARGE_BYTES))
            for token in tokens[:2]
        )
        assert await large == 200
        assert await posted(port, path, tokens[2], b"{}") == 200
        assert not waiting.done()
        # Refused unread: the length is all that comes of it.
        assert await posted(port, path, tokens[1], b"", f"content-length: {len(LARGE)}") == 503
        waiting.cancel()


def test_heartbeat_goes_to_the_database_as_it_came_but_for_the_session() -> None:
    """Which follows from the token; members with their defaults are left out."""
    lease = LeaseIds()()
    held = [{"campaign": 1, "task": n, "lease": lease} for n in range(3)]
    trouble: dict[str, object] = {"failures": 2, "error_class": "a\x1b[2Jb", "try_in_s": 1.5}
    trouble["warnings"] = ["disk"]
    tally = [{"campaign": 1, "done": 2, "failed": 3}]
    kept = {"held": held, "timeline": 4, "trouble": trouble, "tally": tally}
    body = {**kept, "session": 8, "drawn": "", "pending": [], "of a later release": 1}
    message = read_heartbeat(json.dumps(body).encode())
    assert json.loads(heartbeat_arguments(message, 7)[0]) == {"session": 7, **kept}
    assert heartbeat_arguments(read_heartbeat(b"{}"), 7) == ('{"session":7}', 0, "", "")
