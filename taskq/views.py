"""What the queue tells: rows as plain values. Instants are aware datetimes, `_s` are seconds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Status:
    """How many tasks of a campaign stand where.

    state: open, paused or cancelled, by the campaign itself or one above it. paused_why: why it
    paused itself; None: it did not.
    children: campaigns directly below. failures, losses: attempts that failed or whose agent
    was lost, over all time.
    """

    campaign_id: int
    path: str
    state: str
    paused_why: str | None
    children: int
    waiting: int
    delayed: int
    working: int
    done: int
    failed: int
    cancelled: int
    failures: int
    losses: int

    @property
    def unfinished(self) -> int:
        """Tasks that are not final."""
        return self.waiting + self.delayed + self.working

    @property
    def total(self) -> int:
        """All tasks."""
        return self.unfinished + self.done + self.failed + self.cancelled


@dataclass(frozen=True, slots=True)
class TaskView:
    """Where a task stands. claimed_at and host: of the agent that works on it, if one does."""

    task_id: int
    key: str
    status: str
    priority: int
    attempt: int
    failures: int
    losses: int
    due_at: datetime | None
    claimed_at: datetime | None
    host: str | None
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """An accepted result and how it came about. phases: seconds by phase."""

    task_id: int
    key: str
    attempt: int
    claimed_at: datetime
    ended_at: datetime
    agent: str
    host: str
    site: str
    phases: dict[str, float] | None
    payload: dict[str, Any]
    result: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed task with its last attempt, if that is known."""

    task_id: int
    key: str
    attempt: int | None
    claimed_at: datetime | None
    ended_at: datetime | None
    agent: str | None
    host: str | None
    site: str | None
    phases: dict[str, float] | None
    payload: dict[str, Any]
    outcome: str | None
    error_class: str | None
    error: str | None
    exit_code: int | None


@dataclass(frozen=True, slots=True)
class FailureCause:
    """Attempts that failed, were lost or were refused alike, with the latest as an example.

    cause: the message that they share, numbers in it as `#`; where that tells no more than how the
    program ended, with the last line of its output. causes: how many such groups the campaign has.
    hosts: on how many; some_hosts: how many attempts on which, the five with most of them at most.
    example_line: the last line of output.
    """

    error_class: str
    cause: str
    attempts: int
    tasks: int
    causes: int
    last_at: datetime
    hosts: int
    some_hosts: dict[str, int]
    example_task: int
    example_key: str
    example_error: str | None
    example_line: str | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt that ended. tail: the end of what the payload wrote."""

    attempt: int
    outcome: str
    claimed_at: datetime
    ended_at: datetime
    agent: str
    host: str
    site: str
    exit_code: int | None
    error_class: str | None
    error: str | None
    phases: dict[str, float] | None
    result: dict[str, Any] | None
    tail: str | None


@dataclass(frozen=True, slots=True)
class AgentView:
    """An open session. silent_s: since its last beat. working: attempts in its hands.

    offers: the tags of what its node has. draining: whether it shall leave when what it has in hand
    has ended. token: the name of the one that opened it; None: opened beside the database. trouble:
    as its last beat told: `failures` in a row, all fast, the last with `error_class`, so that it
    makes one attempt at a time, the next `try_in_s` after that beat; None: all is well. suspect:
    why its host is taken for a bad one, so that it is slowed as well; None: it is not.
    """

    session_id: int
    agent: str
    host: str
    site: str
    pid: int
    slots: int
    release: str
    offers: list[str]
    path: str
    opened_at: datetime
    silent_s: float
    working: int
    draining: bool
    token: str | None
    trouble: dict[str, Any] | None
    suspect: str | None


@dataclass(frozen=True, slots=True)
class LeftAgent:
    """A session that has ended. reason, exit_code: as its agent has told; None: it has not.

    expired: it fell silent, and was given up.
    """

    session_id: int
    agent: str
    host: str
    site: str
    pid: int
    slots: int
    release: str
    path: str
    opened_at: datetime
    ended_at: datetime
    reason: str | None
    exit_code: int | None
    expired: bool


@dataclass(frozen=True, slots=True)
class Refusals:
    """A campaign that agents cannot run, or could not before it was changed.

    hosts: on how many within the day, some_hosts: five of them at most; 0: it has been changed or
    opened since. last_at, error_class, error: of the last time; None where there are no hosts.
    """

    path: str
    hosts: int
    some_hosts: list[str] | None
    last_at: datetime | None
    error_class: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class LeftOver:
    """Tasks that are unfinished; of them, those that no agent can be given, and why not.

    reasons: such as "/demo has no handler", for the campaigns with most tasks.
    """

    unfinished: int
    unservable: int
    reasons: list[str]


@dataclass(frozen=True, slots=True)
class Brake:
    """That many agents are silent at a time, which is taken for an outage: their tasks are held.

    silent, open: agents that are silent, of those that are open. heard_at: when the first was heard
    again; until: when those expire that stay silent. Both None while none is heard.
    """

    since: datetime
    heard_at: datetime | None
    until: datetime | None
    silent: int
    open: int


@dataclass(frozen=True, slots=True)
class Violation:
    """Something in the tables that breaks a promise of the queue.

    check: the name of a file in `sql/audit`, which says what is promised. task_id: None: it is
    about the campaign. rows: what the tables have: of a task its key, its row and those of its
    attempts, without what was to be done and what came out; of a campaign what is counted and
    what was found.
    """

    campaign: str
    check: str
    task_id: int | None
    text: str
    rows: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was done to bring a crashed farm back.

    sessions: silent ones that were ended. sessions_left, tasks_left: passed over, since they were
    just being heard, or reported. braked: whether the tasks of other silent agents are still held.
    campaigns: objects with `path`, and the numbers of tasks `handed_out` and `retried`, by path.
    """

    sessions: int
    sessions_left: int
    tasks_left: int
    braked: bool
    campaigns: list[dict[str, Any]]
