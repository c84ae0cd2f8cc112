"""Instructions of the server for exchanges and heartbeats, by callgrind: no load changes them."""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.findings import Finding, Goal, not_measured
from benchmarks.own_server import own_server
from benchmarks.stage import Bench, Stage
from taskq.api.client import Client
from taskq.db.catalogue import array, statement
from taskq.db.connections import Database
from taskq.dispatch.direct import DirectTransport
from taskq.dispatch.heartbeats import encoded
from taskq.embedded import Server
from taskq.embedded.account import server_account
from taskq.model.errors import Unavailable
from taskq.planning.trial import CAMPAIGN, LEASE_S, open_sessions
from taskq_agent.lease_ids import LeaseIds
from taskq_agent.protocol import DONE, Heartbeat, Held, Hello, Request

WARM: Final = 20
#: So that a span has some hundreds of tasks.
TASKS: Final = 30_000
#: The first task's. The ids follow each other within the first chunk of seeds, of 10,000.
FIRST_ID: Final = 2
TIMEOUT_S: Final = 1_800.0
_COUNT: Final = re.compile(r"Collected : (\d+)")
_FAULT: Final = re.compile(r"(?:ERROR|FATAL|PANIC): .*")


@dataclass(frozen=True, slots=True)
class _Shape:
    """Exchanges of a kind. before: the statement that puts the connection's hint into its state."""

    what: str
    agents: int
    tasks: int
    before: str
    goal: Goal | None = None


SHAPES: Final = (
    _Shape("one task, soon after the last", 1, 1, "renewed", Goal(450_000, "most")),
    _Shape("one task, seconds after the last", 1, 1, "expired"),
    _Shape("one task for each of 8 agents", 8, 1, "renewed"),
    _Shape("100 tasks", 1, 100, "renewed"),
)
#: Tasks that a heartbeat names, which the agent has claimed one by one, in a campaign of their own.
HELD: Final = (1, 8, 64)
HELD_IN: Final = "/held"


def counted(bench: Bench) -> Iterator[Finding]:
    """Count the server's instructions for exchanges that report and claim, and for heartbeats."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        yield not_measured("instructions of exchanges and heartbeats", "there is no valgrind")
        return
    with own_server() as server:
        counter = _Counter(server, valgrind, bench.scale.counted)
        for shape in SHAPES[: bench.scale.shapes]:
            each = counter.each(shape)
            yield Finding(f"an exchange: {shape.what}", each, "instructions", goal=shape.goal)
        for held in HELD[: bench.scale.shapes]:
            each = counter.each_heartbeat(held)
            yield Finding(f"a heartbeat: {held} tasks held", each, "instructions")
        counter.check()


class _Counter:
    """A server that is down; its single-user mode does exchanges below valgrind."""

    def __init__(self, server: Server, valgrind: str, exchanges: int) -> None:
        self._server, self._exchanges = server, exchanges
        info = server.up()
        with closing(Database(info.dsn).open()) as database:
            stage = Stage(database, lambda _: None)
            stage.seed(TASKS)
            self._campaign = stage.client.campaign(CAMPAIGN).campaign_id
            self._sessions = open_sessions(database, max(shape.agents for shape in SHAPES))
            stage.add(HELD_IN)
            stage.seed(sum(HELD), HELD_IN)
            self._heartbeats = {held: _heartbeat(database, held) for held in HELD}
        process = Path(f"/proc/{info.pid}")
        args = process.joinpath("cmdline").read_text().strip("\0").split("\0")
        self._command: list[str | Path] = [valgrind, "--tool=callgrind"]
        self._command += ["--callgrind-out-file=/dev/null", process.joinpath("exe").readlink()]
        self._command += ["--single", *args[1:], "taskq"]
        self._held: list[dict[str, object]] = []
        self._claimed = 0
        server.down()
        # Each later run begins with a report, so that two runs do not differ in their first call.
        self._run([self._exchange(SHAPES[0])])

    def each(self, shape: _Shape) -> float:
        """Return the instructions of an exchange, without those of the statement before it."""
        exchanges = max(10, self._exchanges // shape.tasks)
        before = [f"execute {shape.before}"] * exchanges
        without = self._run([*self._warm(shape), *before])
        lines = [*self._warm(shape)]
        for line in before:
            lines += line, self._exchange(shape)
        both = self._run(lines)
        return (both - without) / exchanges

    def each_heartbeat(self, held: int) -> float:
        """Return the instructions of a heartbeat that names so many tasks."""
        line = f"execute beat('[{self._heartbeats[held]}]')"
        warm = self._run([line] * WARM)
        both = self._run([line] * (WARM + self._exchanges))
        return (both - warm) / self._exchanges

    def check(self) -> None:
        """Raise `Unavailable` unless every task is done that a later exchange reported."""
        with closing(Database(self._server.up().dsn).open()) as database:
            done = Client(database).campaign(CAMPAIGN).status().done
        if done != self._claimed - len(self._held):
            raise Unavailable(f"{done} tasks are done, of {self._claimed}: the count means nothing")

    def _warm(self, shape: _Shape) -> Iterator[str]:
        for number in range(WARM):
            if number:  # a new connection has no hint
                yield f"execute {shape.before}"
            yield self._exchange(shape)

    def _exchange(self, shape: _Shape) -> str:
        """Return a statement that reports what is held and claims the next tasks."""
        reports = f"'{json.dumps(self._held)}'" if self._held else "null"
        is_one = shape.agents == shape.tasks == len(self._held) == 1
        sessions = self._sessions[: shape.agents]
        leases = [str(uuid.uuid4()) for _ in sessions]
        self._held = []
        for session, lease in zip(sessions, leases, strict=True):
            for _ in range(shape.tasks):
                # Tasks are claimed in the order of their ids.
                task = FIRST_ID + self._claimed
                self._claimed += 1
                report = {"task": task, "lease": lease, "session": session}
                self._held.append(report | {"outcome": DONE, "result": {"score": -9.1}})
        if is_one:
            return f"execute exchange_one({reports}, {sessions[0]}, '{leases[0]}')"
        claims = (array(values) for values in (sessions, leases, [shape.tasks] * shape.agents))
        return f"execute exchange({reports}, {', '.join(map(repr, claims))})"

    def _run(self, lines: list[str]) -> int:
        prepared = statement("benchmarks.sql/single_user").format(campaign=self._campaign)
        stdin = "".join(f"{line}\n" for line in [*prepared.splitlines()[2:], *lines])
        account = server_account(self._server.home.data)
        ended = account.run(self._command, stdin=stdin, timeout_s=TIMEOUT_S)
        fault, count = _FAULT.search(ended.stdout), _COUNT.search(ended.stdout)
        if ended.returncode or fault or count is None:
            raise Unavailable(f"single-user mode failed: {fault[0] if fault else ended.stdout}")
        return int(count[1])


def _heartbeat(database: Database, held: int) -> str:
    """Open a session, which claims so many tasks; return its heartbeat."""
    transport, lease_ids = DirectTransport(database, lease_s=LEASE_S), LeaseIds()
    try:
        session = transport.open(Hello(lease_ids(), HELD_IN, slots=held)).session
        requests = [Request(session, want=1, lease=lease_ids()) for _ in range(held)]
        tasks = [task for request in requests for task in transport.exchange(request).tasks]
        named = tuple(Held(task.campaign, task.task, task.lease) for task in tasks)
        return encoded(Heartbeat(session, named, drawn=lease_ids()))
    finally:
        transport.close(0)  # the connections; the session stays open
