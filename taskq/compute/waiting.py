"""Waiting for tasks to end: looks with pauses, progress shown meanwhile, and warnings."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from taskq.campaign.campaign import Campaign
from taskq.compute.call_waits import LOOK_S, CallWaits
from taskq.compute.progress import Show
from taskq.compute.tracker import EndedCall, Pauses, Tracker
from taskq.db.access import Queries
from taskq.model.errors import CampaignPaused
from taskq.model.pauses import sleep
from taskq_agent.text import clean

if TYPE_CHECKING:
    from taskq.compute.local_agents import LocalAgents

#: Seconds without an end and without work after which to warn.
QUIET_S: Final = 10.0
#: Most agents to read; if there are so many, one of them can work.
_AGENTS: Final = 100


class Deadline:
    """A moment at which waiting ends; seconds: from now; None means never."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._at = None if seconds is None else time.monotonic() + seconds

    def pause(self, seconds: float, what: str, news: threading.Event | None = None) -> None:
        """Sleep until there are news, at most to the deadline; raise `TimeoutError` behind it."""
        if self._at is not None:
            left = self._at - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{what} after {self._seconds:g} s")
            seconds = min(seconds, left)
        sleep(seconds, news)


def ended(
    database: Queries,
    tracker: Tracker,
    deadline: Deadline,
    show: Show,
    agents: list[LocalAgents],
) -> Iterator[list[EndedCall]]:
    """Yield tasks as they end, until none is pending.

    agents: agents of this machine; raise `AgentsDied` if they die. Raise `TimeoutError` at the
    deadline, and the errors of `Tracker.look`.
    """
    pauses, complaints = Pauses(), Complaints(database, tracker.path)
    news = threading.Event()
    waits = CallWaits(database, news.set)
    while tracker.pending:
        news.clear()
        lacking, brought = waits.take()
        found = [end for _, some in brought for end in some if tracker.pending.discard(end.task)]
        found = found or tracker.look(reported=lacking)
        show(tracker.status)
        if found:
            complaints.quiet_since = time.monotonic()
            yield found
        if not tracker.pending:
            return
        for agent in agents:
            agent.check()
        complaints.look(working=tracker.is_working)
        left = len(tracker.pending)
        pause_s = pauses.next_s(found=bool(found))
        pause_s = LOOK_S if waits.cover([tracker]) else pause_s
        deadline.pause(pause_s, f"{tracker.path}: {left:,} tasks unfinished", news)


def pausing(
    database: Queries,
    campaign: Campaign,
    deadline: Deadline,
    show: Show,
    agents: list[LocalAgents],
) -> Callable[[float], None]:
    """Return a function that looks at the campaign's own tasks, then sleeps; see `ended`."""
    complaints = Complaints(database, campaign.path)

    def pause(seconds: float) -> None:
        status = campaign.status(below=False)
        show(status)
        if status.paused_why is not None and not status.working:
            raise CampaignPaused(campaign.path, status.paused_why)
        for agent in agents:
            agent.check()
        complaints.look(working=status.working > 0)
        deadline.pause(seconds, f"{campaign.path}: {status.unfinished:,} tasks unfinished")

    return pause


class Complaints:
    """Warns, once for each reason, why nobody works on a campaign."""

    def __init__(self, database: Queries, path: str) -> None:
        self.quiet_since = time.monotonic()
        self._database = database
        self._path = path
        self._said: set[str] = set()

    def look(self, *, working: bool) -> None:
        """Warn if the campaign has been quiet for long, and there is a reason."""
        now = time.monotonic()
        if working:
            self.quiet_since = now
        if now - self.quiet_since < QUIET_S:
            return
        self.quiet_since = now
        text = _complaint(self._database, self._path)
        if text is not None and text not in self._said:
            self._said.add(text)
            warnings.warn(clean(text), stacklevel=5)


def _complaint(database: Queries, path: str) -> str | None:
    """Return why nobody works on a campaign; None if somebody can."""
    for row in database.rows("refusals", path=path):
        if row["hosts"] and row["path"] == path:
            return f"agents cannot run {path}: {row['error_class']}: {row['error']}"
    agents = database.rows("agents", path=path, limit=_AGENTS)
    if not agents:
        return (
            f"no agent serves {path}: run `taskq agent run` somewhere, or wait within "
            "`with taskq.local_agents(queue, slots=8):`"
        )
    slowed = [agent for agent in agents if agent["trouble"] or agent["suspect"]]
    if len(slowed) == len(agents) < _AGENTS:
        why = slowed[0]["suspect"] or "attempts that failed within seconds"
        return f"all agents that serve {path} are slowed: {why} (`taskq agent list`)"
    return None
