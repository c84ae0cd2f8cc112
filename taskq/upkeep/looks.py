"""Looks at the campaigns that notification rules name: what `taskq explain` says of them now."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from taskq.db.access import Queries
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
#: A disk is nearly full if less than a tenth of it, and less than this many bytes, are free.
FREE_SHARE: Final = 0.1
FREE_BYTES: Final = 20 * 10**9
_GB: Final = 10**9
_MOST_DISKS: Final = 20

log = logging.getLogger(__name__)


class Looks:
    """The looks of one keeper: of all keepers of a queue, one looks at a time."""

    def __init__(self, database: Database, disks: Sequence[str] = ()) -> None:
        """disks: folders; rules report when the disk of one is nearly full."""
        self._database = database
        self._disks = disks
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
            for disk in nearly_full(self._disks)[:_MOST_DISKS]:
                yield _holding(path, DISK, DISK, disk["disk"], disk)
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
            if event is None or event.name not in wanted or number == _MOST_REASONS:
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


def nearly_full(folders: Iterable[str]) -> list[dict[str, Any]]:
    """Return the folders whose disk is nearly full, with free and total bytes, and a sentence.

    A folder that cannot be checked is left out.
    """
    found = []
    for folder in folders:
        try:
            disk = os.statvfs(folder)
        except OSError:
            continue
        free, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
        if free < min(FREE_SHARE * size, FREE_BYTES):
            name = f"{socket.gethostname()}:{folder}"
            text = f"The disk of {name} is nearly full: "
            text += f"{free / _GB:,.1f} of {size / _GB:,.0f} GB are free."
            found.append({"disk": name, "free": free, "size": size, "text": text})
    return found
