"""Worker process: clients of one campaign, with heartbeats and upkeep.

A client reports its last tasks and claims the next in one exchange; the exchanges of the clients of
a process are batched. As in every agent, a thread sends the heartbeats, and a keeper does the
upkeep.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import uuid

import ticks

from taskq.db.connections import Database
from taskq.dispatch.batching import Batcher
from taskq.dispatch.direct import DirectTransport
from taskq.dispatch.fair_share import Scope
from taskq.upkeep.keeper import Keeper
from taskq_agent.lease_ids import LeaseIds
from taskq_agent.protocol import DONE, Heartbeat, Hello, Report, Request, Task, Welcome

EMPTY_PAUSE_S = 0.05

# By variant: clients in a process, tasks in an exchange.
CLIENTS = int(os.environ["PEERS_CONC"])
SHAPES = {"one": (CLIENTS, 1), "b10": (CLIENTS, 10), "b100": (2, 100)}


async def work(batcher: Batcher, session: int, path: str, want: int, stop: asyncio.Event) -> None:
    """Execute tasks until `stop` is set, then report the last."""
    scope, lease_ids = Scope(path), LeaseIds()
    reports: tuple[Report, ...] = ()
    while not stop.is_set():
        answer = await batcher.exchange(Request(session, reports, want, lease_ids()), scope)
        reports = tuple(executed(task) for task in answer.tasks)
        if not reports:
            await asyncio.sleep(EMPTY_PAUSE_S)
    await batcher.exchange(Request(session, reports), scope)


def executed(task: Task) -> Report:
    """Execute a task; return the report on it."""
    result = ticks.noop_payload(task.payload)
    return Report(task.campaign, task.task, task.lease, DONE, result=result)


async def work_all(database: Database, sessions: list[int], path: str, want: int) -> None:
    """Run the clients of this process until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with Batcher(database) as batcher:
        await asyncio.gather(*(work(batcher, session, path, want, stop) for session in sessions))


def heartbeat(transport: DirectTransport, opened: list[Welcome], stop: threading.Event) -> None:
    """Keep the sessions alive."""
    while not stop.wait(opened[0].heartbeat_s):
        for welcome in opened:
            transport.heartbeat(Heartbeat(welcome.session))


def main(path: str) -> None:
    """Open the sessions, work, and end them."""
    ended = threading.Event()
    database = Database(os.environ["PEERS_DSN"])
    number, want = SHAPES[os.environ["PEERS_VARIANT"]]
    transport = DirectTransport(database)
    hellos = [
        Hello(str(uuid.uuid4()), path, "peers", "peers", os.getpid(), "", want, "")
        for _ in range(number)
    ]
    opened = [transport.open(hello) for hello in hellos]
    upkeep = [
        threading.Thread(target=heartbeat, args=(transport, opened, ended)),
        threading.Thread(target=Keeper(database).run, args=(ended,)),
    ]
    for thread in upkeep:
        thread.start()
    asyncio.run(work_all(database, [welcome.session for welcome in opened], path, want))
    ended.set()
    for thread in upkeep:
        thread.join()
    for welcome in opened:
        transport.close(welcome.session)


main(sys.argv[1])
