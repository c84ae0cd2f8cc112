"""Events that the agent's core handles, and actions that it returns.

Messages of the protocol are among both. A `Hello` is the order to open a session, a `Request` the
order to exchange. A `Welcome`, an `Answer` or `CallFailed` is its outcome.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Tuple, Union

from taskq_agent.errors import TransportError
from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import Answer, CampaignTerms, Held, Hello, Orders, Request, Task, Welcome


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

    suspect: see `HeartbeatAnswer`.
    """

    session: int
    orders: Orders
    timeline: int = 0
    suspect: str = ""


@dataclass(frozen=True)
class StopOrdered:
    """The queue reports that the lease of this attempt is no longer valid."""

    held: Held


@dataclass(frozen=True)
class TaskEnded:
    """The attempt in this slot has ended."""

    slot: int
    ended: Ended


@dataclass(frozen=True)
class CallsEnded:
    """The first attempts of this slot have ended, in order.

    unbegun: how many of the last ones have not begun and never will. apart: tasks of this campaign
    should start one by one.
    """

    slot: int
    ends: Tuple[Ended, ...]
    unbegun: int = 0
    apart: bool = False


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
    TaskEnded,
    CallsEnded,
    TermSignal,
    AgentFailed,
    Woken,
    Tick,
]


@dataclass(frozen=True)
class CloseSession:
    """Call `close` with a reason and an exit code; the result is Closed or CallFailed."""

    session: int
    reason: str = ""
    exit_code: int = 0


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
    TaskEnded for one after which the slot cannot run those behind it.
    """

    slot: int
    task: Task
    campaign: CampaignTerms
    behind: Tuple[Task, ...] = ()

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
