"""What the processes of a herd share with the one that has started them."""

from __future__ import annotations

import multiprocessing.synchronize
from dataclasses import dataclass
from enum import IntEnum
from multiprocessing.queues import SimpleQueue
from typing import Any


class LoadStage(IntEnum):
    """What the agents are to do."""

    WORK = 0
    DELIVER = 1
    """Claim no more, and report all that is left to report."""
    END = 2


@dataclass(frozen=True)
class SharedState:
    """One process's side. counts: its `LoadTotals.values`; latencies: its counts by bucket.

    stage: how far it all is, a `LoadStage`. ready: where all meet before the work begins. troubles:
    takes why a process had to give up.
    """

    counts: Any
    latencies: Any
    stage: Any
    ready: multiprocessing.synchronize.Barrier
    troubles: SimpleQueue[str]
