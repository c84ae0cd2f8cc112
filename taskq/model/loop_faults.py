"""Loops that outlive passing faults: of the queue, of the machine, and of the loop itself."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from taskq.model.errors import TaskqError

#: What passes without a mend of ours: the queue, the network, files, memory, a directory of users.
_PASSING: Final = (TaskqError, OSError, MemoryError)


class LoopFaults:
    """Logs what keeps a loop from its work, and lets the loop continue.

    The first of several alike is a warning; an error with its traceback if it may be a defect of
    ours. The log also says when the loop works again.
    """

    def __init__(self, log: logging.Logger, what: str) -> None:
        """Note what the loop does in words, such as `upkeep`."""
        self._log = log
        self._what = what
        self._failing: type[Exception] | None = None

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note an exception of the block, and go on behind it."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # no fault of one round ends the loop
            passing = isinstance(error, _PASSING)
            level = logging.WARNING if passing else logging.ERROR
            self._log.log(
                logging.DEBUG if self._failing is type(error) else level,
                "%s cannot be done now, trying again: %s",
                self._what,
                str(error) or type(error).__name__,
                exc_info=not passing,
            )
            self._failing = type(error)
        else:
            if self._failing is not None:
                self._log.info("%s works again", self._what)
            self._failing = None
