"""Reads that may be some seconds old: this module chooses the standby or the primary.

When a standby does not answer, or is too far behind, reads go to the primary, and the standby is
checked again later. Statements that must be exact to the moment (claims, waits, writes) never come
here: a statement's header says whether it may.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from taskq.db import migrations
from taskq.db.access import Queries
from taskq.db.catalogue import find
from taskq.db.connections import Database, Statements
from taskq.db.dsn import display_name, reading
from taskq.db.rows import Row
from taskq.model.errors import NotFound, SchemaError, TaskqError, Unavailable, UsageError
from taskq.model.words import duration

#: Seconds that a standby may be behind, unless the caller says otherwise.
MOST_BEHIND_S: Final = 30.0
#: Seconds between two checks of how far a standby is behind.
LOOK_S: Final = 5.0
#: Seconds for which a standby gets no reads after it failed.
REST_S: Final = 60.0

log = logging.getLogger(__name__)

T = TypeVar("T")


class StandbyReads(Queries):
    """Runs reading statements on a standby, or on the primary while the standby is unfit.

    Thread-safe. The primary repeats a statement that the standby does not answer, and a lookup by
    name that finds nothing there: the name may be new.
    """

    def __init__(
        self,
        primary: Database,
        standby: Database,
        *,
        most_behind_s: float = MOST_BEHIND_S,
        say: Callable[[str], None] = log.warning,
    ) -> None:
        """primary: not open; it opens when needed. say: called when a standby becomes unfit."""
        self.server = primary.server
        self._primary = primary
        self._standby = standby
        self._most_behind_s = most_behind_s
        self._say = say
        self._turn = threading.Lock()
        self._primary_is_open = False
        self._standby_is_fit = False
        self._is_left = False
        self._looked_at = self._look_at = 0.0
        self._behind_s: float | None = None

    @classmethod
    def of(cls, primary: Database, read_dsn: str, **options: Any) -> StandbyReads:
        """Return the reads of the standby at an address; raise `UsageError` for a bad one."""
        server = f"the standby, {display_name(read_dsn)}"
        return cls(primary, Database(reading(read_dsn), server=server), **options)

    def open(self) -> StandbyReads:
        """Connect to the standby, or else to the primary, so that a wrong address fails at once."""
        if self._chosen() is not self._standby:
            self.primary  # noqa: B018  # opens it
        return self

    def anonymous(self) -> StandbyReads:
        """Return the same under names that anybody may see."""
        return StandbyReads(
            Database(self._primary.dsn, server="the database"),
            Database(self._standby.dsn, server="the standby"),
            most_behind_s=self._most_behind_s,
            say=self._say,
        )

    def close(self) -> None:
        """Close all connections."""
        self._standby.close()
        self._primary.close()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed; a closed one answers nothing."""
        return self._standby.is_closed and self._primary.is_closed

    @property
    def behind_s(self) -> float | None:
        """Greatest age of what is read now, in seconds; None if the primary answers."""
        seen_s, since_s = self._behind_s, time.monotonic() - self._looked_at
        # It may not have followed since the latest check.
        return None if seen_s is None else seen_s + since_s

    @property
    def primary(self) -> Database:
        """The primary, for reads that must be exact to the moment."""
        with self._turn:
            return self._opened_primary()

    def rows(self, name: str, /, **values: object) -> list[Row]:
        """Return all rows of a statement."""
        return self._ask(name, lambda database: database.rows(name, **values))

    def row(self, name: str, /, **values: object) -> Row | None:
        """Return the first row, None if there is none."""

        def ask(database: Database) -> Row | None:
            found = database.row(name, **values)
            if found is None and name == "campaign" and database is self._standby:
                raise NotFound(name)
            return found

        return self._ask(name, ask)

    def in_snapshot(
        self, read: Callable[[Statements], T], *, lock_wait_s: float | None = None
    ) -> T:
        """Return what a function reads in one snapshot; lock_wait_s: as for `Database`."""
        return self._either(lambda database: database.in_snapshot(read, lock_wait_s=lock_wait_s))

    def _ask(self, name: str, ask: Callable[[Database], T]) -> T:
        if not find(name).on_standby:
            raise UsageError(f"this connection is for reading from a standby, not for `{name}`")
        return self._either(ask)

    def _either(self, ask: Callable[[Database], T]) -> T:
        chosen = self._chosen()
        if chosen is self._standby:
            try:
                return ask(chosen)
            except NotFound:
                pass
            except Unavailable as error:
                with self._turn:
                    self._leave(str(error))
        return ask(self.primary)

    def _chosen(self) -> Database:
        """Return where to read now."""
        with self._turn:
            if time.monotonic() >= self._look_at:
                self._look()
            return self._standby if self._behind_s is not None else self._opened_primary()

    def _look(self) -> None:
        try:
            if not self._standby_is_fit:
                migrations.require(self._standby.open())
                self._standby_is_fit = True
            self._behind_s = self._measured_s()
        except (Unavailable, SchemaError) as error:
            self._leave(str(error))
        else:
            self._looked_at = time.monotonic()
            self._look_at = self._looked_at + LOOK_S
            self._is_left = False

    def _measured_s(self) -> float:
        """Return the most seconds that the standby is behind; raise `Unavailable` if too many."""
        behind_s: float | None = self._standby.value("replayed")
        if behind_s is not None and behind_s <= self._most_behind_s:
            return max(behind_s, 0.0)
        try:
            written = self._opened_primary().value("written")
        except Unavailable:
            if behind_s is not None:
                return behind_s  # old, and reported as old; the alternative is nothing
            raise
        except TaskqError:  # a server that does not report it
            written = None
        # Nothing was replayed for long; perhaps nothing was written.
        if written is not None and self._standby.value("has_replayed", position=written):
            return 0.0
        far = "an unknown time" if behind_s is None else duration(behind_s)
        raise Unavailable(f"{self._standby.server} is {far} behind")

    def _leave(self, why: str) -> None:
        self._behind_s = None
        self._look_at = time.monotonic() + REST_S
        if not self._is_left:
            self._say(f"{why}; reading from the primary")
        self._is_left = True

    def _opened_primary(self) -> Database:
        if not self._primary_is_open:
            self._primary.open()
            migrations.require(self._primary)
            self._primary_is_open = True
        return self._primary


def exact(queries: Queries) -> Queries:
    """Return queries that are exact to the moment: the primary in place of a standby."""
    return queries.primary if isinstance(queries, StandbyReads) else queries
