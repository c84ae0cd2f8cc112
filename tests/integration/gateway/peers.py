"""Clients of a gateway that say just what a test wants them to say, down to the byte."""

from __future__ import annotations

import json
import socket
import ssl
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from typing_extensions import Self

from taskq_agent.lease_ids import LeaseIds
from taskq_agent.resources import PROTOCOL_TAG
from taskq_agent.wire import dumps

TIMEOUT_S = 100.0


@dataclass(frozen=True)
class Reply:
    """An answer; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, which must be JSON."""
        assert self.headers["content-type"] == "application/json", self
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of an error, whose body must be as agreed."""
        (error,) = self.json.values()
        assert error.keys() == {"code", "message"}
        assert error["message"]
        return str(error["code"])


class Peer:
    """One connection."""

    def __init__(
        self,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        source: str = "",
    ) -> None:
        plain = socket.create_connection((host, port), TIMEOUT_S, (source, 0))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = tls.wrap_socket(plain, server_hostname=host) if tls else plain
        self._stream = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._stream.close()
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send some bytes as they are."""
        self.socket.sendall(data)

    def reply(self, *, head: bool = False) -> Reply:
        """Return the next answer; `ConnectionError` if there is none. head: it has no body."""
        line = self._stream.readline()
        if not line:
            raise ConnectionResetError("closed without an answer")
        version, status = line.split()[:2]
        assert version == b"HTTP/1.1"
        headers: dict[str, str] = {}
        while line := self._stream.readline().strip():
            name, _, value = line.decode("latin-1").partition(":")
            assert name.lower() not in headers, f"{name} twice"
            headers[name.lower()] = value.strip()
        body = b""
        if int(status) == 100:  # go on
            return self.reply(head=head)
        if not head and int(status) != 204:
            size = int(headers["content-length"])
            body = self._stream.read(size)
            assert len(body) == size, "the answer was cut"
        return Reply(int(status), headers, body)

    def ask(self, method: str, path: str, **options: Any) -> Reply:
        """Send a request as `request_bytes` makes it; return the answer."""
        with suppress(BrokenPipeError):  # it may have said why before it closed
            self.send(request_bytes(method, path, **options))
        return self.reply(head=method == "HEAD")

    def is_closed(self) -> bool:
        """Wait until the other side says something more; tell whether it has hung up."""
        try:
            return self._stream.read(1) == b""
        except ConnectionResetError:
            return True


def request_bytes(
    method: str,
    path: str,
    *,
    token: str = "",
    body: object = None,
    headers: tuple[str, ...] = (),
    version: str = "1.1",
) -> bytes:
    """Return a request. body: bytes as they are, or anything else as JSON; headers: whole lines."""
    lines = [f"{method} {path} HTTP/{version}", "host: gateway.test", *headers]
    if token:
        lines.append(f"authorization: Bearer {token}")
    if body is not None:
        body = body if isinstance(body, bytes) else dumps(body).encode()
        if not any(line.lower().startswith(("content-length:", "transfer-")) for line in headers):
            lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def hello(campaign: str, **members: Any) -> dict[str, Any]:
    """Return what an agent says first."""
    return {
        "key": str(uuid.uuid4()),
        "campaign": campaign,
        "name": "peer",
        "host": "node1",
        "pid": 1,
        "site": "here",
        "slots": 1,
        "offers": [PROTOCOL_TAG],
        "release": "0",
        **members,
    }


class Agent:
    """An agent's session on one connection. hello: what it has said first."""

    hello: dict[str, Any]

    def __init__(self, peer: Peer, welcome: dict[str, Any]) -> None:
        self.peer = peer
        self.session: int = welcome["session"]
        self.token: str = welcome["token"]
        self.lease_ids = LeaseIds()
        self.drawn = ""

    @classmethod
    def enrolled(cls, peer: Peer, site: str, members: dict[str, Any]) -> Self:
        """Open a session."""
        said = hello(**members)
        reply = peer.ask("POST", "/v1/sessions", token=site, body=said)
        assert reply.status == 200, reply
        agent = cls(peer, reply.json)
        agent.hello = said
        return agent

    def at(self, peer: Peer) -> Self:
        """Return the same agent on another connection."""
        other = type(self)(peer, {"session": self.session, "token": self.token})
        other.lease_ids = self.lease_ids
        return other

    def lease(self) -> str:
        """Draw a lease id."""
        self.drawn = self.lease_ids()
        return self.drawn

    def wanting(self, want: int = 1, **members: Any) -> bytes:
        """Return the request of a claim."""
        members.setdefault("lease", self.drawn or self.lease())
        return self.request(want=want, **members)

    def request(self, **members: Any) -> bytes:
        """Return the request of an exchange."""
        return request_bytes("POST", "/v1/exchange", token=self.token, body=members)

    def exchange(self, **members: Any) -> Reply:
        """Do an exchange."""
        return self.peer.ask("POST", "/v1/exchange", token=self.token, body=members)

    def claim(self, want: int = 1, **members: Any) -> list[dict[str, Any]]:
        """Claim tasks under a new lease id."""
        reply = self.exchange(want=want, **{"lease": self.lease(), **members})
        assert reply.status == 200, reply
        tasks: list[dict[str, Any]] = reply.json["tasks"]
        return tasks

    def claim_many(self, count: int) -> list[dict[str, Any]]:
        """Claim so many tasks, in as many claims as that takes while others ask."""
        tasks: list[dict[str, Any]] = []
        while len(tasks) < count:
            some = self.claim(want=count - len(tasks))
            assert some, "nothing is left"
            tasks += some
        return tasks

    def report(self, *tasks: dict[str, Any], **members: Any) -> list[str]:
        """Report tasks as done; return the verdicts."""
        reply = self.exchange(reports=[report_of(task, **members) for task in tasks])
        assert reply.status == 200, reply
        return [ack["verdict"] for ack in reply.json["acks"]]

    def beat(self, *held: dict[str, Any], **members: Any) -> Reply:
        """Say what is held."""
        body = {"held": [fence(task) for task in held], "drawn": self.drawn, **members}
        return self.peer.ask("POST", "/v1/beat", token=self.token, body=body)


def fence(task: dict[str, Any]) -> dict[str, Any]:
    """Return what an attempt is known by."""
    return {name: task[name] for name in ("campaign", "task", "lease")}


def report_of(task: dict[str, Any], outcome: str = "done", **members: Any) -> dict[str, Any]:
    """Return a report on a task."""
    return {**fence(task), "outcome": outcome, **members}
