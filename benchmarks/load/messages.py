"""Requests and answers as bytes: what the agent's own encoder writes, with places to fill in."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from benchmarks.load.work import Credentials, LoadWork
from taskq_agent.protocol import DONE, Heartbeat, Held, Hello, Report, Request, SessionEnd
from taskq_agent.wire import dumps

BLANK: Final = b"\r\n\r\n"
NO_CONTENT: Final = 204

_LENGTH: Final = b"content-length:"
_RESULT: Final = {"score": -9.1}
_PHASES: Final = {"wait_s": 0.004, "prepare_s": 0.002, "run_s": 300.25}


class LoadAck(msgspec.Struct, gc=False):
    """The verdict on a report, which may come with a later answer."""

    task: int
    lease: str
    verdict: str


class LoadTask(msgspec.Struct, gc=False):
    """What a report needs to know of a task, and the number of the attempt."""

    campaign: int
    task: int
    attempt: int
    lease: str


class LoadAnswer(msgspec.Struct, gc=False):
    """What an agent looks at in the answer to an exchange."""

    acks: list[LoadAck] = []
    tasks: list[LoadTask] = []


answer: Final = msgspec.json.Decoder(LoadAnswer).decode
welcome: Final = msgspec.json.Decoder(Credentials).decode


class Response(NamedTuple):
    """A response of HTTP: the status, the head in lower case, and the body."""

    status: int
    head: bytes
    body: bytes

    @property
    def retry_after_s(self) -> float:
        """When to try again at the earliest, as the gateway says; else 1 s."""
        _, found, rest = self.head.partition(b"\r\nretry-after:")
        return float(rest.partition(b"\r\n")[0]) if found else 1.0

    @property
    def closing(self) -> bool:
        """Whether the gateway closes the connection after it."""
        return b"\r\nconnection: close" in self.head


def cut(received: bytes) -> Response | None:
    """Return the response if all of it has come; raise `ValueError` if it has no length."""
    end = received.find(BLANK)
    if end < 0:
        return None
    head = received[:end].lower()
    status = int(head[9:12])
    at = head.find(_LENGTH)
    if at < 0:
        if status != NO_CONTENT:
            raise ValueError(f"a response without a length: {head!r:.200}")
        return Response(status, head, b"")
    length = int(head[at + len(_LENGTH) :].partition(b"\r\n")[0])
    start = end + len(BLANK)
    if len(received) < start + length:
        return None
    return Response(status, head, received[start : start + length])


def enrolment(work: LoadWork, host: str, number: int) -> bytes:
    """Return the request that opens the session of an agent."""
    hello = Hello(
        str(uuid.uuid4()), work.campaign, f"agent-{number}", "bench", number, "bench", 1, ""
    )
    return post("sessions", host, work.enrol, hello)


def post(path: str, host: str, token: str, message: object) -> bytes:
    """Return the request that says something at a path."""
    body = dumps(message).encode()
    return _head(path, host, token) + b"%d\r\n\r\n%b" % (len(body), body)


def leave(credentials: Credentials, host: str) -> bytes:
    """Return the request that ends a session."""
    body = dumps(SessionEnd("the job ends", 0)).encode()
    head = _head("session", host, credentials.token).replace(b"POST", b"DELETE", 1)
    return head + b"%d\r\n\r\n%b" % (len(body), body)


class Phrases:
    """The requests of one agent, by its session and what it wants."""

    __slots__ = ("_claim", "_delivery", "_head")

    def __init__(self, credentials: Credentials, host: str, want: int, wait_s: float) -> None:
        self._head = _head("exchange", host, credentials.token) + b"%d\r\n\r\n%b"
        claim = Request(credentials.session, want=want, lease="?", wait_s=wait_s, ahead=True)
        self._claim = _exchange(claim)
        self._delivery = _exchange(Request(credentials.session, ahead=True))

    def exchange(self, tasks: Sequence[LoadTask], lease: str) -> bytes:
        """Return the request that reports tasks as done and claims more under a lease id."""
        body = self._claim % (_reports(tasks), lease.encode())
        return self._head % (len(body), body)

    def delivery(self, tasks: Sequence[LoadTask]) -> bytes:
        """Return the request that reports tasks as done, and no more."""
        body = self._delivery % _reports(tasks)
        return self._head % (len(body), body)


def beat(credentials: Credentials, host: str, tasks: Sequence[LoadTask], drawn: str) -> bytes:
    """Return the request of a heartbeat that names tasks in hand."""
    held = tuple(Held(task.campaign, task.task, task.lease) for task in tasks)
    said = Heartbeat(credentials.session, held, (drawn,), drawn)
    return post("beat", host, credentials.token, said)


def _head(path: str, host: str, token: str) -> bytes:
    """Return the beginning of a request, up to the number that its length is."""
    return (
        f"POST /v1/{path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n"
        "accept-encoding: identity\r\ncontent-type: application/json\r\ncontent-length: "
    ).encode()


def _exchange(request: Request) -> bytes:
    """Return an exchange with a place for reports."""
    return _places('{"reports":[?],' + dumps(request)[1:])


def _reports(tasks: Sequence[LoadTask]) -> bytes:
    return b",".join([_REPORT % (task.campaign, task.task, task.lease.encode()) for task in tasks])


def _places(text: str) -> bytes:
    """Return a message with places to fill in: `?` for text, -1 for numbers."""
    text = text.replace("%", "%%").replace("?", "%b")
    return text.replace(":-1,", ":%d,").encode()


_REPORT: Final = _places(dumps(Report(-1, -1, "?", DONE, result=_RESULT, phases=_PHASES)))
