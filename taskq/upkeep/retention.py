"""Retention: campaigns that ended long ago leave, by their setting `keep`.

The acting keeper removes them in small steps, one a second, after those were archived that want it
(`archives.retaining`).
"""

from __future__ import annotations

import logging
import time
from typing import Final

from taskq.db.connections import Statements

#: Tasks that a step deletes: it takes some hundredths of a second, so claims hardly notice.
STEP_TASKS: Final = 1_000
#: Seconds between two looks for campaigns that have ended.
LOOK_S: Final = 300.0

log = logging.getLogger(__name__)


class Retention:
    """The part of the acting keeper that removes campaigns. A kill loses nothing but its place."""

    def __init__(self) -> None:
        self._campaign: int | None = None
        self._after = 0
        self._look_at = 0.0

    def step(self, statements: Statements) -> str | None:
        """Look which campaigns have ended, now and then; then remove some tasks, or a campaign.

        Return the path of what is being removed, if anything is.
        """
        if time.monotonic() >= self._look_at:
            statements.rows("look_at_retention")
            self._look_at = time.monotonic() + LOOK_S
        (row,) = statements.rows(
            "retain", campaign=self._campaign, after=self._after, limit=STEP_TASKS
        )
        self._campaign, self._after = row["campaign"], row["after"] or 0
        if row["removed"]:
            log.warning(
                "the campaign %s ended as long ago as it was to be kept, and is removed;"
                " `taskq ls --removed` lists it",
                row["path"],
            )
        path: str | None = row["path"]
        return path
