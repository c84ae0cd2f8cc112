"""What the agent's core is told, and what it wants done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Tuple, Union

from taskq_agent.errors import TransportError
from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import Answer, CampaignTerms, Held, Hello, Orders, Request, Task, Welcome


@dataclass(frozen=True)
class Opened:
    """The session asked for is open."""

    welcome: Welcome


@dataclass(frozen=True)
class AnswerArrived:
    """The exchange that was in the air is answered."""

    answer: Answer


@dataclass(frozen=True)
class Closed:
    """The session is closed."""


@dataclass(frozen=True)
class CallFailed:
    """The call that was in the air, of whichever kind, did not succeed."""

    error: TransportError


@dataclass(frozen=True)
class HeartbeatFailed:
    """A beat was turned away: SessionLost or Refused. One without an answer is no event."""

    session: int
    error: TransportError


@dataclass(frozen=True)
class HeartbeatAnswered:
    """A beat of this session was answered, with these orders, by a server of this timeline.

    suspect: see `BeatAnswer`.
    """

    session: int
    orders: Orders
    timeline: int = 0
    suspect: str = ""


@dataclass(frozen=True)
class StopOrdered:
    """The queue says that the lease of this attempt is void."""

    held: Held


@dataclass(frozen=True)
class TaskEnded:
    """The attempt in this slot has ended."""

    slot: int
    ended: Ended


@dataclass(frozen=True)
class TermSignal:
    """Somebody asks the agent to leave; a second time, to leave at once."""


@dataclass(frozen=True)
class AgentFailed:
    """A part of the agent itself has failed; going on would only look alive."""

    what: str


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


Event = Union[
    Opened,
    AnswerArrived,
    Closed,
    CallFailed,
    HeartbeatFailed,
    HeartbeatAnswered,
    StopOrdered,
    TaskEnded,
    TermSignal,
    AgentFailed,
    Tick,
]


@dataclass(frozen=True)
class OpenSession:
    """Call `open`; answer with Opened or CallFailed."""

    hello: Hello


@dataclass(frozen=True)
class SendExchange:
    """Call `exchange`; answer with AnswerArrived or CallFailed."""

    request: Request


@dataclass(frozen=True)
class CloseSession:
    """Call `close`, saying why and with which exit code; answer with Closed or CallFailed."""

    session: int
    reason: str = ""
    exit_code: int = 0


@dataclass(frozen=True)
class CancelExchange:
    """Let this exchange, which is in the air and may be kept waiting there, end soon."""

    request: Request


Call = Union[OpenSession, SendExchange, CloseSession]


@dataclass(frozen=True)
class StartHeartbeats:
    """Beat for this session from now on, and for no other."""

    welcome: Welcome


@dataclass(frozen=True)
class StartTask:
    """Run this task in this slot, which is idle; answer with TaskEnded."""

    slot: int
    task: Task
    campaign: CampaignTerms


@dataclass(frozen=True)
class StopTask:
    """Make the attempt in this slot end soon. May come again; TaskEnded still follows."""

    slot: int


@dataclass(frozen=True)
class SpoolReport:
    """Keep this report, one line of JSON, until it is forgotten."""

    held: Held
    line: bytes


@dataclass(frozen=True)
class ForgetReports:
    """These reports have their verdicts."""

    reports: Tuple[Held, ...]


@dataclass(frozen=True)
class LogMessage:
    """Log this, in the manner of `logging.Logger.log`."""

    level: int
    text: str
    args: Tuple[Any, ...] = ()


@dataclass(frozen=True)
class Exit:
    """All is over; the core wants no further event."""

    code: int
    reason: str


Action = Union[
    OpenSession,
    SendExchange,
    CloseSession,
    CancelExchange,
    StartHeartbeats,
    StartTask,
    StopTask,
    SpoolReport,
    ForgetReports,
    LogMessage,
    Exit,
]


class Outbox:
    """The actions that follow from one event; the parts of the core share it."""

    def __init__(self) -> None:
        self._actions: List[Action] = []

    def add(self, *actions: Action) -> None:
        """Want these done, after all that is wanted already."""
        self._actions += actions

    def log(self, level: int, text: str, *args: object) -> None:
        """Want a line logged."""
        self._actions.append(LogMessage(level, text, args))

    def take_all(self) -> List[Action]:
        """Return all that is wanted, and forget it."""
        actions, self._actions = self._actions, []
        return actions
