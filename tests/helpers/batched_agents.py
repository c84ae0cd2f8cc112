"""Agents whose exchanges are batched, as those of a gateway are."""

from __future__ import annotations

import asyncio
import uuid

from taskq.db.connections import Database
from taskq.dispatch.batching import Batcher
from taskq.dispatch.direct import DirectTransport
from taskq.dispatch.fair_share import Scope
from taskq_agent.lease_ids import LeaseIds
from taskq_agent.protocol import DONE, Answer, Hello, Report, Request, Task

SERVING = Scope("/c")


class BatchedAgents:
    """Sessions of several agents whose exchanges share a batcher."""

    def __init__(self, database: Database, count: int) -> None:
        transport = DirectTransport(database)
        self.sessions = [
            transport.open(Hello(str(uuid.uuid4()), "/c", "a", "h", 1, "s", 1, "0")).session
            for _ in range(count)
        ]
        self.lease_ids = LeaseIds()
        transport.close(0)

    def claim(self, number: int, want: int = 1) -> Request:
        """Return the request of a claim by one of the agents."""
        return Request(self.sessions[number], want=want, lease=self.lease_ids())


def done(task: Task) -> Report:
    """Return the report that a task succeeded."""
    return Report(task.campaign, task.task, task.lease, DONE, result={"n": task.payload["n"]})


async def together(batcher: Batcher, *requests: Request, serving: Scope = SERVING) -> list[Answer]:
    """Return the answers to requests that arrive together."""
    return await asyncio.gather(*(batcher.exchange(request, serving) for request in requests))


async def claimed(batcher: Batcher, members: BatchedAgents, count: int) -> list[Task]:
    """Let so many members claim a task each."""
    answers = await together(batcher, *(members.claim(number) for number in range(count)))
    return [task for answer in answers for task in answer.tasks]


def verdicts(answer: Answer) -> list[str]:
    """Return the verdicts of an answer, in order."""
    return [ack.verdict for ack in answer.acks]
