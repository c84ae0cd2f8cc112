"""A queue in memory with the protocol of the agents, for tests without a database."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from taskq_agent.errors import SessionLost, TransportFailed
from taskq_agent.held_claims import LeftOfClaim
from taskq_agent.protocol import (
    ACCEPTED,
    DUPLICATE,
    RELEASED,
    SILENT_END,
    SUPERSEDED,
    UNKNOWN,
    Ack,
    Answer,
    CampaignTerms,
    Heartbeat,
    HeartbeatAnswer,
    Held,
    Hello,
    Report,
    Request,
    SessionEnd,
    Task,
    Unservable,
    Welcome,
)

T = TypeVar("T")

REQUEST_LOST = "request lost"
ANSWER_LOST = "answer lost"
TWICE = "arrives twice"


@dataclass
class Entry:
    """A task of the queue; accepted: the reports that were accepted, releases included."""

    task: int
    payload: Mapping[str, Any]
    attempt: int = 0
    lease: str | None = None
    session: int | None = None
    accepted: list[Report] = field(default_factory=list)
    final: bool = False


class MemoryQueue:
    """A queue with one campaign. `trouble` gets the name of each call, and may return a fault.

    given_away: fences of attempts that a heartbeat has given to another agent. timeline: of the
    server that it stands for; see `fail_over`.
    """

    def __init__(
        self,
        payloads: Iterable[Mapping[str, Any]],
        *,
        trouble: Callable[[str], str | None] = lambda _: None,
        heartbeat_s: float = 30.0,
        time_limit_s: float | None = None,
    ) -> None:
        self.tasks = {number: Entry(number, payload) for number, payload in enumerate(payloads, 1)}
        self.trouble = trouble
        self.campaign = CampaignTerms(1, 1, "/test", {}, {}, time_limit_s)
        self.sessions: dict[str, int] = {}
        self.opened: set[int] = set()
        self.hellos: list[Hello] = []
        self.requests: list[Request] = []
        self.beats: list[Heartbeat] = []
        self.verdicts: Counter[str] = Counter()
        self.given_away: list[Held] = []
        self.farewells: list[tuple[int, str, int]] = []
        self.unservable: Unservable | None = None
        self.heartbeat_s = heartbeat_s
        self.timeline = 1
        self._waiting = deque(self.tasks)
        self._working: dict[str, list[Entry]] = {}
        self._lock = threading.Lock()

    # The transport

    def open(self, hello: Hello) -> Welcome:
        """Open a session, or find the one that this key has opened."""
        return self._amid_trouble("open", lambda: self._open(hello))

    def exchange(self, request: Request) -> Answer:
        """Report and claim."""
        return self._amid_trouble("exchange", lambda: self._exchange(request))

    def cancel_exchange(self, request: Request) -> None:
        """Do nothing: claims do not wait here."""

    def heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer:
        """Keep the session alive."""
        return self._amid_trouble("beat", lambda: self._beat(beat))

    def close(self, session: int, end: SessionEnd = SILENT_END) -> None:
        """End the session."""
        self.farewells.append((session, end.reason, end.exit_code))
        self._amid_trouble("close", lambda: self._end(session))

    def _amid_trouble(self, call: str, act: Callable[[], T]) -> T:
        trouble = self.trouble(call)
        if trouble == REQUEST_LOST:
            raise TransportFailed(trouble)
        with self._lock:
            answer = act()
            if trouble == TWICE:
                answer = act()
        if trouble == ANSWER_LOST:
            raise TransportFailed(trouble)
        return answer

    # Operations and questions of tests

    def expire(self, session: int) -> None:
        """End a session; its tasks wait for other agents."""
        with self._lock:
            self._end(session)

    def add(self, payload: Mapping[str, Any]) -> int:
        """Add a task; return its number."""
        with self._lock:
            number = len(self.tasks) + 1
            self.tasks[number] = Entry(number, payload)
            self._waiting.append(number)
            return number

    def cancel(self, task: int) -> None:
        """Make a task final, anyone who holds it."""
        with self._lock:
            self.tasks[task].final = True
            self._leave(self.tasks[task])

    def fail_over(self, task: int, session: int = 1) -> None:
        """Become another server, which has not received the last report on a task."""
        with self._lock:
            self.timeline += 1
            entry = self.tasks[task]
            entry.final, entry.session, entry.lease = False, session, entry.accepted.pop().lease
            self._working.setdefault(entry.lease, []).append(entry)

    def counts(self) -> Counter[str]:
        """Return how many tasks ended with each outcome; the rest is `open`."""
        return Counter(
            entry.accepted[-1].outcome if entry.accepted and entry.final else "open"
            for entry in self.tasks.values()
        )

    def outcomes(self, task: int) -> list[str]:
        """Return the outcomes that were accepted for a task, in order."""
        return [report.outcome for report in self.tasks[task].accepted]

    # The operations

    def _open(self, hello: Hello) -> Welcome:
        self.hellos.append(hello)
        if hello.key not in self.sessions:
            session = len(self.sessions) + 1
            self.sessions[hello.key] = session
            self.opened.add(session)
        return Welcome(self.sessions[hello.key], self.heartbeat_s, 4 * self.heartbeat_s)

    def _exchange(self, request: Request) -> Answer:
        self.requests.append(request)
        if request.session not in self.opened:
            raise SessionLost("session ended")
        acks = tuple(self._settle(report) for report in request.reports)
        tasks = self._claim(request) if request.want else ()
        unfinished = None if tasks else sum(not entry.final for entry in self.tasks.values())
        campaigns = (self.campaign,) if tasks else ()
        unservable = None if tasks else self.unservable
        return Answer(
            acks, tasks, campaigns, unfinished, timeline=self.timeline, unservable=unservable
        )

    def _settle(self, report: Report) -> Ack:
        entry = self.tasks.get(report.task)
        if entry is None:
            verdict = UNKNOWN
        elif entry.lease == report.lease:
            verdict = ACCEPTED
            entry.accepted.append(report)
            self._leave(entry)
            if report.outcome == RELEASED:
                self._waiting.append(entry.task)
            else:
                entry.final = True
        elif any(accepted.lease == report.lease for accepted in entry.accepted):
            verdict = DUPLICATE
        else:
            verdict = SUPERSEDED
        self.verdicts[verdict] += 1
        return Ack(report.campaign, report.task, report.lease, verdict)

    def _claim(self, request: Request) -> tuple[Task, ...]:
        limit_s = self.campaign.time_limit_s
        if limit_s is not None and request.lifetime_s is not None and limit_s > request.lifetime_s:
            return ()
        if (self.campaign.campaign, self.campaign.revision) in request.without:
            return ()
        if request.lease not in self._working:
            count = min(request.want, len(self._waiting))
            taken = [self.tasks[self._waiting.popleft()] for _ in range(count)]
            for entry in taken:
                entry.attempt += 1
                entry.lease, entry.session = request.lease, request.session
            if taken:
                self._working[request.lease] = taken
        return tuple(
            Task(
                1,
                self.campaign.revision,
                entry.task,
                f"t{entry.task}",
                entry.attempt,
                request.lease,
                entry.payload,
            )
            for entry in self._working.get(request.lease, ())
        )

    def _beat(self, beat: Heartbeat) -> HeartbeatAnswer:
        self.beats.append(beat)
        if beat.session not in self.opened:
            raise SessionLost("session ended")
        named = set(beat.held)
        for lease, entries in list(self._working.items()):
            for entry in list(entries):
                held = Held(1, entry.task, lease)
                mine = entry.session == beat.session and lease <= beat.drawn
                mine = mine and beat.timeline in (0, self.timeline)
                mine = mine and lease not in (claim.lease for claim in beat.claims)
                if mine and lease not in beat.pending and held not in named:
                    self.given_away.append(held)
                    self._free(entry)
        stop = [
            held
            for held in beat.held
            if (entry := self.tasks[held.task]).lease != held.lease or entry.session != beat.session
        ]
        left = []
        for claim in beat.claims:
            kept = [entry.task for entry in self._working.get(claim.lease, ())]
            if len(kept) < claim.tasks:
                left.append(LeftOfClaim(claim.campaign, claim.lease, tuple(kept)))
        return HeartbeatAnswer(tuple(stop), timeline=self.timeline, left=tuple(left))

    def _end(self, session: int) -> None:
        self.opened.discard(session)
        for entry in self.tasks.values():
            if entry.session == session:
                self._free(entry)

    def _free(self, entry: Entry) -> None:
        self._leave(entry)
        self._waiting.append(entry.task)

    def _leave(self, entry: Entry) -> None:
        assert entry.lease is not None
        entries = self._working[entry.lease]
        entries.remove(entry)
        if not entries:
            del self._working[entry.lease]
        entry.lease = entry.session = None
