"""Troubles: what is in the way or broken, by explanations of campaigns, for notifications."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from typing import Any, Final

from taskq.db.connections import Database
from taskq.diagnosis.facts import read_facts
from taskq.diagnosis.reasons import Reason
from taskq.diagnosis.rules import explain_campaign
from taskq.model.errors import ServerUnsuitable, TaskqError
from taskq.upkeep.notifications import Notifications
from taskq.upkeep.texts import TROUBLE

#: Seconds between two looks, and how much longer than a look the pause after it is.
PERIOD_S: Final = 60.0
_REST: Final = 20.0
_MOST_CHARS: Final = 600
_MOST: Final = 20
#: Codes of reasons that are no trouble, or that another event reports.
_OTHERS: Final = frozenset(
    {"finished", "nothing-seeded", "paused", "cancelled", "no-agents", "leased-ahead", "delayed"}
)

log = logging.getLogger(__name__)


class TroubleWatch:
    """Looks at the campaigns whose rules report troubles, at most once a minute."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._look_at = 0.0
        self._found: str | None = None

    def found(self) -> str | None:
        """Return the troubles of the last look, as JSON for `note_events`; None before the first.

        A look that fails changes nothing: it says nothing about the campaigns. Raise
        `ServerUnsuitable` without the right to look.
        """
        begun = time.monotonic()
        if begun >= self._look_at:
            try:
                self._found = json.dumps([one for path in self._paths() for one in self._at(path)])
            except ServerUnsuitable:  # the right is missing: the sender says so
                raise
            except TaskqError as error:
                log.warning("troubles cannot be looked for: %s", error)
            self._look_at = time.monotonic() + max(PERIOD_S, _REST * (time.monotonic() - begun))
        return self._found

    def _paths(self) -> list[str]:
        rules = Notifications(self._database).list()
        return sorted({one.path for one in rules if TROUBLE in one.events})

    def _at(self, path: str) -> Iterator[dict[str, Any]]:
        reasons = explain_campaign(read_facts(self._database, path)).reasons
        for one in [it for it in reasons if is_trouble(it)][:_MOST]:
            figures = {"text": one.text[:_MOST_CHARS], "commands": list(one.commands)[:5]}
            yield {"path": path, "event": TROUBLE, "subject": subject(one), "figures": figures}


def is_trouble(reason: Reason) -> bool:
    """Return whether tasks do not run because of it, or something is broken."""
    return reason.code not in _OTHERS and (reason.blocks or reason.lost > 0)


def subject(reason: Reason) -> str:
    """Return what tells one trouble from others: the code, and the names among its figures."""
    names = [one for one in reason.figures.values() if isinstance(one, str)]
    return " ".join([reason.code, *names])[:300]
