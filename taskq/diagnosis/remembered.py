"""Since when reasons hold whose beginning nothing shows: since a keeper has seen them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Final

from taskq.db.access import Queries
from taskq.diagnosis.events import event_of, subject
from taskq.diagnosis.reasons import Reason
from taskq.model.errors import TaskqError

#: Troubles that are read.
MAX_REMEMBERED: Final = 1_000


def dated(
    database: Queries, path: str, reasons: Sequence[Reason], *, whole: bool
) -> Sequence[Reason]:
    """Return the reasons of a campaign; those of trouble with the time since when keepers know.

    A reason that knows better keeps its time. whole: see `read_facts`.
    """
    if all(it.since or event_of(it) is None for it in reasons):
        return reasons
    known: dict[tuple[str, str], datetime] = {}
    with suppress(TaskqError):  # it adds to what has been read
        watch = database.row("trouble_watch", path=path, whole=whole)
        if watch is not None:
            asked = {"path": watch["path"], "since": watch["now"], "limit": MAX_REMEMBERED}
            for row in database.rows("trouble_rows", whole=whole, **asked):
                if row["gone_at"] is None:
                    known[row["code"], row["subject"]] = row["since"]
    return [
        it if it.since else replace(it, since=known.get((it.code, subject(path, it))))
        for it in reasons
    ]
