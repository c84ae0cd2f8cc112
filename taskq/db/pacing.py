"""Long changes that leave most of the server to the claims and reports of others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

#: The rest after a step: so many times its duration, so many seconds at most. During a step claims
#: may take three times as long.
REST: Final = 7
MAX_REST_S: Final = 1.0
#: Transactions a second of others from which they are at work; keepers and views make fewer.
_BUSY_PER_S: Final = 20.0
_LOOK_S: Final = 1.0
#: Transactions of a step of one's own, at most.
_OF_STEP: Final = 2


class Counting(Protocol):
    """The part of `Queries` that a pace needs."""

    def value(self, name: str, /, **values: object) -> Any:
        """Return the first column of the first row of a statement."""
        ...


class PacedChange:
    """The pace of a long change: it rests between its steps while others are at work.

    Whether they are is read once a second from the server's count of transactions, which lags by a
    second. So a change in a quiet queue is as fast as it can be.
    """

    def __init__(self, database: Counting) -> None:
        self._database = database
        self._looked = 0.0
        self._count: int | None = None
        self._steps = 0
        self._took_s = 0.0
        self._resumed_at = time.monotonic()
        self._has_begun = False
        self.busy = False

    @contextmanager
    def step(self) -> Iterator[None]:
        """Rest after the step before, then run the block as the next one."""
        self._rest()
        yield
        self._took_s = time.monotonic() - self._resumed_at
        self._steps += 1
        self._has_begun = True

    def rest(self) -> None:
        """Rest after all that was done since the last rest, in a transaction that goes on."""
        self._took_s = time.monotonic() - self._resumed_at
        self._has_begun = True
        self._rest()

    def _rest(self) -> None:
        is_old = self._count is None or time.monotonic() - self._looked >= _LOOK_S
        if self._has_begun and is_old:
            self._look()
        if self.busy:
            time.sleep(min(MAX_REST_S, REST * self._took_s))
        self._resumed_at = time.monotonic()

    def _look(self) -> None:
        now = time.monotonic()
        count = int(self._database.value("transactions") or 0)
        if self._count is not None:
            others = count - self._count - _OF_STEP * self._steps
            self.busy = others >= _BUSY_PER_S * (now - self._looked)
        self._count, self._looked, self._steps = count, now, 0
