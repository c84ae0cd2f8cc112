"""Clients of the queue: each reports its last tasks and claims the next in one exchange.

The whole job, as an agent does it: through its transport, each report fenced and with a result,
an attempt recorded, the counts kept.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.synchronize
import queue
import threading
import time
import uuid
from dataclasses import dataclass
from multiprocessing.queues import Queue
from typing import Final

from taskq.database import Database
from taskq.direct import DirectTransport
from taskq_agent.protocol import DONE, Hello, LeaseIds, Report, Request

READY_S: Final = 60.0
RESULT: Final = {"score": -9.1}


@dataclass(frozen=True, slots=True)
class Load:
    """So many processes of so many clients (threads), each with a connection of its own.

    want: tasks in an exchange. path: the campaign.
    """

    processes: int
    clients: int
    want: int
    path: str


def rate(database: Database, load: Load, seconds: float) -> float:
    """Return the tasks completed a second, by all clients together."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(load.processes + 1)
    counts: Queue[int] = context.Queue()
    processes = [
        context.Process(target=_process, args=(database.dsn, load, seconds, ready, counts))
        for _ in range(load.processes)
    ]
    for process in processes:
        process.start()
    ready.wait(READY_S)
    total = sum(counts.get(timeout=seconds + READY_S) for _ in processes)
    for process in processes:
        process.join()
    return total / seconds


def _process(
    dsn: str,
    load: Load,
    seconds: float,
    ready: multiprocessing.synchronize.Barrier,
    counts: Queue[int],
) -> None:
    done: queue.SimpleQueue[int] = queue.SimpleQueue()
    together = threading.Barrier(load.clients, action=lambda: _wait(ready))
    threads = [
        threading.Thread(target=_client, args=(dsn, load, seconds, together, done))
        for _ in range(load.clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts.put(sum(done.get_nowait() for _ in threads))


def _wait(ready: multiprocessing.synchronize.Barrier) -> None:
    ready.wait(READY_S)


def _client(
    dsn: str, load: Load, seconds: float, together: threading.Barrier, done: queue.SimpleQueue[int]
) -> None:
    transport = DirectTransport(Database(dsn))
    hello = Hello(str(uuid.uuid4()), load.path, "bench", "bench", 0, "", 1, "")
    session = transport.open(hello).session
    lease_ids = LeaseIds()
    answer = transport.exchange(Request(session, want=load.want, lease=lease_ids()))
    together.wait(READY_S)
    completed = 0
    end = time.monotonic() + seconds
    while answer.tasks and time.monotonic() < end:
        reports = tuple(
            Report(task.campaign, task.task, task.lease, DONE, result=RESULT)
            for task in answer.tasks
        )
        answer = transport.exchange(
            Request(session, reports=reports, want=load.want, lease=lease_ids())
        )
        completed += len(reports)
    done.put(completed)
    transport.close(session)
