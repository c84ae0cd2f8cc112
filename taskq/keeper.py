"""The upkeep loop: expires sessions, promotes delayed tasks, folds counts.

Any number may run; in each term one of them acts, and when it goes another takes over within a
term. `taskq keeper` runs one by itself; each agent beside the database runs one as well.
"""

from __future__ import annotations

import logging
import random
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from taskq.database import Database
from taskq.errors import TaskqError

END_S: Final = 5.0
PERIOD_S: Final = 1.0
TERM_S: Final = 10.0
STANDBY_S: Final = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Round:
    """One round: whether this keeper acts, and what it did."""

    acting: bool
    lost: int
    promoted: int
    folded: int


class Keeper:
    """One keeper of a queue."""

    def __init__(self, database: Database) -> None:
        self._line = database.line()
        self._holder = str(uuid.uuid4())

    def round(self) -> Round:
        """Do one round of upkeep, if this keeper is the one that acts or can become it."""
        with self._line.connected() as statements:
            (row,) = statements.rows("keep", holder=self._holder, term_s=TERM_S)
        return Round(row["acting"], row["lost"] or 0, row["promoted"] or 0, row["folded"] or 0)

    def run(self, stop: threading.Event) -> None:
        """Do rounds until told to stop: once a second while acting, rarely while another acts.

        A server that does not answer is waited for.
        """
        while not stop.is_set():
            pause_s = STANDBY_S * random.uniform(1.0, 2.0)  # noqa: S311  # spreads the askers
            try:
                done = self.round()
                if done.acting:
                    pause_s = PERIOD_S
                if done.lost:
                    log.warning("%d attempts lost with their agents, handed out again", done.lost)
            except TaskqError as error:
                log.warning("upkeep must wait: %s", error)
            stop.wait(pause_s)
        self._line.close()


@contextmanager
def keeping(database: Database) -> Iterator[None]:
    """Run a keeper meanwhile, so that a queue with agents or gateways needs none besides."""
    stop = threading.Event()
    thread = threading.Thread(
        target=Keeper(database).run, args=(stop,), name="taskq-keeper", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(END_S)
