"""One agent of the load: its next request, and the time of it."""

from __future__ import annotations

import random
from collections.abc import Callable, MutableSequence, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, TypeAlias

import msgspec

from benchmarks.latencies import bucket
from benchmarks.load import messages
from benchmarks.load.connection import LoadConnection, Route
from benchmarks.load.messages import LoadAck, LoadTask, Phrases, Response
from benchmarks.load.work import Credentials, LoadTotals, LoadWork
from benchmarks.loop import Loop
from taskq_agent.lease_ids import LeaseIds
from taskq_agent.protocol import ACCEPTED, DUPLICATE, MAX_CLAIM

OK: Final = int(HTTPStatus.OK)
BUSY: Final = (int(HTTPStatus.TOO_MANY_REQUESTS), int(HTTPStatus.SERVICE_UNAVAILABLE))
SERVER_ERRORS: Final = int(HTTPStatus.INTERNAL_SERVER_ERROR)
RETRY_S: Final = 0.5
"""After a connection was lost and after an error of the gateway."""

Answered: TypeAlias = "Callable[[LoadAgent, bool], None]"


def _rest(agent: LoadAgent, served: bool) -> None:
    """Do nothing until another call."""


@dataclass(slots=True)
class Shared:
    """State that the agents of a process share.

    latencies: counts by bucket. answered: takes an agent that has been answered, and whether it
    got a task: decides what it does next. claiming: until all is only to be delivered. attempts:
    all that were ever claimed.
    """

    loop: Loop
    work: LoadWork
    totals: LoadTotals
    latencies: MutableSequence[int]
    answered: Answered = _rest
    claiming: bool = True
    attempts: set[int] = field(default_factory=set)
    lease_ids: LeaseIds = field(default_factory=LeaseIds)


class LoadAgent:
    """Never holds more than it wants; reports with each claim what it has claimed before.

    Unless its work is to be `spooled`: then it takes a task to be done at once, and keeps the
    report.

    credentials: None while it has not enrolled. tasks: in hand. drawn: the newest lease id.
    """

    __slots__ = (
        "_asked_at",
        "_connected",
        "_connection",
        "_enrolment",
        "_host",
        "_phrases",
        "_request",
        "_served",
        "_shared",
        "_spool",
        "_unsettled",
        "credentials",
        "drawn",
        "route",
        "tasks",
    )

    def __init__(
        self, shared: Shared, route: Route, number: int, credentials: Credentials | None
    ) -> None:
        self._shared = shared
        self._host = f"{route.gateway.host}:{route.gateway.port}"
        self._enrolment = b""
        self._phrases: Phrases | None = None
        self._request = b""
        self._asked_at = 0.0
        self._connected = self._served = False
        self._connection = LoadConnection(
            shared.loop,
            route,
            shared.totals,
            opened=self._opened,
            answered=self._answered,
            lost=self._lost,
        )
        self.route = route
        self.credentials = credentials
        self.tasks: list[LoadTask] = []
        self.drawn = ""
        self._spool: list[LoadTask] = []
        # Reported, and not known with which verdict. A gateway may answer a claim before.
        self._unsettled: dict[tuple[int, str], LoadTask] = {}
        if credentials is None:
            self._enrolment = messages.enrolment(shared.work, self._host, number)
        else:
            self._know(credentials)

    @property
    def waiting(self) -> bool:
        """Whether it has asked and not been answered."""
        return bool(self._request)

    @property
    def has_delivered(self) -> bool:
        """Whether the verdicts on all reports are known, and nothing is left to report."""
        return not (self._request or self.tasks or self._spool or self._unsettled)

    def connect(self) -> None:
        """Open the connection, before there is anything to say."""
        self._connection.open()

    def turn(self, due: float) -> None:
        """Report what is in hand and claim more, or enroll. due: since when it would have."""
        self._asked_at = due
        if self._phrases is None:
            self._request = self._enrolment
        else:
            self.drawn = self._shared.lease_ids()
            self._request = self._phrases.exchange(self.tasks, self.drawn)
            self._report(self.tasks)
            self._shared.totals.asked += 1
        self._connection.send(self._request)

    def deliver(self) -> None:
        """Report what is left to report, or a part of it, and claim nothing."""
        left = [*self._unsettled.values(), *self.tasks, *self._spool]
        if self._phrases is None or not left:
            if self.credentials is not None and self._shared.work.leaving:
                self._request = messages.leave(self.credentials, self._host)
                self._connection.send(self._request)
            return
        self._asked_at = self._shared.loop.now
        self.tasks, self._spool = [], left[MAX_CLAIM:]
        self._request = self._phrases.delivery(left[:MAX_CLAIM])
        self._report(left[:MAX_CLAIM])
        self._connection.send(self._request)

    def _know(self, credentials: Credentials) -> None:
        work = self._shared.work
        self.credentials = credentials
        self._phrases = Phrases(credentials, self._host, work.want, work.wait_s)

    def _opened(self) -> None:
        self._shared.totals.connected += not self._connected
        self._connected = True

    def _answered(self, response: Response) -> None:
        totals = self._shared.totals
        if response.status == OK:
            try:
                self._heard(response.body)
            except msgspec.DecodeError:
                totals.failed += 1
                self._again(RETRY_S)
        elif response.status == messages.NO_CONTENT:
            totals.left += 1
            self._request = b""
        elif response.status in BUSY:
            totals.busy += 1
            self._again(response.retry_after_s)
        elif response.status >= SERVER_ERRORS:
            totals.failed += 1
            self._again(RETRY_S)
        else:
            totals.refused += 1
            self._request = b""

    def _lost(self) -> None:
        self._shared.totals.broken += 1
        self._again(RETRY_S)

    def _again(self, after_s: float) -> None:
        """Repeat the request after `after_s` and a random delay, as agents do."""
        wait_s = after_s + random.uniform(0.0, RETRY_S)  # noqa: S311  # spreads the askers
        self._shared.loop.at(self._shared.loop.now + wait_s, self._repeat)

    def _repeat(self) -> None:
        if self._request:
            self._connection.send(self._request)
        else:
            self._connection.open()

    def _heard(self, body: bytes) -> None:
        if self._phrases is None:
            self._know(messages.welcome(body))
            self.turn(self._asked_at)
            return
        shared, answer = self._shared, messages.answer(body)
        self._request = b""
        self._settle(answer.acks)
        if shared.claiming:
            shared.latencies[bucket(shared.loop.now - self._asked_at)] += 1
        self._count(answer)
        if shared.work.spooled:
            self._spool += answer.tasks
        else:
            self.tasks = answer.tasks
        shared.answered(self, bool(answer.tasks))

    def _report(self, tasks: Sequence[LoadTask]) -> None:
        for task in tasks:
            self._unsettled[task.task, task.lease] = task

    def _settle(self, acks: Sequence[LoadAck]) -> None:
        totals = self._shared.totals
        for ack in acks:
            if self._unsettled.pop((ack.task, ack.lease), None) is None:
                continue
            if ack.verdict == ACCEPTED:
                totals.reported += 1
            elif ack.verdict == DUPLICATE:
                totals.known += 1
            else:
                totals.rejected += 1

    def _count(self, answer: messages.LoadAnswer) -> None:
        totals, attempts = self._shared.totals, self._shared.attempts
        totals.claimed += len(answer.tasks)
        if not answer.tasks:
            totals.empty += self._shared.claiming
        elif not self._served:
            totals.served += 1
            self._served = True
        if not self._shared.work.remembered:
            return
        for task in answer.tasks:
            # Of two agents of different processes the fence tells: one report is rejected.
            attempt = (task.campaign << 64 | task.task) << 16 | task.attempt
            totals.twice += attempt in attempts
            attempts.add(attempt)
