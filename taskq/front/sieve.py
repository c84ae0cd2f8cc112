"""Entries are opened, and what is not to be handed out is sorted out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from taskq.front.entries import Entry, open_entry
from taskq.front.errors import FrontDown
from taskq.front.health import Watch
from taskq.front.state import Outlook
from taskq.front.tally import Tally
from taskq_agent.protocol import Task

#: Entries in a row that PostgreSQL has not made, after which the front is left alone for a while.
MOST_FORGED: Final = 16


class Sieve:
    """Tells genuine entries from others, by the secret of the epoch."""

    def __init__(self, outlook: Outlook, watch: Watch, tally: Tally) -> None:
        self._outlook = outlook
        self._watch = watch
        self._tally = tally
        self._in_a_row = 0

    def opened(self, raw: bytes, campaign: int, now: float) -> Entry | None:
        """Return an entry that may be handed out; None if it is not genuine, or too old.

        One that is too old is given back: no refiller has taken it out in time.
        """
        state = self._outlook.state
        entry = None if state is None else open_entry(raw, state)
        # One from another list may be for a campaign that the agent must not serve.
        if entry is None or entry.task.campaign != campaign:
            self._tally.forged += 1
            self._in_a_row += 1
            if self._in_a_row % MOST_FORGED == 0:
                self._watch.fail(FrontDown("what is popped was not made by PostgreSQL"), now)
            return None
        self._in_a_row = 0
        if entry.until <= now:
            self._tally.stale += 1
            self._outlook.give_back([entry.task])
            return None
        return entry

    def tasks(self, entries: Iterable[bytes]) -> list[Task]:
        """Return the tasks of those entries that are genuine, however old."""
        state = self._outlook.state
        opened = [open_entry(raw, state) for raw in entries] if state is not None else []
        return [one.task for one in opened if one is not None]
