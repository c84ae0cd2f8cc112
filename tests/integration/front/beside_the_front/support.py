"""Agents and sessions next to the database, as tests need them."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

from taskq import Campaign
from taskq.db.connections import Database
from taskq.dispatch.direct import DirectTransport
from taskq_agent.handlers.base import Ended
from taskq_agent.loop import Agent, AgentSummary
from taskq_agent.protocol import DONE, Hello, LeaseIds, Report, Request, Task
from taskq_agent.settings import AgentSettings
from tests.fixtures.front import Popper
from tests.helpers.threaded_agent import FunctionRunner
from tests.helpers.waiting import wait_until

SERVING: dict[str, Any] = {"path": "/c", "lifetime_s": None, "offers": [], "most": 1}
END_S = 60.0
#: Stopped for ten seconds, as happens on a busy machine, nobody loses what he has.
POOL_S = 120.0


class Turnstile(FunctionRunner):
    """A runner that lets through as many tasks as a test allows."""

    def __init__(self) -> None:
        super().__init__(self._pass, Counter())
        self.passed = 0
        self._permits = threading.Semaphore(0)

    def let(self, count: int) -> None:
        """Let so many more through."""
        self._permits.release(count)

    def stop(self) -> None:
        """Let the task that waits through."""
        self.let(1)

    def _pass(self, task: Task, _: FunctionRunner) -> Ended:
        """Wait, and succeed."""
        self._permits.acquire()
        self.passed += 1
        return Ended(DONE, result=dict(task.payload))


class Hired:
    """A real agent with one slot, in a thread, until nothing is left to do."""

    def __init__(self, transport: DirectTransport) -> None:
        self.turnstile = Turnstile()
        settings = AgentSettings("/c", until_empty=True, ahead_s=0.0, farewell_s=2.0)
        self._agent = Agent(transport, settings, lambda _: self.turnstile)
        self._summary: AgentSummary | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def pass_on(self, count: int) -> None:
        """Let so many tasks through, and wait until they have passed."""
        until = self.turnstile.passed + count
        self.turnstile.let(count)
        wait_until(lambda: self.turnstile.passed >= until, timeout_s=END_S)

    def finish(self) -> AgentSummary:
        """Let all tasks through; return how the agent has left."""
        self.turnstile.let(10_000)
        self._thread.join(END_S)
        assert self._summary is not None, "the agent does not come to an end"
        return self._summary

    def dismiss(self) -> None:
        """End it, if it has not ended."""
        self._agent.terminate()
        self.turnstile.let(10_000)
        self._thread.join(END_S)

    def _run(self) -> None:
        self._summary = self._agent.run()


class Visitor:
    """A transport and its session, without an agent."""

    def __init__(self, transport: DirectTransport) -> None:
        self.transport = transport
        self.welcome = transport.open(Hello(str(uuid.uuid4()), "/c", "a", "host", 1, "", 1, "0"))
        self.session = self.welcome.session
        self._lease_ids = LeaseIds()

    def claim(self, want: int) -> list[Task]:
        """Claim until there is something."""
        tasks: list[Task] = []

        def ask() -> int:
            lease = self._lease_ids()
            answer = self.transport.exchange(Request(self.session, (), want, lease, ahead=True))
            tasks.extend(answer.tasks)
            return len(tasks)

        wait_until(ask)
        return tasks

    def report(self, *reports: Report) -> list[str]:
        """Report, and return the verdicts."""
        answer = self.transport.exchange(Request(self.session, reports))
        return [ack.verdict for ack in answer.acks]


Employ = Callable[[Database], Hired]


def stock(database: Database, popper: Popper, campaign: Campaign) -> None:
    """Have a refiller stock a campaign, and wait until agents are sent there."""
    popper.stock(campaign.campaign_id)
    wait_until(lambda: database.rows("servable", **SERVING))


Lease = Callable[[Campaign], None]
