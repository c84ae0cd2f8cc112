"""Bodies that arrive slowly: they hold no place of others, and are counted while they arrive."""

from __future__ import annotations

import asyncio
import hashlib
import os
from contextlib import ExitStack, suppress

import pytest

from taskq.gateway.http.kept_bytes import MOST_ARRIVING_BYTES_OF_TOKEN
from taskq.gateway.manager_bodies import MAX_BYTES
from taskq.gateway.manager_turns import MOST_ADMITTED
from taskq.gateway.messages import MAX_EXCHANGE_BYTES
from taskq.gateway.uploads import MOST_INPUTS, MOST_UPLOADS, FairPlaces
from taskq_agent.transport import MAX_BLOB_BYTES
from tests.fixtures.gateways import Realm
from tests.helpers.waiting import wait_until
from tests.integration.gateway.peers import Peer, Reply, request_bytes

MIB = 1 << 20
#: More than there are places of any kind.
TRICKLING = 2 * (MOST_UPLOADS + MOST_INPUTS + MOST_ADMITTED)


def upload(realm: Realm, token: str, size: int = MIB) -> Reply:
    """Store a blob at once; return the answer."""
    data = os.urandom(size)
    path = f"/v1/blobs/{hashlib.sha256(data).hexdigest()}"
    return realm.gateway.ask("PUT", path, token=token, body=data)


def begun(realm: Realm, stack: ExitStack, request: bytes, share: float) -> Peer:
    """Send the first part of a request."""
    peer = stack.enter_context(realm.gateway.peer())
    with suppress(BrokenPipeError, ConnectionResetError):  # it may have been turned away
        peer.send(request[: int(len(request) * share)])
    return peer


@pytest.mark.parametrize("size", [MIB, MAX_BLOB_BYTES + 1], ids=["result", "input"])
def test_uploads_that_trickle_keep_no_other_waiting(realm: Realm, size: int) -> None:
    """Neither those of other tokens nor of the same; and they come to their end."""
    token = realm.token("submitter") if size > MAX_BLOB_BYTES else realm.agent().token
    data = os.urandom(size)
    path = f"/v1/blobs/{hashlib.sha256(data).hexdigest()}"
    head = ("expect: 100-continue",)
    request = request_bytes("PUT", path, token=token, body=data, headers=head)
    before = realm.gateway.memory_mb()
    with ExitStack() as stack:
        trickling = [
            begun(realm, stack, request, 0.2 if size == MIB else 0.01) for _ in range(TRICKLING)
        ]
        for peer in trickling:
            assert peer.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        for other in (token, realm.agent().token, realm.token("submitter")):
            assert upload(realm, other).status == 204
        assert realm.gateway.memory_mb() - before < 64
        first = int(len(request) * (0.2 if size == MIB else 0.01))
        trickling[0].send(request[first:])
        assert trickling[0].reply().status == 204


@pytest.mark.thorough
@pytest.mark.parametrize("path", ["/v1/exchange", "/v1/manage/counts"])
def test_messages_that_trickle_are_bounded_in_bytes_and_keep_no_other_waiting(
    realm: Realm, path: str
) -> None:
    """One of a token that has sent too much has to come again; other tokens are served."""
    of_agents = path == "/v1/exchange"
    most = MAX_EXCHANGE_BYTES if of_agents else MAX_BYTES
    before = realm.gateway.memory_mb()
    with ExitStack() as stack:
        peers = []
        for _ in range(TRICKLING):
            token = realm.agent().token if of_agents else realm.manager
            request = request_bytes("POST", path, token=token, body=b" " * most)
            peers.append(begun(realm, stack, request, 0.9))
        assert realm.agent().exchange().status == 200
        assert upload(realm, realm.agent().token).status == 204
        other = realm.token("manager")
        values = {"path": realm.path, "depth": 0}
        asked = realm.gateway.ask("POST", "/v1/manage/counts", token=other, body=values)
        assert asked.status == 200
        few = MOST_ARRIVING_BYTES_OF_TOKEN // int(0.9 * most)
        replies = []
        for peer in peers:
            peer.socket.settimeout(0.5 if len(replies) >= len(peers) - few else 30.0)
            try:
                replies.append(peer.reply())
            except TimeoutError:
                few -= 1
        assert few == 0
        assert {(reply.status, reply.code) for reply in replies} == {(503, "busy")}
        assert all(float(reply.headers["retry-after"]) > 0 for reply in replies)
    wait_until(lambda: realm.gateway.memory_mb() - before < 64)


def test_uploads_are_verified_and_bounded_as_ever(realm: Realm) -> None:
    """Large and small: a digest that is another's, and more than is allowed."""
    agent = realm.agent()
    for size in (10, 100_000, 3 * MIB):
        data = os.urandom(size)
        path = f"/v1/blobs/{hashlib.sha256(b'other').hexdigest()}"
        reply = realm.gateway.ask("PUT", path, token=agent.token, body=data)
        assert (reply.status, reply.code) == (422, "refused")
        path = f"/v1/blobs/{hashlib.sha256(data).hexdigest()}"
        assert realm.gateway.ask("PUT", path, token=agent.token, body=data).status == 204
        assert realm.gateway.ask("GET", path, token=realm.manager).body == data
    chunks = b"".join(b"%x\r\n%s\r\n" % (MIB, bytes(MIB)) for _ in range(65)) + b"0\r\n\r\n"
    head = ("transfer-encoding: chunked",)
    reply = realm.gateway.ask("PUT", path, token=agent.token, body=chunks, headers=head)
    assert (reply.status, reply.code) == (413, "too_large")


class Places:
    """Places, and who has come to one."""

    def __init__(self) -> None:
        self.places = FairPlaces(MOST_UPLOADS)
        self.has: list[int] = []
        self.ends: dict[asyncio.Task[None], asyncio.Event] = {}

    async def come(self, account: int) -> asyncio.Task[None]:
        """Let somebody come, who stays until `end`."""
        end = asyncio.Event()

        async def stay() -> None:
            async with self.places.place(account):
                self.has.append(account)
                try:
                    await end.wait()
                finally:
                    self.has.remove(account)

        task = asyncio.create_task(stay())
        self.ends[task] = end
        await self.settle()
        return task

    async def end(self, task: asyncio.Task[None]) -> None:
        """End a stay."""
        self.ends[task].set()
        await task
        await self.settle()

    async def settle(self) -> None:
        """Let everybody do what they can do now."""
        for _ in range(10):
            await asyncio.sleep(0)


@pytest.fixture
def places() -> Places:
    """Give the places of uploads, all free."""
    return Places()


async def test_place_is_free_for_another_token_whatever_one_does(places: Places) -> None:
    """And those that wait get theirs by turns: who has the fewest goes first."""
    greedy = [await places.come(1) for _ in range(9)]
    assert places.has == [1, 1, 1]
    await places.come(2)
    assert places.has == [1, 1, 1, 2]
    for account in (3, 4):
        await places.come(account)
    await places.end(greedy[0])
    assert sorted(places.has) == [1, 1, 2, 3]
    await places.end(greedy[1])
    assert sorted(places.has) == [1, 2, 3, 4]


async def test_those_who_leave_while_they_wait_take_no_place(places: Places) -> None:
    """Whether they have just got it or not."""
    held = [await places.come(account) for account in (1, 2, 3, 4)]
    waiting = await places.come(5)
    waiting.cancel()
    await places.settle()
    last = await places.come(6)
    places.ends[held[0]].set()
    await held[0]
    last.cancel()
    await places.settle()
    assert sorted(places.has) == [2, 3, 4]
    await places.come(7)
    assert sorted(places.has) == [2, 3, 4, 7]
