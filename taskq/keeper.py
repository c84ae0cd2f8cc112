"""Upkeep loop: expires sessions, promotes delayed tasks, folds counters, pauses failing campaigns.

Any number of keepers may run. One of them acts in each term of `TERM_S` seconds; when it ends,
another takes over within a term. `taskq keeper` runs only a keeper; each direct agent (one with a
connection of its own to PostgreSQL) runs one too.
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

from taskq.db.connections import Database
from taskq.errors import TaskqError

END_S: Final = 5.0
PERIOD_S: Final = 1.0
TERM_S: Final = 10.0
STANDBY_S: Final = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Round:
    """Result of one round: whether this keeper acts, and what it did.

    held: silent agents whose tasks are held, since so many silent at a time mean an outage; 0:
    expiry works as usual. paused: campaigns that paused themselves. suspects: hosts that are slowed
    from now on, because more attempts fail there than on other hosts.
    """

    acting: bool
    lost: int
    promoted: int
    folded: int
    held: int
    paused: list[str]
    suspects: list[str]


class Keeper:
    """One keeper of a queue."""

    def __init__(self, database: Database) -> None:
        self._connection = database.dedicated_connection()
        self._holder = str(uuid.uuid4())

    def round(self) -> Round:
        """Do one round of upkeep if this keeper acts, or can become the one that does."""
        with self._connection.connected() as statements:
            (row,) = statements.rows("keep", holder=self._holder, term_s=TERM_S)
        return Round(
            acting=row["acting"],
            lost=row["lost"] or 0,
            promoted=row["promoted"] or 0,
            folded=row["folded"] or 0,
            held=row["held"] or 0,
            paused=row["paused"] or [],
            suspects=row["suspects"] or [],
        )

    def run(self, stop: threading.Event) -> None:
        """Do rounds until `stop` is set: every second while acting, else every 5 to 10 s.

        If the server does not answer, it logs a warning and retries.
        """
        held = 0
        while not stop.is_set():
            pause_s = STANDBY_S * random.uniform(1.0, 2.0)  # noqa: S311  # spreads the keepers
            try:
                done = self.round()
                if done.acting:
                    pause_s = PERIOD_S
                    _log_round(done, held)
                    held = done.held
            except TaskqError as error:
                log.warning("upkeep must wait: %s", error)
            stop.wait(pause_s)
        self._connection.close()


def _log_round(done: Round, held: int) -> None:
    """Log the events of a round; held: as of the previous round."""
    if done.held and not held:
        log.warning(
            "%d agents are silent at a time: taken for an outage, their tasks are held;"
            " `taskq agents list` tells how long, `taskq recover` hands them out now",
            done.held,
        )
    if held and not done.held:
        log.warning("no more tasks are held for silent agents")
    if done.lost:
        log.warning("%d attempts lost with their agents, handed out again", done.lost)
    for path in done.paused:
        log.warning("the campaign %s has paused itself; `taskq status %s` tells why", path, path)
    for host in done.suspects:
        log.warning(
            "host %r fails what others do well: slowed; `taskq agents list` tells more", host
        )


@contextmanager
def keeping(database: Database) -> Iterator[None]:
    """Run a keeper in a thread during the block; agents and gateways do so for their queue."""
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
