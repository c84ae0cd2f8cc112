"""Errors that stored data cause.

Campaigns whose claims make the server fail, and tasks whose payload nobody can read, must not stop
a farm. Such a campaign is left out for a minute, while the others are served. Such a task fails for
good. Each writes one line to the log.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Final

from taskq.dispatch.seldom import Seldom
from taskq_agent.protocol import FAILED, MAX_ERROR_CHARS, Task

log = logging.getLogger(__name__)
log.addFilter(Seldom())

#: Seconds for which a campaign is left out.
REST_S: Final = 60.0
UNREADABLE_CLASS: Final = "payload-unreadable"
#: PostgreSQL's classes of errors that stored data may cause: limits, damage; and the codes of
#: statements that take too long or too much memory. Not a full disk, wrong messages, lost
#: connections.
_CLASSES: Final = ("54", "XX")
_CODES: Final = frozenset({"53200", "57014"})


class CampaignFaults:
    """The campaigns that one process leaves out."""

    def __init__(self) -> None:
        self._until: dict[int, float] = {}

    def note(self, campaign: int, error: Exception, now: float) -> None:
        """Leave a campaign out from now on, for a minute."""
        self._until[campaign] = now + REST_S
        log.warning(
            "campaign %d is left out for %g s, since nothing can be claimed there: %s; "
            "PostgreSQL's log says more",
            campaign,
            REST_S,
            str(error).splitlines()[0][:300] if str(error) else type(error).__name__,
        )

    def left_out(self, now: float) -> Iterable[int]:
        """Return the campaigns that are left out now."""
        if self._until:
            self._until = {
                campaign: until for campaign, until in self._until.items() if until > now
            }
        return self._until.keys()

    def __contains__(self, campaign: int) -> bool:
        return campaign in self._until


def is_of_stored(error: Exception) -> bool:
    """Return whether stored data may have made a statement fail."""
    state = getattr(error, "sqlstate", None) or getattr(error.__cause__, "sqlstate", None) or ""
    return state.startswith(_CLASSES) or state in _CODES


def failure(task: Task, session: int, why: str) -> str:
    """Return the report for `settle` that fails a task for good; log one line."""
    log.warning(
        "task %d of campaign %d fails for good, since its payload cannot be read: %s",
        task.task,
        task.campaign,
        why,
    )
    report = {
        "task": task.task,
        "lease": task.lease,
        "session": session,
        "outcome": FAILED,
        "retry": False,
        "error_class": UNREADABLE_CLASS,
        "error": f"the payload cannot be read: {why}"[:MAX_ERROR_CHARS],
    }
    return json.dumps(report)
