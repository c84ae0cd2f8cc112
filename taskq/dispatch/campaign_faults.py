"""Errors that stored data cause.

Campaigns whose claims make the server fail, and tasks whose payload nobody can read, must not stop
a farm. Such a campaign is left out for a second, each time that this repeats itself for twice as
long, while the others are served: a limit of time that was met says little of a campaign, and ends
with its cause. Such a task fails for good. Each writes one line to the log.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable
from typing import Final

from taskq.dispatch.seldom import Seldom
from taskq_agent.backoff import CampaignBackoff
from taskq_agent.protocol import FAILED, MAX_ERROR_CHARS, Task

log = logging.getLogger(__name__)
log.addFilter(Seldom())

#: Seconds for which a campaign is left out at first, more or less; at most 60 times as long.
FIRST_REST_S: Final = 1.0
UNREADABLE_CLASS: Final = "payload-unreadable"
#: PostgreSQL's classes of errors that stored data may cause: limits, damage; and the codes of
#: statements that take too long or too much memory. Not a full disk, wrong messages, lost
#: connections.
_CLASSES: Final = ("54", "XX")
_CODES: Final = frozenset({"53200", "57014"})


class CampaignFaults:
    """The campaigns that one process leaves out."""

    def __init__(self, uniform: Callable[[], float] = random.random) -> None:
        self._pauses = CampaignBackoff(FIRST_REST_S, uniform)

    def note(self, campaign: int, error: Exception, now: float) -> None:
        """Leave a campaign out from now on: for twice as long as the last time, if that was all."""
        seconds = self._pauses.refused(campaign, 0, now, now)
        if seconds is None:
            return  # its other calls were under way
        log.warning(
            "campaign %d is left out for %.0f s, since nothing can be claimed there: %s; "
            "PostgreSQL's log says more",
            campaign,
            seconds,
            str(error).splitlines()[0][:300] if str(error) else type(error).__name__,
        )

    def answered(self, campaign: int) -> None:
        """Note that claims in a campaign had an answer: it is not left out any more."""
        self._pauses.ran(campaign)

    def left_out(self, now: float) -> set[int]:
        """Return the campaigns that are left out now."""
        return self._pauses.paused(now)


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
