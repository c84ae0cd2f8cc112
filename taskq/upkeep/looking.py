"""Looks of those that keep the queue next to other work: gateways, and agents with a connection.

`taskq keeper` looks itself, and asks more often whether it is time; see `taskq.upkeep.looks`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from taskq.db.connections import Database
from taskq.model.errors import ServerUnsuitable
from taskq.model.loop_faults import LoopFaults
from taskq.upkeep.keeper import END_S, Keeper, in_background
from taskq.upkeep.looks import Looks

#: Seconds after which a process looks for the first time: most that are over by then need no look.
FIRST_S: Final = 60.0
#: Seconds between two tries.
PERIOD_S: Final = 10.0

log = logging.getLogger(__name__)


class Looking:
    """The looks next to a keeper, while that is the one of the queue that acts."""

    def __init__(self, database: Database, keeper: Keeper) -> None:
        self._database = database
        self._keeper = keeper
        self._looks = Looks(database)

    def look(self) -> bool:
        """Look if it is time; return whether it did. Raise `ServerUnsuitable` without the right."""
        return self._keeper.acts and self._looks.look(self._database) is not None

    def run(self, stop: threading.Event, *, first_s: float | None = None) -> None:
        """Look until `stop` is set, or the right to look is missing."""
        faults = LoopFaults(log, "the look at what is wrong")
        pause_s = FIRST_S if first_s is None else first_s
        while not stop.wait(pause_s):
            pause_s = PERIOD_S
            with faults.noted():
                try:
                    self.look()
                except ServerUnsuitable as error:
                    log.info("nobody looks here at what is wrong: %s", error)
                    return


@contextmanager
def keeping_and_looking(database: Database) -> Iterator[None]:
    """Run a keeper that looks at what is wrong, in threads, for the duration of the block."""
    keeper = Keeper(database)
    with (
        in_background(keeper.run, "taskq-keeper", END_S),
        in_background(Looking(database, keeper).run, "taskq-looks", END_S),
    ):
        yield
