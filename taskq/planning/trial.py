"""A short measurement of a server on this machine: its CPU time, log and disk.

In a scratch database one connection does exchanges of known sizes, one after the other. Some of
them fit the model of `Costs`, others check it.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from taskq.api.client import Client
from taskq.db import migrations
from taskq.db.connections import Database
from taskq.dispatch.batching import Batcher
from taskq.dispatch.direct import DirectTransport
from taskq.dispatch.fair_share import Scope
from taskq.dispatch.heartbeats import encoded
from taskq.model.campaign_spec import CampaignSpec
from taskq.model.errors import UsageError
from taskq.model.handler import Handler
from taskq.model.seed import Seed
from taskq.planning.capacity import Costs
from taskq_agent.lease_ids import LeaseIds
from taskq_agent.paths import exists
from taskq_agent.protocol import DONE, Heartbeat, Held, Hello, Report, Request, Task

CAMPAIGN: Final = "/bench"
MEASURED_S: Final = 2.0
#: Most tasks of a measurement; and of all.
MOST_TASKS: Final = 50_000
TASKS: Final = 320_000
#: Statements before a measurement begins, so that plans are cached.
WARM: Final = 20
HEARTBEATS: Final = 1_000
LEASE_S: Final = 86_400.0
#: Exchanges in a statement, and tasks of each: three sizes fit the model, the others check it.
ALONE: Final = (1, 1)
CROWD: Final = (64, 1)
BATCH: Final = (1, 100)
CHECKED: Final = ((16, 1), (1, 10), (8, 10))


@dataclass(frozen=True, slots=True)
class StatementCost:
    """The cost of a statement: microseconds of the server's CPU and of waiting, bytes kept."""

    cpu_us: float
    waits_us: float
    log: float
    disk: float


@dataclass(frozen=True, slots=True)
class Check:
    """The CPU time of a statement by the model (`model_us`), and as measured (`seen_us`)."""

    together: int
    batch: int
    model_us: float
    seen_us: float

    @property
    def error(self) -> float:
        """The excess of the model, as a share of the measured time."""
        return self.model_us / self.seen_us - 1


def measured_costs(server: Database) -> tuple[Costs, list[Check]]:
    """Return the costs of a server, and checks of their model. The server should be idle otherwise.

    Works in a scratch database, which it drops afterwards: the login must be allowed to create one.
    Takes half a minute. Raise `UsageError` if the server is not on this machine.
    """
    with server.scratch() as database:
        migrations.migrate(database)
        handler = Handler("command", argv=("true",))  # nothing is ever executed
        campaign = Client(database).create_campaign(CampaignSpec(CAMPAIGN, handler=handler))
        _check_here(database)
        before = _written(database)
        campaign.seed(sample_seeds(TASKS))
        after = _written(database)
        seeded = [(after[n] - before[n]) / TASKS for n in range(2)]
        database.execute("vacuum")  # so that autovacuum does not start during a measurement
        seen = {size: _run(database, size) for size in (ALONE, CROWD, BATCH, *CHECKED)}
        heartbeats = _heartbeats(database)
        began = time.perf_counter()
        database.execute("vacuum")
        vacuum_mb_s = _written(database)[1] / (time.perf_counter() - began) / 1e6
    costs = _fitted(seen, heartbeats, seeded, vacuum_mb_s)
    return costs, [Check(*size, costs.exchanges_us(*size), seen[size].cpu_us) for size in CHECKED]


def sample_seeds(count: int) -> Iterator[Seed]:
    """Yield seeds with a payload of about 100 bytes, each with a new key."""
    start = time.time_ns()
    for number in range(start, start + count):
        yield Seed(
            {
                "ligand": f"ZINC{number}",
                "receptor": "1sme",
                "seed": 7,
                "library": "lead-like, in stock",
            },
            key=f"ZINC{number}",
        )


def _fitted(
    seen: dict[tuple[int, int], StatementCost],
    heartbeats: StatementCost,
    seeded: list[float],
    vacuum_mb_s: float,
) -> Costs:
    alone, crowd, batch = seen[ALONE], seen[CROWD], seen[BATCH]
    task_us = (batch.cpu_us - alone.cpu_us) / (BATCH[1] - 1)
    further_us = (crowd.cpu_us - alone.cpu_us) / (CROWD[0] - 1)
    # Bytes for a task that was claimed alone, and for one of those claimed together.
    log = [alone.log, batch.log / BATCH[1]]
    disk = [alone.disk, batch.disk / BATCH[1]]
    log_claim, disk_claim = (
        max(0.0, (costs[0] - costs[1]) / (1 - 1 / BATCH[1])) for costs in (log, disk)
    )
    return Costs(
        statement_us=alone.cpu_us - further_us,
        exchange_us=max(0.0, further_us - task_us),
        task_us=task_us,
        heartbeat_us=heartbeats.cpu_us / HEARTBEATS,
        sync_us=alone.waits_us,
        log_task=seeded[0] + log[0] - log_claim,
        log_claim=log_claim,
        log_heartbeat=heartbeats.log / HEARTBEATS,
        disk_task=seeded[1] + disk[0] - disk_claim,
        disk_claim=disk_claim,
        vacuum_mb_s=vacuum_mb_s,
    )


def _run(database: Database, size: tuple[int, int]) -> StatementCost:
    """Do statements of so many exchanges with so many tasks each, one after the other."""
    return asyncio.run(_rounds(database, *size))


async def _rounds(database: Database, together: int, batch: int) -> StatementCost:
    sessions = open_sessions(database, together)
    held: list[tuple[Task, ...]] = [()] * together
    lease_ids, scope, rounds = LeaseIds(), Scope(CAMPAIGN), 0
    async with Batcher(database, connections=1) as batcher:

        async def turn() -> None:
            held[:] = [
                answer.tasks
                for answer in await asyncio.gather(
                    *(
                        batcher.exchange(_request(session, tasks, batch, lease_ids()), scope)
                        for session, tasks in zip(sessions, held, strict=True)
                    )
                )
            ]

        for _ in range(WARM):
            await turn()
        meter = _Meter(database)
        # At least one: a busy machine may take all the time before it.
        while not rounds or (
            time.monotonic() < meter.ends_at and rounds * together * batch < MOST_TASKS
        ):
            await turn()
            rounds += 1
        return meter.spent(rounds)


async def _claimed(database: Database, sessions: list[int]) -> list[tuple[Task, ...]]:
    lease_ids, scope = LeaseIds(), Scope(CAMPAIGN)
    async with Batcher(database, connections=1) as batcher:
        claims = (
            batcher.exchange(_request(session, (), 1, lease_ids()), scope) for session in sessions
        )
        return [answer.tasks for answer in await asyncio.gather(*claims)]


def _request(session: int, tasks: tuple[Task, ...], want: int, lease: str) -> Request:
    reports = tuple(
        Report(task.campaign, task.task, task.lease, DONE, result={"score": -9.1}) for task in tasks
    )
    return Request(session, reports=reports, want=want, lease=lease)


def _heartbeats(database: Database) -> StatementCost:
    """Send heartbeats for a thousand agents at a time, each with a task."""
    sessions = open_sessions(database, HEARTBEATS)
    held = asyncio.run(_claimed(database, sessions))
    beats = [
        Heartbeat(session, tuple(Held(task.campaign, task.task, task.lease) for task in tasks))
        for session, tasks in zip(sessions, held, strict=True)
    ]
    rounds, text = 0, f"[{','.join(map(encoded, beats))}]"
    for _ in range(WARM):
        database.rows("beat", beats=text)
    meter = _Meter(database)
    while not rounds or time.monotonic() < meter.ends_at:
        database.rows("beat", beats=text)
        rounds += 1
    return meter.spent(rounds)


class _Meter:
    """Measures from its creation on."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._log, self._disk = _written(database)
        self._cpu_ns = _cpu_ns(database)
        self._own_ns, self._began = time.process_time_ns(), time.monotonic()
        self.ends_at = self._began + MEASURED_S

    def spent(self, statements: int) -> StatementCost:
        """Return the cost of each of so many statements."""
        took_us = (time.monotonic() - self._began) * 1e6
        own_us = (time.process_time_ns() - self._own_ns) / 1e3
        cpu_us = (_cpu_ns(self._database) - self._cpu_ns) / 1e3
        log, disk = _written(self._database)
        waits_us = max(0.0, took_us - own_us - cpu_us)
        kept = (log - self._log, max(0.0, disk - self._disk))
        return StatementCost(*(cost / statements for cost in (cpu_us, waits_us, *kept)))


def _written(database: Database) -> tuple[float, float]:
    row = database.rows("spent")[0]
    return row["log"], row["disk"]


def _check_here(database: Database) -> None:
    """Raise `UsageError` if the server is not on this machine."""
    with database.connection() as statements:
        backend = statements.rows("backend")[0]
        if not backend["here"] or not exists(Path(f"/proc/{backend['pid']}/schedstat")):
            raise UsageError("--measure is for a server on this machine, reached by its socket")


def _cpu_ns(database: Database) -> int:
    """Return the CPU time of the processes that serve a database's clients, in nanoseconds.

    It leaves out processes that write and vacuum for all databases: they work at other times.
    """
    mark = f" {database.rows('server')[0]['database']} [local]".encode()
    total = 0
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):
                if mark in (process / "cmdline").read_bytes():
                    total += int((process / "schedstat").read_text().split()[0])
    return total


def open_sessions(database: Database, count: int) -> list[int]:
    """Open sessions of agents, which stay open; return their ids."""
    transport = DirectTransport(database, lease_s=LEASE_S)
    try:
        return [transport.open(_hello()).session for _ in range(count)]
    finally:
        transport.close(0)  # the connections; the sessions stay open


def _hello() -> Hello:
    return Hello(str(uuid.uuid4()), CAMPAIGN, "bench", "bench", 0, "", 1, "")
