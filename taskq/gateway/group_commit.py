"""Group commit: requests that wait together share a statement, and each gets its own answer.

To open or end a session costs the server less than the commit. So thousands of agents that come or
leave within a second are served at the rate of the server, not of its disk.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeAlias, TypeVar

from taskq.dispatch.futures import resolve
from taskq.model.errors import UsageError

#: Requests in a statement at most.
MOST_TOGETHER: Final = 64

One = TypeVar("One")
Outcome = TypeVar("Outcome")
Run: TypeAlias = Callable[[Sequence[One]], Awaitable[Sequence[Outcome | Exception]]]


class GroupCommit(Generic[One, Outcome]):
    """Runs requests in batches; for one asyncio loop.

    run: runs a batch, and returns the outcomes in order. If it raises an error, each request gets
    it. After a `UsageError` the halves of the batch run apart, so that only the request at fault
    gets it. rounds: batches at a time.
    """

    def __init__(self, run: Run[One, Outcome], rounds: int) -> None:
        self._run = run
        self._most_rounds = rounds
        self._waiting: deque[tuple[One, asyncio.Future[Outcome]]] = deque()
        self._taken = 0
        self._rounds: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Return how many requests wait for a batch."""
        return len(self._waiting)

    @property
    def served(self) -> int:
        """How many requests have come into a batch since the start."""
        return self._taken - len(self._waiting)

    async def put(self, one: One) -> Outcome:
        """Run a request with those that wait; return its outcome, or raise it."""
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((one, outcome))
        self._taken += 1
        if len(self._rounds) < self._most_rounds:
            self._rounds.add(asyncio.create_task(self._serve()))
        return await outcome

    async def _serve(self) -> None:
        """Run batches until nobody waits."""
        try:
            while self._waiting:
                most = min(MOST_TOGETHER, len(self._waiting))
                await self._run_batch([self._waiting.popleft() for _ in range(most)])
        finally:
            # At once: otherwise the next request would wait for this round.
            self._rounds = {one for one in self._rounds if one is not asyncio.current_task()}

    async def _run_batch(self, batch: Sequence[tuple[One, asyncio.Future[Outcome]]]) -> None:
        outcomes: Sequence[Outcome | Exception]
        try:
            outcomes = await self._run([one for one, _ in batch])
        except Exception as error:  # noqa: BLE001  # each request gets it
            if len(batch) > 1 and isinstance(error, UsageError):
                half = len(batch) // 2
                await self._run_batch(batch[:half])
                await self._run_batch(batch[half:])
                return
            outcomes = [error] * len(batch)
        for (_, future), outcome in zip(batch, outcomes, strict=True):
            resolve(future, outcome)
