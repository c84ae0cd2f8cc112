"""Looks at the root and at some campaigns: what `taskq explain` says is wrong there now."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from taskq.db.access import Queries
from taskq.db.checks.findings import FAULT
from taskq.db.checks.upkeep import disks
from taskq.db.connections import Database
from taskq.diagnosis.events import BY_NAME, DISK, NEWS, event_of, subject
from taskq.diagnosis.facts import read_facts
from taskq.diagnosis.odd_readings import kept_odd_results
from taskq.diagnosis.reasons import Reason, Whereabouts
from taskq.diagnosis.rules import explain_campaign
from taskq.model.errors import NotFound, ServerUnsuitable, TaskqError
from taskq.model.words import as_json, beginning
from taskq.upkeep.texts import MAX_TEXT_CHARS

#: Reasons of a campaign that become troubles, and commands of each that are stored.
_MOST_REASONS: Final = 100
_MOST_COMMANDS: Final = 5

log = logging.getLogger(__name__)


class Looks:
    """The looks of one keeper: of all keepers of a queue, one looks at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._read_odd = kept_odd_results()

    def look(self, statements: Queries) -> int | None:
        """Look if it is time; return how many events were noted, None if nobody looked.

        A campaign at which the look fails keeps its troubles: nothing is known about them. Raise
        `ServerUnsuitable` without the right to look.
        """
        watched = statements.rows("begin_look")
        if not watched:
            return None
        looks = [(row, self._found(**row)) for row in watched]
        looked = [(row, found) for row, found in looks if found is not None]
        if not looked:
            return None
        places = [{"path": row["path"], "whole": row["whole"]} for row, _ in looked]
        troubles = [
            {"path": row["path"], "whole": row["whole"]} | it
            for row, found in looked
            for it in found
        ]
        noted: int | None = statements.value(
            "note_look", look=watched[0]["look"], looked=as_json(places), found=as_json(troubles)
        )
        return noted

    def _found(
        self, look: int, path: str, events: Sequence[str], *, whole: bool
    ) -> list[dict[str, Any]] | None:
        """Return what holds of a campaign, and of the disks, as `note_look` takes it.

        None if that cannot be read.
        """
        named = {*events}
        try:
            found = [*self._disks()] if DISK in named else []
            if path == "/" or not whole or named - {DISK}:
                found += self._reasons(path, whole=whole)
        except ServerUnsuitable:  # the right is missing: the sender says so
            raise
        except TaskqError as error:
            log.warning("look %d does not see what is wrong in %s: %s", look, path, error)
            return None
        return found

    def _disks(self) -> Iterator[dict[str, Any]]:
        for found in disks(self._database.rows("disks")):
            if found.state == FAULT:
                reason = Reason(
                    DISK, f"{found.text} {found.remedy}", lost=1, figures={**found.figures}
                )
                yield _holding(DISK, found.figures["disk"], reason, Whereabouts("/"), listed=False)

    def _reasons(self, path: str, *, whole: bool) -> Iterator[dict[str, Any]]:
        try:
            facts = read_facts(self._database, path, whole=whole, read_odd=self._read_odd)
        except NotFound:  # the rule outlives its campaign
            return
        reported = (
            (event, reason)
            for reason in explain_campaign(facts).reasons
            if (event := event_of(reason)) is not None
        )
        for event, reason in islice(reported, _MOST_REASONS):
            listed = reason.code not in NEWS
            place = Whereabouts.of(path, reason)
            yield _holding(event.name, subject(path, reason), reason, place, listed=listed)


def _holding(
    event: str, about: str, reason: Reason, place: Whereabouts, *, listed: bool
) -> dict[str, Any]:
    said = {
        "text": beginning(reason.text, MAX_TEXT_CHARS),
        "commands": list(reason.commands)[:_MOST_COMMANDS],
    }
    # Rules on disks report what keepers measure, whichever campaign they name.
    is_named = event != DISK or reason.code == DISK
    return {
        "code": reason.code,
        "subject": about,
        "word": event if is_named else None,
        "after_s": BY_NAME[event].after_s,
        "listed": listed,
        "about": place.campaign,
        "site": place.site,
        "host": place.host,
        "since": reason.since,
        "cost": reason.cost,
        "tasks": reason.tasks,
        "lost": reason.lost,
        "blocks": reason.blocks,
        "maintenance": reason.maintenance,
        "figures": reason.figures | said,
    }
