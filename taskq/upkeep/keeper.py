"""The keeper: the upkeep loop of a queue.

It expires sessions, promotes delayed tasks, folds counters, pauses campaigns in which nearly
everything fails, hedges slow attempts, and removes checkpoints and output files that are of no
use, and campaigns that ended so long ago as they are kept.

Any number of keepers may run. In each term one of them acts; when it ends, another takes over
within a term. `taskq keeper` runs only a keeper; each agent with a connection of its own to
PostgreSQL, and each gateway, also runs one.
"""

from __future__ import annotations

import logging
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final

from taskq.db.connections import Database, Statements
from taskq.files.archives import Sweeper
from taskq.model.errors import TaskqError
from taskq.model.loop_faults import LoopFaults
from taskq.upkeep.disks import Disks
from taskq.upkeep.retention import Retention

#: Seconds that the thread of `keeping` gets to end.
END_S: Final = 5.0
#: Seconds between the rounds of the acting keeper.
PERIOD_S: Final = 1.0
#: Seconds for which a keeper acts without renewing its term.
TERM_S: Final = 10.0
#: Seconds between the tries of a keeper that does not act, times 1 to 2 at random.
TAKE_OVER_S: Final = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Round:
    """The outcome of one round: whether this keeper acts, and what it did.

    lost: attempts lost with their agents. promoted: delayed tasks that now wait. folded: deltas
    added to counters. held: silent agents whose tasks are not handed out again, since so many
    cannot all be dead; 0 if expiry is as usual. paused: campaigns that paused themselves. suspects:
    hosts throttled from now on, since more fails there than on others. hedged: tasks that take far
    longer than others, and wait for a second attempt from now on.
    """

    acting: bool
    lost: int
    promoted: int
    folded: int
    held: int
    paused: list[str]
    suspects: list[str]
    hedged: int


class Keeper:
    """One keeper of a queue, with a connection and an identity of its own."""

    def __init__(self, database: Database, disks: Disks | None = None) -> None:
        """disks: those that it measures in addition to that of an embedded queue.

        acts: whether it is the one that acts, as of its last round.
        """
        self.acts = False
        self._disks = Disks() if disks is None else disks
        self._connection = database.dedicated_connection()
        self._holder = str(uuid.uuid4())
        # The number of rounds when the database last answered, and the time of that answer.
        self._known, self._known_at = 0, 0.0
        self._sweepers = [Sweeper(database, name) for name in ("end_checkpoints", "end_outputs")]
        self._retention = Retention()

    def round(self) -> Round:
        """Do one round of upkeep, if this keeper acts or can become the one that acts."""
        self.acts = False
        with self._connection.connected() as statements:
            self._disks.note(statements)
            rounds = self._rounds_seen(statements)
            (row,) = statements.rows("keep", holder=self._holder, term_s=TERM_S)
        self.acts = row["acting"]
        self._known, self._known_at = rounds + row["acting"], time.monotonic()
        if row["acting"]:
            self._sweep()
            self._retain()
        return Round(
            acting=row["acting"],
            lost=row["lost"] or 0,
            promoted=row["promoted"] or 0,
            folded=row["folded"] or 0,
            held=row["held"] or 0,
            paused=row["paused"] or [],
            suspects=row["suspects"] or [],
            hedged=row["hedged"] or 0,
        )

    def _rounds_seen(self, statements: Statements) -> int:
        """Return the rounds that the database has seen; note a set-back if they have fallen."""
        ago_s = time.monotonic() - self._known_at
        (row,) = statements.rows("note_set_back", known=self._known, ago_s=ago_s)
        if row["gone_s"] is not None:
            log.error(
                "up to %.0f s of acknowledged work are gone: the server that has taken over lacks"
                " them; `taskq audit` shows when",
                row["gone_s"],
            )
        return int(row["rounds"])

    def _sweep(self) -> None:
        """Remove archives; a failure must not keep tasks from being handed out."""
        try:
            with self._connection.connected() as statements:
                for sweeper in self._sweepers:
                    sweeper.sweep(statements)
        except TaskqError as error:
            log.warning("unneeded checkpoints and output files stay: %s", error)

    def _retain(self) -> None:
        """Remove what ended long ago; a failure must not keep tasks from being handed out."""
        try:
            with self._connection.connected() as statements:
                self._retention.step(statements)
        except TaskqError as error:
            log.warning("campaigns that are not to be kept stay: %s", error)

    def run(self, stop: threading.Event) -> None:
        """Do rounds until `stop` is set: each second while acting, each 5 to 10 s otherwise.

        The first one is done in any case.

        If PostgreSQL does not answer, or the machine fails, it keeps trying; the first failure is a
        warning.
        """
        held, faults = 0, LoopFaults(log, "upkeep")
        while True:
            pause_s = TAKE_OVER_S * random.uniform(1.0, 2.0)  # noqa: S311  # spreads the keepers
            with faults.noted():
                done = self.round()
                if done.acting:
                    pause_s = PERIOD_S
                    _log_round(done, held)
                    held = done.held
            if stop.wait(pause_s):
                break
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _log_round(done: Round, held: int) -> None:
    """Log what operators should know of a round; held: that of the round before."""
    if done.held and not held:
        log.warning(
            "%d agents are silent at once, which looks like an outage: their tasks are held;"
            " `taskq agent list` shows how long, `taskq recover` hands them out now",
            done.held,
        )
    if held and not done.held:
        log.warning("no more tasks are held for silent agents")
    if done.lost:
        log.warning("%d attempts lost with their agents, handed out again", done.lost)
    if done.hedged:
        log.info("%d attempts take far longer than others: hedged by second attempts", done.hedged)
    for path in done.paused:
        log.warning("the campaign %s has paused itself; `taskq status %s` shows why", path, path)
    for host in done.suspects:
        log.warning(
            "host %r fails what other hosts do well: slowed; `taskq agent list` shows why", host
        )


def keeping(database: Database) -> AbstractContextManager[None]:
    """Run a keeper in a thread for the duration of the block."""
    return in_background(Keeper(database).run, "taskq-keeper", END_S)


@contextmanager
def in_background(
    run: Callable[[threading.Event], object], name: str, end_s: float
) -> Iterator[None]:
    """Run a function in a thread for the duration of the block; the event asks it to end.

    It gets `end_s` seconds for that.
    """
    stop = threading.Event()
    thread = threading.Thread(target=run, args=(stop,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(end_s)
