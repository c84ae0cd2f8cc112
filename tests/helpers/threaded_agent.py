"""A real agent with its threads, on a queue in memory, with runners that call a function."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import Any

from taskq_agent.handlers.base import Ended, TransferFailure
from taskq_agent.loop import Agent, AgentSummary
from taskq_agent.protocol import (
    DONE,
    RELEASED,
    Answer,
    CampaignTerms,
    Heartbeat,
    HeartbeatAnswer,
    Held,
    Request,
    Task,
)
from taskq_agent.settings import AgentSettings
from taskq_agent.transport import Transport
from tests.helpers.memory_queue import MemoryQueue

Work = Callable[[Task, "FunctionRunner"], Ended]


def done(task: Task, _: FunctionRunner) -> Ended:
    """Succeed at once."""
    return Ended(DONE, result={"echo": task.payload["n"]})


def until_stopped(_: Task, bench: FunctionRunner) -> Ended:
    """Run until the runner is stopped."""
    assert bench.stopped.wait(60), "nobody has stopped the task"
    return Ended(RELEASED)


class FunctionRunner:
    """Runner that calls a function and records how it was used.

    runs: how often each task was begun, over all slots.
    """

    def __init__(self, work: Work, runs: Counter[int]) -> None:
        self.stopped = threading.Event()
        self.closed = False
        self._work = work
        self._runs = runs

    def run(self, task: Task, campaign: CampaignTerms) -> Ended:
        """Run one attempt."""
        assert campaign.campaign == task.campaign
        self._runs[task.task] += 1
        return self._work(task, self)

    def stop(self) -> None:
        """Stop the running attempt."""
        self.stopped.set()

    def update(self, followed: Container[Held]) -> None:
        """Tell nothing."""

    transfer_failure: TransferFailure | None = None
    scratch_moves: int = 0

    def close(self) -> None:
        """Record that it was closed."""
        self.closed = True


class ThreadedAgent:
    """An agent in a thread of its own, with its queue and its runners."""

    def __init__(
        self,
        queue: MemoryQueue,
        work: Work = done,
        transport: Transport | None = None,
        **settings: Any,
    ) -> None:
        self.queue = queue
        self.runs: Counter[int] = Counter()
        self.runners: list[FunctionRunner] = []
        self.summary: AgentSummary | None = None
        self.abandoned: list[int] = []
        self.runner_class: type[FunctionRunner] = FunctionRunner
        self._work = work
        self.agent = Agent(
            transport or queue,
            AgentSettings(campaign="/test", **settings),
            self.make_runner,
            abandon=self.abandoned.append,
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def make_runner(self, slot: int) -> FunctionRunner:
        """Make the runner of a slot."""
        assert slot == len(self.runners)
        self.runners.append(self.runner_class(self._work, self.runs))
        return self.runners[-1]

    def work(self) -> AgentSummary:
        """Run the agent until it has ended; return its summary."""
        with self.open():
            pass
        assert self.summary is not None
        return self.summary

    @contextmanager
    def open(self) -> Iterator[ThreadedAgent]:
        """Run the agent during the block, and wait until it has ended."""
        self._thread.start()
        try:
            yield self
        except BaseException:
            self.agent.terminate()
            self.agent.terminate()
            raise
        self._thread.join(60)
        assert not self._thread.is_alive(), "the agent does not leave"
        assert all(bench.closed for bench in self.runners)

    def _run(self) -> None:
        self.summary = self.agent.run()


class MemoryTransport:
    """A transport to a queue in memory, whose calls tests override."""

    def __init__(self, queue: MemoryQueue) -> None:
        self.open = queue.open
        self.close = queue.close
        self.cancel_exchange = queue.cancel_exchange
        self._queue = queue

    def exchange(self, request: Request) -> Answer:
        """Report and claim."""
        return self._queue.exchange(request)

    def heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer:
        """Keep the session alive."""
        return self._queue.heartbeat(beat)


def queue_of(count: int, **options: Any) -> MemoryQueue:
    """Return a queue with so many tasks; their payloads count from 0."""
    return MemoryQueue(({"n": number} for number in range(count)), **options)
