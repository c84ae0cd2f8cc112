"""The worker process: clients of one campaign, and what keeps their sessions alive.

A client reports its last tasks and claims the next in one exchange. As beside every agent, a
thread sends the beats and a keeper does the upkeep.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import uuid
from typing import NamedTuple

import ticks

from taskq.database import Database
from taskq.direct import DirectTransport
from taskq.keeper import Keeper
from taskq_agent.protocol import DONE, Beat, Hello, LeaseIds, Report, Request, Task, Welcome

EMPTY_PAUSE_S = 0.05

# By variant: clients in a process, tasks in an exchange.
SHAPES = {"one": (int(os.environ["PEERS_CONC"]), 1), "b100": (2, 100)}


class Client(NamedTuple):
    """A connection with a session of its own."""

    transport: DirectTransport
    welcome: Welcome


def opened(database: Database, path: str, slots: int) -> Client:
    """Return a client that serves a campaign."""
    transport = DirectTransport(database)
    hello = Hello(str(uuid.uuid4()), path, "peers", "peers", os.getpid(), "", slots, "")
    return Client(transport, transport.open(hello))


def work(client: Client, want: int, stop: threading.Event) -> None:
    """Execute tasks until told to stop, then report the last."""
    transport, session, lease_ids = client.transport, client.welcome.session, LeaseIds()
    reports: tuple[Report, ...] = ()
    while not stop.is_set():
        answer = transport.exchange(Request(session, reports, want, lease_ids()))
        reports = tuple(executed(task) for task in answer.tasks)
        if not reports:
            stop.wait(EMPTY_PAUSE_S)
    transport.exchange(Request(session, reports))


def executed(task: Task) -> Report:
    """Execute a task; return the report on it."""
    result = ticks.noop_payload(task.payload)
    return Report(task.campaign, task.task, task.lease, DONE, result=result)


def beat(clients: list[Client], stop: threading.Event) -> None:
    """Keep the sessions alive."""
    while not stop.wait(clients[0].welcome.heartbeat_s):
        for client in clients:
            client.transport.beat(Beat(client.welcome.session))


def main(path: str) -> None:
    """Run the clients of this process until SIGTERM."""
    stop, ended = threading.Event(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    database = Database(os.environ["PEERS_DSN"])
    number, want = SHAPES[os.environ["PEERS_VARIANT"]]
    clients = [opened(database, path, want) for _ in range(number)]
    workers = [threading.Thread(target=work, args=(client, want, stop)) for client in clients]
    upkeep = [
        threading.Thread(target=beat, args=(clients, ended)),
        threading.Thread(target=Keeper(database).run, args=(ended,)),
    ]
    for thread in workers + upkeep:
        thread.start()
    for thread in workers:
        thread.join()
    ended.set()
    for thread in upkeep:
        thread.join()
    for client in clients:
        client.transport.close(client.welcome.session)


main(sys.argv[1])
