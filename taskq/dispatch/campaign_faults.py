"""Errors on the way to the database: their translation, and those that stored data cause.

Campaigns whose claims make the server fail, and tasks whose payload nobody can read, must not stop
a farm. Such a campaign is left out for a minute, while the others are served. Such a task fails for
good. Each writes one line to the log.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from taskq.model.errors import SchemaError, ServerUnsuitable, SessionEnded, TaskqError, Unavailable
from taskq_agent.errors import Refused, SessionLost, TransportFailed
from taskq_agent.protocol import FAILED, MAX_ERROR_CHARS, Task


@contextmanager
def as_transport_errors() -> Iterator[None]:
    """Translate the queue's errors raised in the block.

    `TransportFailed`: repeat the call later. `SessionLost`: open a new session. `Refused`: do not
    repeat it.
    """
    try:
        yield
    except (Unavailable, ServerUnsuitable, SchemaError) as error:
        # An agent can only wait: an upgrade, for example, may have removed a function for a moment.
        raise TransportFailed(str(error)) from error
    except SessionEnded as error:
        raise SessionLost(str(error)) from error
    except TaskqError as error:
        raise Refused(str(error)) from error


PERIOD_S: Final = 60.0
MOST: Final = 3


class Seldom(logging.Filter):
    """Lets `MOST` records of a kind pass in a minute; the kind is the text without arguments.

    The first record of a kind after that says how many were left out.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._began_at = float("-inf")
        self._seen: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written."""
        now = self._clock()
        if now - self._began_at >= PERIOD_S:
            self._began_at = now
            self._seen.clear()
        kind = str(record.msg)
        self._seen[kind] += 1
        if self._seen[kind] > MOST:
            self._left_out[kind] += 1
            return False
        if left_out := self._left_out.pop(kind, 0):
            record.msg = f"{kind} (and {left_out} more like this before)"
        return True


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
            self._until = {one: until for one, until in self._until.items() if until > now}
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
