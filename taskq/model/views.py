"""Rows that the queue returns, as frozen dataclasses.

Instants are aware datetimes; names that end in `_s` are seconds. `campaign` is the path of one.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime
from typing import Any

from taskq.model.words import counted


@dataclass(frozen=True, slots=True)
class Status:
    """Counts of a campaign's tasks by status.

    Attributes:
        state: Open, paused or cancelled, by the campaign itself or one above it.
        paused_why: Why the campaign paused itself; None if it did not.
        children: Number of campaigns directly below.
        failures: Attempts that failed, in all.
        losses: Attempts whose agent was lost, in all.
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

    @property
    def final(self) -> int:
        """Tasks that will not change any more."""
        return self.total - self.unfinished

    @property
    def final_share(self) -> str:
        """How much is final, in words; 100 only if all is, empty if there are no tasks."""
        return f"{self.final * 1000 // self.total / 10:.1f} %" if self.total else ""

    @property
    def finished(self) -> bool:
        """Whether there are tasks, and all of them are final."""
        return self.total > 0 and not self.unfinished


@dataclass(frozen=True, slots=True)
class AgentCounts:
    """How many agents are at work, on how many hosts, with how many slots.

    silent_s: of the one that is silent for longest; None if there are no agents. late: agents that
    have missed two heartbeats; lost_after_s: seconds of silence after which the first of them
    counts as lost.
    """

    agents: int
    hosts: int
    slots: int
    silent_s: float | None
    late: int
    lost_after_s: float | None


@dataclass(frozen=True, slots=True)
class SecondAttempt:
    """A task that was hedged, and is at work again.

    host, run_s: of the attempt at work. first_host, first_run_s: of the attempt that was slow,
    which may have ended.
    """

    campaign: str
    key: str
    host: str
    run_s: float
    first_host: str
    first_run_s: float


@dataclass(frozen=True, slots=True)
class Hedges:
    """Second attempts of tasks. hedged: tasks that have had one; running: those at work again.

    longest: ten of the running ones at most, those whose first attempt began first.
    """

    hedged: int
    running: int
    longest: list[SecondAttempt]


@dataclass(frozen=True, slots=True)
class TaskView:
    """State of a task.

    Attributes:
        failures: Since it was last retried; for a task that is done, of all its attempts.
        losses: The same for attempts whose agent was lost.
        claimed_at: When the agent that works on it claimed it; None without an agent.
        host: Host of that agent.
        progress: From 0 to 1, as its agent's heartbeats report; with `progress_note` in words.
        share: What it has of its node, as the last heartbeat said: `devices` with the part of each,
            and amounts of named `resources`. Of tasks that begin together, the first has it. None
            if that is nothing.
    """

    campaign: str
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
    _: KW_ONLY
    progress: float | None = None
    progress_note: str | None = None
    share: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """An accepted result and its attempt, with seconds by phase.

    Attributes:
        recipe: As of `Attempt`.
    """

    campaign: str
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
    recipe: int | None


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed task with its last attempt, whose fields are None if it was not recorded."""

    campaign: str
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
    """One of `causes` groups of failed, lost or refused attempts; the latest is the example.

    Attributes:
        cause: The common message, with numbers replaced by `#`; if it only says how the program
            ended, the last line of its output follows.
        some_hosts: Attempts by host, for the five hosts with most attempts.
        example_line: The last line of output.
    """

    campaign: str
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
    """An attempt that has ended, with seconds by phase and the end of its output as `tail`.

    Attributes:
        recipe: By which of its campaign's recipes it ran, see `Campaign.changes`; None: nobody has
            reported it.
    """

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
    recipe: int | None


@dataclass(frozen=True, slots=True)
class AgentView:
    """An open session. silent_s: since its last heartbeat. working: attempts that it holds.

    together: of these, those that share starts, as its last heartbeat says. begun: of them, those
    that have begun; None if its programs do not say that.
    offers: the tags of its node. draining: whether it leaves when its attempts have ended. token:
    the name of the token that opened it; None for a direct agent. A manager's token counts only
    attempts of its campaigns, and sees only the names of tokens for no others. trouble: why it
    makes one attempt at a time: `failures` in a row, all fast, the last with `error_class`; the
    next `try_in_s` after its last heartbeat; None if it does not. warnings: words, see
    `taskq_agent.protocol`; cause: what it got in place of an answer, where a warning is about that,
    else empty. suspect: why its host is suspicious, which slows it too; None if it is not. lease_s:
    seconds of silence after which it counts as lost; expires_at: when, if none comes. banned: why a
    ban drains it. shares: what its slots have of its node, as its last heartbeat said, each with
    `slot`, `path` (of the campaign), `devices` and `resources` as of `TaskView.share`.
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
    together: int
    begun: int | None
    draining: bool
    token: str | None
    trouble: dict[str, Any] | None
    warnings: list[str]
    cause: str
    suspect: str | None
    lease_s: float
    expires_at: datetime
    banned: str | None
    shares: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class LeftAgent:
    """A session that has ended. reason, exit_code: as its agent reported; None if it did not.

    expired: whether it ended because its agent was silent for longer than the lease.
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
    """A campaign that agents cannot run, or could not run before it was changed.

    hosts: number of hosts within the last day; 0 if the campaign was changed or opened since.
    some_hosts: five of them at most. last_at, error_class, error: of the last refusal; None if
    there are no hosts.
    """

    path: str
    hosts: int
    some_hosts: list[str] | None
    last_at: datetime | None
    error_class: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class LeftOver:
    """Counts of unfinished tasks, and of those that no agent can claim, with reasons.

    reasons: such as "/demo has no handler", for the campaigns with most tasks.
    """

    unfinished: int
    unservable: int
    reasons: list[str]


@dataclass(frozen=True, slots=True)
class Brake:
    """Hold on expiry: so many agents are silent at a time that it looks like an outage.

    silent, open: number of silent agents, and of open sessions; None for a manager's token that is
    not for the whole queue. heard_at: when the first of them
    was heard again; until: when those that stay silent expire. Both None while none is heard.
    """

    since: datetime
    heard_at: datetime | None
    until: datetime | None
    silent: int | None
    open: int | None

    def seen(self, *, whole: bool) -> Brake:
        """Return what a caller sees who may see the whole queue, or not."""
        return self if whole else replace(self, silent=None, open=None)

    @property
    def extent(self) -> str:
        """How many agents are silent, in words."""
        if self.silent is None or self.open is None:
            return "many of the queue's agents"
        return f"{self.silent:,} of {counted(self.open, 'agent')}"


@dataclass(frozen=True, slots=True)
class Recovery:
    """Result of the recovery of a crashed farm.

    sessions: silent sessions that were ended. sessions_left, tasks_left: left alone, since other
    transactions (a heartbeat or a report) had locked them. braked: whether the tasks of other
    silent agents are still held. campaigns: objects with `path`, and the numbers of tasks
    `handed_out` and `retried`, ordered by path.
    """

    sessions: int
    sessions_left: int
    tasks_left: int
    braked: bool
    campaigns: list[dict[str, Any]]
