"""Hostile clients of a gateway that have tokens, and send requests that are expensive for it.

An attack is a script for some connections with a session each: a generator that yields a request
for each of them, to be sent at the same time, and takes the responses.
"""

from __future__ import annotations

import random
import socket
import threading
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import msgspec
from typing_extensions import Self

from benchmarks.load import messages
from benchmarks.load.agent import BUSY
from benchmarks.load.messages import Response, post
from benchmarks.load.work import Credentials, LoadTarget
from taskq_agent.lease_ids import LeaseIds
from taskq_agent.protocol import DONE, RELEASED, Heartbeat, Held, Report, Request

MANY: Final = 1_000
#: Attempts that a heartbeat names, of which there is none.
HELD: Final = 9_000
TIMEOUT_S: Final = 30.0
_MADE_UP: Final = 10**12

Script: TypeAlias = Generator[list[bytes], list[Response], None]


@dataclass(frozen=True, slots=True)
class Attack:
    """What hostile clients do.

    sessions: of one script, each with a connection; times: how many scripts run at a time. pause_s:
    between two turns of a script. takes: whether answers are read; else the connections are left as
    they are for the pause, and closed. bodiless: whether they have heads only.
    """

    script: Callable[[str, Sequence[Credentials]], Script]
    sessions: int = 1
    times: int = 1
    pause_s: float = 0.0
    takes: bool = True
    bodiless: bool = False


def _exchange(host: str, agent: Credentials, request: Request) -> bytes:
    return post("exchange", host, agent.token, replace(request, session=agent.session))


def _lease_shared(host: str, sessions: Sequence[Credentials]) -> Script:
    """Claim under one lease id from all sessions at the same time, again and again."""
    draw = LeaseIds()
    tasks: list[list[messages.LoadTask]] = [[] for _ in sessions]
    while True:
        lease = draw()
        responses = yield [
            _exchange(host, agent, Request(0, _reports(own, DONE), 1, lease))
            for agent, own in zip(sessions, tasks, strict=True)
        ]
        tasks = [_tasks(response) for response in responses]


def _lease_spent(host: str, sessions: Sequence[Credentials]) -> Script:
    """Claim what had the lease before, which nobody may."""
    (agent,) = sessions
    claim = Request(0, (), 1, str(uuid.uuid4()))
    while True:
        (response,) = yield [_exchange(host, agent, claim)]
        if tasks := _tasks(response):
            yield [_exchange(host, agent, Request(0, _reports(tasks, RELEASED)))]


def _campaigns_made_up(host: str, sessions: Sequence[Credentials]) -> Script:
    """Report on many campaigns that are none, in each exchange."""
    reports = [Report(_MADE_UP + n, n, str(uuid.uuid4()), DONE) for n in range(MANY)]
    requests = [_exchange(host, agent, Request(0, tuple(reports))) for agent in sessions]
    while True:
        yield requests


def _tasks_made_up(host: str, sessions: Sequence[Credentials]) -> Script:
    """Report on many tasks of the others' campaign under leases that are none."""
    responses = yield [_claim(host, agent) for agent in sessions]
    (campaign,) = {task.campaign for response in responses for task in _tasks(response)} or {1}
    reports = [Report(campaign, n, str(uuid.uuid4()), DONE) for n in range(MANY)]
    requests = [_exchange(host, agent, Request(0, tuple(reports))) for agent in sessions]
    while True:
        yield requests


def _tasks_hoarded(host: str, sessions: Sequence[Credentials]) -> Script:
    """Claim many tasks, and hand them back."""
    draw = LeaseIds()
    while True:
        responses = yield [
            _exchange(host, agent, Request(0, (), MANY, draw())) for agent in sessions
        ]
        yield [
            _exchange(
                host,
                agent,
                Request(0, tuple(replace(r, started=False) for r in _reports(own, RELEASED))),
            )
            for agent, own in zip(sessions, map(_tasks, responses), strict=True)
        ]


def _lifetimes(host: str, sessions: Sequence[Credentials]) -> Script:
    """Claim nearly nothing, with another time left each time."""
    draw = LeaseIds()
    tasks: list[list[messages.LoadTask]] = [[] for _ in sessions]
    while True:
        responses = yield [
            _exchange(
                host,
                agent,
                Request(0, _reports(own, DONE), 1, draw(), 2.0 ** random.uniform(-100, 29)),  # noqa: S311
            )
            for agent, own in zip(sessions, tasks, strict=True)
        ]
        tasks = [_tasks(response) for response in responses]


def _crowd_of_one(host: str, sessions: Sequence[Credentials]) -> Script:
    """Send many requests of one session at a time, on as many connections."""
    report = Report(_MADE_UP, 1, str(uuid.uuid4()), DONE)
    request = _exchange(host, sessions[0], Request(0, (report,)))
    while True:
        yield [request] * len(sessions)


def _held_made_up(host: str, sessions: Sequence[Credentials]) -> Script:
    """Name many attempts in heartbeats, of which there is none."""
    held = tuple(Held(_MADE_UP + n, n, str(uuid.uuid4())) for n in range(HELD))
    while True:
        yield [
            post("beat", host, agent.token, Heartbeat(agent.session, held)) for agent in sessions
        ]


ATTACKS: Final[Mapping[str, Attack]] = {
    "two sessions under one lease id": Attack(_lease_shared, 2),
    "a lease id that its task has had": Attack(_lease_spent),
    "1,000 made-up campaigns, four times a second": Attack(_campaigns_made_up, pause_s=0.25),
    "1,000 made-up campaigns, on 8 connections": Attack(_campaigns_made_up, times=8),
    "1,000 made-up tasks, on 8 connections": Attack(_tasks_made_up, times=8),
    "1,000 tasks claimed and handed back, on 2": Attack(_tasks_hoarded, times=2, pause_s=0.05),
    "another lifetime each time, on 32": Attack(_lifetimes, 32, pause_s=0.01),
    "one session on 64 connections": Attack(_crowd_of_one, 64, pause_s=0.01),
    "9,000 made-up leases in a heartbeat": Attack(_held_made_up, times=4),
}


class Hostile:
    """An attack on a gateway for the length of a `with` block, from threads of this process.

    turns: how often a script has been answered.
    """

    def __init__(
        self, gateway: LoadTarget, attack: Attack, sessions: Sequence[Credentials]
    ) -> None:
        """sessions: one for each connection of each script."""
        self.turns = 0
        self._stop = threading.Event()
        each = attack.sessions
        self._threads = [
            threading.Thread(
                target=self._run, args=(gateway, attack, sessions[n * each : (n + 1) * each])
            )
            for n in range(attack.times)
        ]

    def __enter__(self) -> Self:
        """Begin."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End, when what was asked is answered."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, gateway: LoadTarget, attack: Attack, sessions: Sequence[Credentials]) -> None:
        host = f"{gateway.host}:{gateway.port}"
        sockets = [_Socket(gateway, bodiless=attack.bodiless) for _ in sessions]
        script = attack.script(host, sessions)
        requests = next(script)
        while not self._stop.is_set():
            for connection, request in zip(sockets, requests, strict=True):
                connection.send(request)
            if not attack.takes:
                self._stop.wait(attack.pause_s)
                for connection in sockets:
                    connection.hang_up()
                continue
            responses = [connection.receive() for connection in sockets]
            self.turns += 1
            if any(response.status in BUSY for response in responses):
                self._stop.wait(max(response.retry_after_s for response in responses))
            requests = script.send(responses)
            self._stop.wait(attack.pause_s)
        for connection in sockets:
            connection.close()


class _Socket:
    """A connection, made anew when it is lost."""

    def __init__(self, gateway: LoadTarget, *, bodiless: bool = False) -> None:
        self._gateway = gateway
        self._bodiless = bodiless
        self._socket = socket.create_connection(gateway, TIMEOUT_S)
        self._has_ended = False

    def hang_up(self) -> None:
        """Connect anew."""
        self.close()
        self._socket = socket.create_connection(self._gateway, TIMEOUT_S)
        self._has_ended = False

    def send(self, request: bytes) -> None:
        """Send a request, or as much of it as is taken: one that is refused is not read."""
        if self._has_ended:
            self.hang_up()
        with suppress(OSError):
            self._socket.sendall(request)

    def receive(self) -> Response:
        """Return the response; one of status 0 if there is none."""
        response = self._received()
        self._has_ended = not response.status or response.closing
        return response

    def _received(self) -> Response:
        received = b""
        with suppress(OSError):
            while data := self._socket.recv(1 << 18):
                received += data
                if self._bodiless and (end := received.find(messages.BLANK)) >= 0:
                    return Response(int(received[9:12]), received[:end].lower(), b"")
                if (response := messages.cut(received)) is not None:
                    return response
        return Response(0, b"", b"")

    def close(self) -> None:
        self._socket.close()


def _claim(host: str, agent: Credentials) -> bytes:
    return _exchange(host, agent, Request(0, (), 1, str(uuid.uuid4())))


def _tasks(response: Response) -> list[messages.LoadTask]:
    try:
        return messages.answer(response.body).tasks
    except msgspec.DecodeError:
        return []


def _reports(tasks: Sequence[messages.LoadTask], outcome: str) -> tuple[Report, ...]:
    return tuple(Report(task.campaign, task.task, task.lease, outcome) for task in tasks)
