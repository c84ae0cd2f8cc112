"""State that the processes of a load share with their parent."""

from __future__ import annotations

import multiprocessing.synchronize
from dataclasses import dataclass
from enum import IntEnum
from multiprocessing.queues import SimpleQueue
from typing import Any


class LoadStage(IntEnum):
    """Stage of the load, which says what the agents do."""

    WORK = 0
    DELIVER = 1
    """Claim no more, and report all that is left to report."""
    END = 2


@dataclass(frozen=True)
class SharedState:
    """State of one process. counts: its `LoadTotals.values`; latencies: its counts by bucket.

    stage: the `LoadStage` of all. ready: barrier before the work begins. troubles: receives the
    reason why a process failed.
    """

    counts: Any
    latencies: Any
    stage: Any
    ready: multiprocessing.synchronize.Barrier
    troubles: SimpleQueue[str]
