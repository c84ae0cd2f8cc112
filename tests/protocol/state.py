"""State of the model: the rows of the queue, the knowledge of agents, the messages under way.

All of it is immutable and can be hashed, so that a state is one key of a set.
"""

from __future__ import annotations

from typing import NamedTuple

WAITING, DELAYED, WORKING = "waiting", "delayed", "working"
DONE, FAILED, CANCELLED = "done", "failed", "cancelled"
RELEASED, LOST, SALVAGED, HEDGED = "released", "lost", "salvaged", "hedged"
REFUSED = "refused"
NOT_BEGUN = "not begun"
OUT_OF_TIME, TOO_LONG = "out of time", "too long"
ACCEPTED, DUPLICATE, SUPERSEDED, UNKNOWN = "accepted", "duplicate", "superseded", "unknown"
LIVE, EXPIRED, LEFT = "live", "expired", "left"

FINAL = frozenset({DONE, FAILED, CANCELLED})

#: The session of what is leased ahead; nobody's.
POOL = 0
#: Where there is no session or no lease.
NONE = -1


class Row(NamedTuple):
    """How an attempt ended, as the table of attempts tells it."""

    attempt: int
    lease: int
    session: int
    outcome: str


class Task(NamedTuple):
    """A row of the queue's; since: how many attempts had ended at the last retry by an operator.

    avoids: hosts on which it has failed. refused: how many refusals of it were noted.
    """

    status: str = WAITING
    attempt: int = 0
    lease: int = NONE
    session: int = NONE
    failures: int = 0
    losses: int = 0
    since: int = 0
    avoids: tuple[int, ...] = ()
    refused: int = 0
    rows: tuple[Row, ...] = ()


class Session(NamedTuple):
    """A session, of an agent whose token it was opened with.

    said: what its last heartbeat named, and whether it had begun.
    """

    agent: int
    status: str = LIVE
    said: tuple[tuple[int, int, bool], ...] = ()


class Run(NamedTuple):
    """An attempt in an agent's hand; said: the outcome in its report, "" while it runs.

    inherited: a killed process has left the report in the spool. begun: its program says so.
    """

    task: int
    lease: int
    attempt: int
    said: str = ""
    inherited: bool = False
    begun: bool = False


class Agent(NamedTuple):
    """What an agent knows; session: NONE while it is gone; call: the lease of the claim in the air.

    drawn: how many leases it has drawn. Its leases rise.
    """

    session: int
    drawn: int = 0
    call: int = NONE
    hand: tuple[Run, ...] = ()


class Claim(NamedTuple):
    """A request: give me a task under this lease."""

    session: int
    lease: int


class Report(NamedTuple):
    """A request: this attempt has ended so."""

    session: int
    task: int
    lease: int
    attempt: int
    outcome: str


class Beat(NamedTuple):
    """A request: I live, and have these in hand, of which some have begun."""

    session: int
    held: tuple[tuple[int, int], ...]
    pending: int
    drawn: int
    begun: frozenset[tuple[int, int]] = frozenset()


class Name(NamedTuple):
    """A gateway's request: this session has got what was leased ahead."""

    session: int
    task: int
    lease: int


class Stop(NamedTuple):
    """An answer to a beat: this lease is void."""

    session: int
    task: int
    lease: int


class Entry(NamedTuple):
    """A task leased ahead, in a list in Redis."""

    task: int
    lease: int
    attempt: int


Message = Claim | Report | Beat | Name | Stop


class State(NamedTuple):
    """All there is. sessions: the first is the pool's.

    sent: all requests that were ever sent and may still do something: the network loses, delays,
        repeats and reorders as it likes, so each may be carried out any number of times.
    entries: too all that were ever pushed and are young enough to be handed out.
    old: leases of the pool that were handed out so long ago that every beat names them by now.
    ahead: how many leases were drawn for the pool. crashes, words: how often an agent may still
        crash, and an operator speak. slow: a claim that has looked and not committed. look: what a
        keeper has read and not acted on. replica: what a standby knows, until it has taken over.
    began: which attempts have begun, as somebody who sees all would know.
    """

    tasks: tuple[Task, ...]
    sessions: tuple[Session, ...]
    agents: tuple[Agent, ...]
    sent: frozenset[Message] = frozenset()
    entries: frozenset[Entry] = frozenset()
    old: frozenset[int] = frozenset()
    ahead: int = 0
    crashes: int = 0
    words: int = 0
    slow: tuple[int, int, int] | None = None
    look: tuple[int, tuple[tuple[int, int], ...]] | None = None
    replica: tuple[tuple[Task, ...], tuple[Session, ...]] | None = None
    began: frozenset[tuple[int, int]] = frozenset()


class Bounds(NamedTuple):
    """How much of everything one exploration looks at.

    leases: that an agent draws. ahead: that are drawn for the pool. returns: sessions that are
    opened after the first of each agent. late: beats that are carried out later than they were
    written, and again. slow: claims that commit later than they have looked. look: keepers that act
    later than they have looked. failover: a standby that lags takes over, once, and what it has not
    heard of has never been. hedge: keepers that let a second attempt be made next to the first.
    leaving: agents that end their session. outcomes: what agents report.
    batch: tasks wait in their agent for each other, and it says which have begun.
    hosts: of each agent; what has failed on a host is for another, on which the spare one is.
    """

    tasks: int = 1
    agents: int = 2
    leases: int = 2
    max_attempts: int = 2
    max_losses: int = 2
    max_out_of_time: int = 2
    crashes: int = 0
    returns: int = 0
    words: int = 0
    ahead: int = 0
    late: bool = False
    slow: bool = False
    look: bool = False
    salvage: bool = False
    hedge: bool = False
    leaving: bool = False
    failover: bool = False
    batch: bool = False
    outcomes: tuple[str, ...] = (DONE, FAILED)
    hosts: tuple[int, ...] = ()


class Step(NamedTuple):
    """What happens between two states.

    fault: whether tasks must get on without it. said: the outcome in a report; note: its verdict.
    """

    kind: str
    agent: int = NONE
    task: int = NONE
    lease: int = NONE
    note: str = ""
    fault: bool = False
    session: int = NONE
    said: str = ""

    def __str__(self) -> str:
        words = [
            f"{name} {getattr(self, name)}"
            for name in ("agent", "session", "task", "lease")
            if getattr(self, name) != NONE
        ]
        notes = " ".join(note for note in (self.said, self.note) if note)
        return ", ".join([self.kind, *words]) + (f": {notes}" if notes else "")


def initial(bounds: Bounds) -> State:
    """Return where an exploration begins: all tasks wait, each agent has opened a session."""
    tasks = (Task(),) * bounds.tasks
    sessions = (Session(NONE), *(Session(agent) for agent in range(bounds.agents)))
    return State(
        tasks=tasks,
        sessions=sessions,
        agents=tuple(Agent(session) for session in range(1, bounds.agents + 1)),
        crashes=bounds.crashes,
        words=bounds.words,
        replica=(tasks, sessions) if bounds.failover else None,
    )


def put(state: State, number: int, task: Task) -> State:
    """Return the state with another row for a task."""
    tasks = state.tasks
    return state._replace(tasks=(*tasks[:number], task, *tasks[number + 1 :]))


def end(state: State, session: int, status: str) -> State:
    """Return the state with a session ended, unless it has ended before."""
    if state.sessions[session].status != LIVE:
        return state
    return with_session(state, session, status=status)


def with_session(state: State, session: int, **changes: object) -> State:
    """Return the state with a session changed."""
    sessions = list(state.sessions)
    sessions[session] = sessions[session]._replace(**changes)
    return state._replace(sessions=tuple(sessions))
