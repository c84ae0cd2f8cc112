"""Arithmetic of capacity planning: what a number of agents asks of one server, from its costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from taskq.dispatch.direct import LEASE_S
from taskq.dispatch.fair_share import MOST_IN_BATCH
from taskq.model.errors import UsageError

DAY_S: Final = 86_400
HEARTBEAT_S: Final = LEASE_S / 4
AMGA_ACCESSES: Final = 10
"""Catalogue accesses for a docking in the study with AMGA, each a separate request."""
AGENTS_OF_GATEWAY: Final = 10_000
"""Agents that one gateway serves with ease; two have served 20,000."""
COMFORTABLE: Final = 0.5
"""Share of the cores above which waits grow and no room is left for seeding and reading."""
BACKUP_MB_S: Final = 200.0
"""Assumed speed of a base backup, in MB a second."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Microseconds of the server's CPU, bytes of log and disk.

    A statement of n exchanges with b tasks each takes
    `statement_us + n * exchange_us + n * b * task_us`, a heartbeat among 1,000 `heartbeat_us`.
    A task's whole life in claims of b takes `log_task + log_claim / b` bytes of log, and of disk
    accordingly. sync_us: how long a commit waits for the disk. vacuum_mb_s: speed of a vacuum over
    the rows that a campaign leaves.
    """

    statement_us: float
    exchange_us: float
    task_us: float
    heartbeat_us: float
    sync_us: float
    log_task: float
    log_claim: float
    log_heartbeat: float
    disk_task: float
    disk_claim: float
    vacuum_mb_s: float

    def exchanges_us(self, together: float, batch: int) -> float:
        """Return the CPU time of a statement of so many exchanges of `batch` tasks each."""
        return self.statement_us + together * (self.exchange_us + batch * self.task_us)

    def together(self, per_s: float, batch: int) -> float:
        """Return how many exchanges share a statement of a gateway that gets `per_s` a second.

        Exchanges that arrive while a statement is under way go with the next: n = rate * time of n.
        """
        per_us = per_s / 1e6
        rest = 1 - per_us * (self.exchange_us + batch * self.task_us)
        if rest <= 0:
            return MOST_IN_BATCH
        return min(max(1.0, per_us * (self.statement_us + self.sync_us) / rest), MOST_IN_BATCH)


#: Measured on an otherwise idle virtual machine of two cores (docs/planning.md).
SEEN: Final = Costs(
    statement_us=85.0,
    exchange_us=7.0,
    task_us=16.0,
    heartbeat_us=11.0,
    sync_us=120.0,
    log_task=623.0,
    log_claim=802.0,
    log_heartbeat=90.0,
    disk_task=497.0,
    disk_claim=244.0,
    vacuum_mb_s=100.0,
)


@dataclass(frozen=True, slots=True)
class Need:
    """Load to plan for: agents that run one task at a time, of `task_s` seconds each.

    batch: tasks that an agent claims and reports at once. tasks: size of the campaign; by default
    the number that these agents do in a day. cores: of the server.
    """

    agents: int
    task_s: float
    batch: int = 1
    tasks: int | None = None
    cores: int = 1

    def __post_init__(self) -> None:
        if self.agents < 1 or self.batch < 1 or self.cores < 1 or self.task_s <= 0:
            raise UsageError("agents, tasks, cores and seconds must be above 0")


@dataclass(frozen=True, slots=True)
class Capacity:
    """Result of the computation.

    together: exchanges that share a statement. exchange_cores, heartbeat_cores: cores of the server
    at work for these; share: of all its cores. most_agents: agents at which half of
    the cores are at work. amga_per_s: requests that the same agents would make to AMGA. disk_bytes:
    of the campaign when it has ended; vacuum_s, backup_s: seconds for so many bytes.
    """

    tasks_per_s: float
    exchanges_per_s: float
    heartbeats_per_s: float
    amga_per_s: float
    gateways: int
    together: float
    exchange_cores: float
    heartbeat_cores: float
    share: float
    most_agents: int
    duration_s: float
    log_bytes_per_s: float
    log_heartbeat_share: float
    disk_bytes: float
    vacuum_s: float
    backup_s: float


def capacity(need: Need, costs: Costs) -> Capacity:
    """Return the capacity that meets a need on a server with these costs."""
    tasks_per_s = need.agents / need.task_s
    exchanges_per_s = tasks_per_s / need.batch
    heartbeats_per_s = need.agents / HEARTBEAT_S
    gateways = math.ceil(need.agents / AGENTS_OF_GATEWAY)
    together = costs.together(exchanges_per_s / gateways, need.batch)
    statements_us = costs.exchanges_us(together, need.batch)
    exchange_cores = exchanges_per_s / together * statements_us / 1e6
    heartbeat_cores = heartbeats_per_s * costs.heartbeat_us / 1e6
    share = (exchange_cores + heartbeat_cores) / need.cores
    log_tasks = tasks_per_s * (costs.log_task + costs.log_claim / need.batch)
    log_heartbeats = heartbeats_per_s * costs.log_heartbeat
    tasks = tasks_per_s * DAY_S if need.tasks is None else need.tasks
    disk_bytes = tasks * (costs.disk_task + costs.disk_claim / need.batch)
    return Capacity(
        tasks_per_s=tasks_per_s,
        exchanges_per_s=exchanges_per_s,
        heartbeats_per_s=heartbeats_per_s,
        amga_per_s=tasks_per_s * AMGA_ACCESSES,
        gateways=gateways,
        together=together,
        exchange_cores=exchange_cores,
        heartbeat_cores=heartbeat_cores,
        share=share,
        most_agents=int(need.agents * COMFORTABLE / share),
        duration_s=tasks / tasks_per_s,
        log_bytes_per_s=log_tasks + log_heartbeats,
        log_heartbeat_share=log_heartbeats / (log_tasks + log_heartbeats),
        disk_bytes=disk_bytes,
        vacuum_s=disk_bytes / (costs.vacuum_mb_s * 1e6),
        backup_s=disk_bytes / (BACKUP_MB_S * 1e6),
    )
