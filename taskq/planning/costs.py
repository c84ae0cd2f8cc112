"""Costs of the server: CPU, log and disk that exchanges, heartbeats and tasks take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from taskq.dispatch.fair_share import MOST_IN_BATCH


@dataclass(frozen=True, slots=True)
class Costs:
    """Microseconds of the server's CPU, bytes of log and disk.

    A statement of n exchanges with b tasks each takes
    `statement_us + n * exchange_us + n * b * task_us`, a heartbeat `beat_us` among 1,000 of them.
    A task's whole life in claims of b takes `log_task + log_claim / b` bytes of log, and of disk
    accordingly. sync_us: how long a commit waits for the disk. vacuum_mb_s: speed of a vacuum over
    the rows that a campaign leaves.
    """

    statement_us: float
    exchange_us: float
    task_us: float
    beat_us: float
    sync_us: float
    log_task: float
    log_claim: float
    log_beat: float
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
    beat_us=12.0,
    sync_us=120.0,
    log_task=623.0,
    log_claim=802.0,
    log_beat=150.0,
    disk_task=497.0,
    disk_claim=244.0,
    vacuum_mb_s=100.0,
)
