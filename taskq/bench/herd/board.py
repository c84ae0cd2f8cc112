"""What the processes of a herd share with the one that has started them."""

from __future__ import annotations

import multiprocessing.synchronize
from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue
from typing import Any


@dataclass(frozen=True)
class Ends:
    """One process's side. counts: its `Tally.values`; latencies: its counts by bucket.

    stop: 1 when all is over. ready: where all meet before the work begins. troubles: takes why a
    process had to give up.
    """

    counts: Any
    latencies: Any
    stop: Any
    ready: multiprocessing.synchronize.Barrier
    troubles: SimpleQueue[str]
