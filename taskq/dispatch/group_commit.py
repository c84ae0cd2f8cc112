"""Group commit: requests that wait together share a statement, and each gets its own answer.

To open or end a session costs the server less than the commit. So thousands of agents that come or
leave within a second are served at the rate of the server, not of its disk. Heartbeats and
exchanges have batches of their own (`heartbeats`, `batching`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

from taskq.dispatch.endings import resolve
from taskq.dispatch.halves import in_halves
from taskq.model.errors import UsageError

#: Requests in a statement at most, and seconds for which a statement with fewer waits for more.
MOST_TOGETHER: Final = 64
GATHER_S: Final = 0.02

Request = TypeVar("Request")
Outcome = TypeVar("Outcome")
Run: TypeAlias = Callable[[Sequence[Request]], Awaitable[Sequence[Outcome | Exception]]]

_Batch: TypeAlias = Sequence[tuple[Request, asyncio.Future[Outcome]]]


class GroupCommit(Generic[Request, Outcome]):
    """Runs requests in batches, one batch at a time; for one asyncio loop.

    run: runs a batch, and returns the outcomes in order. If it raises an error, each request gets
    it. After a `UsageError` the halves of the batch run apart, so that only the request at fault
    gets it.

    A batch that is not full waits `GATHER_S`. Without that wait, a gateway that is busier than its
    database would send nearly every request alone, which costs both of them most.
    """

    def __init__(self, run: Run[Request, Outcome]) -> None:
        self._run = run
        self._waiting: deque[tuple[Request, asyncio.Future[Outcome]]] = deque()
        self._taken = 0
        self._serving: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Return how many requests wait for a batch."""
        return len(self._waiting)

    @property
    def served(self) -> int:
        """How many requests have come into a batch since the start."""
        return self._taken - len(self._waiting)

    async def put(self, request: Request) -> Outcome:
        """Run a request with those that wait; return its outcome, or raise it."""
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, outcome))
        self._taken += 1
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
        return await outcome

    async def _serve(self) -> None:
        """Run batches until nobody waits."""
        try:
            while self._waiting:
                if len(self._waiting) < MOST_TOGETHER:
                    await asyncio.sleep(GATHER_S)
                most = min(MOST_TOGETHER, len(self._waiting))
                batch = [self._waiting.popleft() for _ in range(most)]
                await in_halves(batch, self._run_batch, _fail, _is_of_caller)
        finally:
            self._serving = None

    async def _run_batch(self, batch: _Batch[Request, Outcome]) -> None:
        outcomes = await self._run([request for request, _ in batch])
        for (_, future), outcome in zip(batch, outcomes, strict=True):
            resolve(future, outcome)


def _fail(batch: _Batch[Any, Any], error: Exception) -> None:
    for _, future in batch:
        resolve(future, error)


def _is_of_caller(error: Exception) -> bool:
    return isinstance(error, UsageError)
