"""Events that the agent's core handles, and actions that it returns.

Messages of the protocol are among both. A `Hello` is the order to open a session, a `Request` the
order to exchange. A `Welcome`, an `Answer` or `CallFailed` is its outcome.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Optional, Tuple, Union

from taskq_agent.campaign_news import CampaignBan
from taskq_agent.errors import TransportError
from taskq_agent.handlers.base import Ended
from taskq_agent.held_claims import LeftOfClaim
from taskq_agent.protocol import (
    SILENT_END,
    Answer,
    CampaignTerms,
    Held,
    Hello,
    Orders,
    Request,
    SessionEnd,
    Task,
    Welcome,
)
from taskq_agent.room import Grant


@dataclass(frozen=True)
class Closed:
    """The session was closed."""


@dataclass(frozen=True)
class CallFailed:
    """The call in flight, of any kind, failed."""

    error: TransportError


@dataclass(frozen=True)
class HeartbeatFailed:
    """A heartbeat was rejected with SessionLost or Refused.

    A heartbeat without an answer is not an event.
    """

    session: int
    error: TransportError


@dataclass(frozen=True)
class HeartbeatAnswered:
    """A heartbeat of this session was answered, with these orders, by a server of this timeline.

    suspect, banned, stamp: see `HeartbeatAnswer`.
    """

    session: int
    orders: Orders
    timeline: int = 0
    suspect: str = ""
    banned: Tuple[CampaignBan, ...] = ()
    stamp: str = ""


@dataclass(frozen=True)
class StopOrdered:
    """The queue reports that the lease of this attempt is no longer valid."""

    held: Held


@dataclass(frozen=True)
class OthersStopOrdered:
    """The queue reports which tasks of a claim are left; the leases of the others are invalid."""

    left: LeftOfClaim


@dataclass(frozen=True)
class TaskEnded:
    """The attempt in this slot has ended."""

    slot: int
    ended: Ended


@dataclass(frozen=True)
class CallsEnded:
    """The first attempts of this slot have ended, in order.

    unbegun: how many of the last ones have no end, and need to begin, or to begin anew. apart:
    tasks of this campaign should start one by one.
    """

    slot: int
    ends: Tuple[Ended, ...]
    unbegun: int = 0
    apart: bool = False


@dataclass(frozen=True)
class BatchMoved:
    """Attempts of this slot, which began together, have ended, in any order.

    over: whether the slot is free. too_large_as: the class as which starts have failed, so that
    fewer should begin together from now on; empty if that went well; None if this batch shows
    neither. begun: those that have begun since the last time, as their program says; None: it
    starts anew, and none has begun.
    """

    slot: int
    campaign: CampaignTerms
    ends: Tuple[Tuple[Held, Ended], ...]
    over: bool = False
    too_large_as: Optional[str] = None
    begun: Optional[Tuple[Held, ...]] = ()


@dataclass(frozen=True)
class ResultStored:
    """The result that a report waited for is at the queue, or never will be: why not."""

    held: Held
    refusal: Optional[str]


@dataclass(frozen=True)
class TermSignal:
    """The agent must shut down; the second time, at once.

    patience_s: within so many seconds of the first one, this one counts as the same signal.
    """

    patience_s: float = 0.0


@dataclass(frozen=True)
class AgentFailed:
    """A part of the agent itself has failed, so that it must not go on."""

    what: str


@dataclass(frozen=True)
class Woken:
    """There may be tasks now: claim without waiting for the end of a pause."""


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


Event = Union[
    Welcome,
    Answer,
    Closed,
    CallFailed,
    HeartbeatFailed,
    HeartbeatAnswered,
    StopOrdered,
    OthersStopOrdered,
    TaskEnded,
    CallsEnded,
    BatchMoved,
    ResultStored,
    TermSignal,
    AgentFailed,
    Woken,
    Tick,
]


@dataclass(frozen=True)
class CloseSession:
    """Call `close`; the result is Closed or CallFailed."""

    session: int
    end: SessionEnd = SILENT_END


@dataclass(frozen=True)
class CancelExchange:
    """Make this long poll, which is in flight, end soon."""

    request: Request


Call = Union[Hello, Request, CloseSession]


@dataclass(frozen=True)
class StartHeartbeats:
    """Send heartbeats for this session from now on, and for no other."""

    welcome: Welcome


@dataclass(frozen=True)
class StartTask:
    """Run this task in this slot, which is idle; the result is TaskEnded.

    behind: short calls of a function to run after it; the result for these is CallsEnded, and
    TaskEnded for one after which the slot cannot run those behind it. Where the campaign has
    batches: the tasks that begin with it; the result is BatchMoved, once or several times. grant:
    what the start has of the node, if its campaign needs something that is counted.
    """

    slot: int
    task: Task
    campaign: CampaignTerms
    behind: Tuple[Task, ...] = ()
    grant: Optional[Grant] = None

    @property
    def tasks(self) -> Tuple[Task, ...]:
        """All tasks, in order."""
        return (self.task, *self.behind)


@dataclass(frozen=True)
class TakeBack:
    """Give back the tasks of this slot that have not begun; CallsEnded follows, if any."""

    slot: int


@dataclass(frozen=True)
class StopTask:
    """Make the attempt in this slot end soon. May be repeated; TaskEnded still follows."""

    slot: int


@dataclass(frozen=True)
class SpoolReport:
    """Store this report, one line of JSON, until ForgetReports names it."""

    held: Held
    line: bytes


@dataclass(frozen=True)
class ForgetReports:
    """Remove these reports from the spool: they have their verdicts."""

    reports: Tuple[Held, ...]


@dataclass(frozen=True)
class LogMessage:
    """Log this, with the arguments of `logging.Logger.log`."""

    level: int
    text: str
    args: Tuple[Any, ...] = ()


@dataclass(frozen=True)
class Exit:
    """End the agent; the core handles no further event."""

    code: int
    reason: str


Action = Union[
    Hello,
    Request,
    CloseSession,
    CancelExchange,
    StartHeartbeats,
    StartTask,
    TakeBack,
    StopTask,
    SpoolReport,
    ForgetReports,
    LogMessage,
    Exit,
]


class Outbox:
    """Collects the actions that follow from one event; the parts of the core share it."""

    def __init__(self) -> None:
        self._actions: List[Action] = []

    def add(self, *actions: Action) -> None:
        """Append actions."""
        self._actions += actions

    def log(self, level: int, text: str, *args: object) -> None:
        """Append a log message."""
        self._actions.append(LogMessage(level, text, args))

    def take_all(self) -> List[Action]:
        """Return all actions and empty the outbox."""
        actions, self._actions = self._actions, []
        return actions
