"""Looks at the campaigns that notification rules name: what `taskq explain` says of them now."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final

from taskq.db.access import Queries
from taskq.db.checks.findings import FAULT
from taskq.db.checks.upkeep import disks
from taskq.db.connections import Database
from taskq.diagnosis.events import BY_NAME, DISK, event_of, subject
from taskq.diagnosis.facts import read_facts
from taskq.diagnosis.odd_readings import kept_odd_results
from taskq.diagnosis.rules import explain_campaign
from taskq.model.errors import NotFound, ServerUnsuitable, TaskqError
from taskq.model.words import as_json, beginning
from taskq.upkeep.texts import MAX_TEXT_CHARS

#: Reasons of a campaign that become events, and commands of each that are stored.
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

        A look that fails changes nothing: it says nothing about the campaigns. Raise
        `ServerUnsuitable` without the right to look.
        """
        watched = statements.rows("begin_look")
        if not watched:
            return None
        try:
            found = [event for row in watched for event in self._found(row["path"], row["events"])]
        except ServerUnsuitable:  # the right is missing: the sender says so
            raise
        except TaskqError as error:
            log.warning("events cannot be looked for: %s", error)
            return None
        noted: int | None = statements.value(
            "note_events", look=watched[0]["look"], found=as_json(found)
        )
        return noted

    def _found(self, path: str, wanted: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield what holds of a campaign, and of the disks, as `note_events` takes it."""
        if DISK in wanted:
            for found in disks(self._database.rows("disks")):
                if found.state == FAULT:
                    said = {"text": f"{found.text} {found.remedy}"}
                    yield _holding(
                        path, DISK, DISK, found.figures["disk"], {**found.figures} | said
                    )
        if wanted != [DISK]:
            yield from self._reasons(path, wanted)

    def _reasons(self, path: str, wanted: Sequence[str]) -> Iterator[dict[str, Any]]:
        try:
            facts = read_facts(self._database, path, read_odd=self._read_odd)
        except NotFound:  # the rule outlives its campaign
            return
        number = 0
        for reason in explain_campaign(facts).reasons:
            event = event_of(reason)
            if event is None or event.name not in {*wanted} - {DISK} or number == _MOST_REASONS:
                continue
            number += 1
            said = {"text": reason.text, "commands": list(reason.commands)[:_MOST_COMMANDS]}
            yield _holding(
                path, event.name, reason.code, subject(path, reason), reason.figures | said
            )


def _holding(
    path: str, wanted: str, code: str, about: str, figures: dict[str, Any]
) -> dict[str, Any]:
    figures["text"] = beginning(figures["text"], MAX_TEXT_CHARS)
    return {
        "path": path,
        "wanted": wanted,
        "event": code,
        "subject": about,
        "after_s": BY_NAME[wanted].after_s,
        "figures": figures,
    }
