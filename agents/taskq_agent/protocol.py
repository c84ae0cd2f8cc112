"""Messages between agent and queue: plain values, the same in process and over HTTP.

One exchange is one round trip: it reports ended attempts and claims new tasks. A heartbeat, sent
from a thread of its own, keeps the session alive and names what the agent holds. Every request is
idempotent and may be repeated unchanged: a session is identified by a key that the agent draws, a
claim by its lease id, a report by (task, lease id).

Messages are immutable by convention. A gateway makes thousands of some of them per second; those
are not frozen, since making a frozen one takes three times as long.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, is_dataclass
from typing import Any, Callable, Mapping, Optional, Tuple

from taskq_agent.text import json_encoder

PROTOCOL = 1

DONE = "done"
FAILED = "failed"
RELEASED = "released"
OUTCOMES = (DONE, FAILED, RELEASED)

#: Class of a release because the agent had no time left: the queue counts these.
OUT_OF_TIME = "out-of-time"
#: Class of a release because the handler has said that another attempt goes on; also counted.
CONTINUED = "continued"
#: Class of the failure into which the queue turns a release when there are too many of these.
TOO_LONG = "too-long"
#: Class of a failure because the attempt has taken more memory than its campaign allows.
OUT_OF_MEMORY = "out-of-memory"
TIME_LIMIT = "time-limit"
#: Class of a failure because the output files are larger than what the campaign keeps.
OUTPUT_TOO_LARGE = "output-too-large"

ACCEPTED = "accepted"
DUPLICATE = "duplicate"
SUPERSEDED = "superseded"
UNKNOWN = "unknown"

CONTINUE = "continue"
STOP = "stop"

RESULT_REFERENCE = "taskq_blob"  # the only name in a reference to a result that is stored as a blob
#: Nesting of objects and arrays in a result.
MAX_DEPTH = 100
MAX_RESULT_BYTES = 262_144
MAX_TAIL_BYTES = 8_192
MAX_ERROR_CHARS = 2_000
MAX_CLAIM = 1_000
MAX_WITHOUT = 16


@dataclass(frozen=True)
class Hello:
    """Request of an agent for a session; `key` makes the call repeatable.

    offers: tags, `NAME` or `NAME=VALUE`, for campaigns that require some.
    """

    key: str
    campaign: str
    name: str
    host: str
    pid: int
    site: str
    slots: int
    release: str
    offers: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Welcome:
    """The opened session, and its intervals.

    The session expires `lease_s` seconds after the last heartbeat that arrived. token: the
    session's credential for a gateway; a secret. now: the queue's clock, in seconds since 1970; 0
    means unknown.
    """

    session: int
    heartbeat_s: float
    lease_s: float
    token: str = field(default="", repr=False)
    now: float = 0.0


@dataclass(frozen=True)
class Input:
    """A file that all tasks of a campaign share. digest: its SHA-256, in hex; size: in bytes."""

    digest: str
    size: int


@dataclass(frozen=True)
class CampaignTerms:
    """Properties that the tasks of one campaign share. A change raises `revision`.

    inputs: shared files by name. on_disconnect: what an agent does with running tasks once its
    session must have expired unheard: `continue` (the fence decides) or `stop`. checkpoint_bytes:
    largest checkpoint of a task; None if none is kept. checkpoint_every_s: seconds between uploads.
    cores, gpus: what a task needs; None means what a slot has. memory: bytes that it may occupy at
    first, then after each time that it has run out of memory; empty means any number. output_bytes:
    largest output files of a task; None if none are kept.
    """

    campaign: int
    revision: int
    path: str
    handler: Mapping[str, Any]
    params: Mapping[str, Any]
    time_limit_s: Optional[float]
    inputs: Mapping[str, Input] = field(default_factory=dict)
    on_disconnect: str = CONTINUE
    checkpoint_bytes: Optional[int] = None
    checkpoint_every_s: float = 600.0
    cores: Optional[int] = None
    memory: Tuple[int, ...] = ()
    gpus: Optional[int] = None
    output_bytes: Optional[int] = None


@dataclass
class Task:
    """One attempt to execute; (task, lease) is its fence."""

    campaign: int
    revision: int
    task: int
    key: str
    attempt: int
    lease: str
    payload: Mapping[str, Any]


@dataclass(frozen=True)
class Held:
    """The fence of an attempt that the agent holds."""

    campaign: int
    task: int
    lease: str


@dataclass(frozen=True)
class Report:
    """The end of an attempt.

    outcome: `done`, `failed` or `released` (handed back: counts neither as failure nor as loss).
    retry: for `failed`: whether a further attempt may help.
    started: for `released`: whether the handler had begun.
    refused: for `released`: the campaign cannot run where this agent is; `error` says why.
    phases: seconds spent by phase, such as `wait_s`, `prepare_s`, `run_s`.
    """

    campaign: int
    task: int
    lease: str
    outcome: str
    result: Optional[Mapping[str, Any]] = None
    retry: bool = True
    started: bool = True
    error_class: Optional[str] = None
    error: Optional[str] = None
    exit_code: Optional[int] = None
    tail: Optional[str] = None
    phases: Mapping[str, float] = field(default_factory=dict)
    refused: bool = False


@dataclass
class Ack:
    """The verdict on a report: accepted, duplicate, superseded or unknown. All are final."""

    campaign: int
    task: int
    lease: str
    verdict: str


@dataclass(frozen=True)
class Request:
    """One exchange: report ended attempts, claim up to `want` tasks under the id `lease`.

    lifetime_s: seconds that this agent will still live; tasks with a longer time limit are not
    given. None means no limit.
    wait_s: long poll: for how many seconds the answer may be delayed while there is nothing to
    claim, for a session that holds nothing else. A gateway supports that, and counts it as a
    heartbeat with nothing held; a database does not.
    until_empty: do not delay the answer if nothing is left unfinished.
    ahead: whether tasks leased ahead may be given, under leases of their own; and, if the database
    is away, tasks without verdicts on the reports, which the agent sends again later.
    without: campaigns, as (campaign, revision), to claim nothing in for as long as they have this
    revision: the agent cannot run them. `MAX_WITHOUT` at most.
    """

    session: int
    reports: Tuple[Report, ...] = ()
    want: int = 0
    lease: str = ""
    lifetime_s: Optional[float] = None
    wait_s: float = 0.0
    until_empty: bool = False
    ahead: bool = False
    without: Tuple[Tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Orders:
    """Orders of the queue to an agent, sent with an answer.

    drain: claim no more, and shut down when the held tasks have ended. elsewhere: this gateway is
    shutting down, use another. gateways: the addresses of all gateways; empty means unchanged.
    claim_after_s: claim no more for so many seconds. why: the reason to drain, for people; may be
    empty.
    """

    drain: bool = False
    elsewhere: bool = False
    gateways: Tuple[str, ...] = ()
    claim_after_s: Optional[float] = None
    why: str = ""


NO_ORDERS = Orders()


@dataclass(frozen=True)
class Unservable:
    """Unfinished tasks that the agent cannot get at present, with the reasons for people."""

    tasks: int
    reasons: Tuple[str, ...] = ()


@dataclass
class Answer:
    """The answer to an exchange: a verdict per report, in order, and the claimed tasks.

    campaigns: one entry for each campaign that `tasks` mentions.
    unfinished: when nothing was claimed, the number of tasks still waiting, delayed or working in
    what the agent serves; at zero it can shut down. unservable: those that it will not get.
    timeline: of the server that gave the verdicts; it changes when another server takes over, which
    may lack the last things that the former server had acknowledged. 0 means unknown. Comparisons
    of answers ignore it.
    """

    acks: Tuple[Ack, ...] = ()
    tasks: Tuple[Task, ...] = ()
    campaigns: Tuple[CampaignTerms, ...] = ()
    unfinished: Optional[int] = None
    orders: Orders = NO_ORDERS
    timeline: int = field(default=0, compare=False)
    unservable: Optional[Unservable] = None

    @property
    def left(self) -> Optional[int]:
        """The unfinished tasks that the agent may get one day."""
        if self.unfinished is None or self.unservable is None:
            return self.unfinished
        return self.unfinished - self.unservable.tasks


#: Warnings of an agent: reports cannot be written to its spool and are in memory only; its scratch
#: disk is nearly full; its clock is off by more than a minute; its exchanges fail, and heartbeats
#: do not; inputs or large results are not transferred.
SPOOL_UNUSABLE = "spool"
DISK_FULL = "disk"
CLOCK_OFF = "clock"
EXCHANGES_FAIL = "exchange"
TRANSFERS_FAIL = "transfer"


@dataclass(frozen=True)
class Trouble:
    """What is wrong with an agent: it makes one attempt at a time, or has warnings, or both.

    failures: how many in a row have failed fast, so that it makes one attempt at a time. On a
    suspected host (see `HeartbeatAnswer`) the number may be any, and the failures may have been
    slow. error_class: of the last failure. try_in_s: seconds until the next attempt. warnings:
    `SPOOL_UNUSABLE`, `DISK_FULL`, `CLOCK_OFF`, `EXCHANGES_FAIL`, `TRANSFERS_FAIL`; the queue
    ignores other words.
    """

    failures: int = 0
    error_class: str = ""
    try_in_s: float = 0.0
    warnings: Tuple[str, ...] = ()


@dataclass(frozen=True)
class CampaignOutcomes:
    """How the last first attempts of a session ended in one campaign: done, or failed.

    Only transient failures count: a task that the handler found bad says nothing about the host.
    """

    campaign: int
    done: int
    failed: int


@dataclass(frozen=True)
class Heartbeat:
    """Message that the session lives and holds exactly these attempts.

    pending: lease ids of claims that wait for their answer.
    drawn: the newest lease id drawn when this heartbeat was composed. An attempt of the session
    goes to another agent if its lease is not younger than this one and neither `held` nor `pending`
    names it. A heartbeat says nothing about younger leases: their claims may have overtaken it on
    the way.
    timeline: of the server that answered the agent last; 0 if none. A server of another timeline
    gives nothing to other agents: it may not know which attempts the agent has finished.
    trouble: for the agents' operators; None if all is well.
    tally: outcomes from which the queue learns whether more fails on this host than on others;
    empty means unchanged.
    """

    session: int
    held: Tuple[Held, ...] = ()
    pending: Tuple[str, ...] = ()
    drawn: str = ""
    timeline: int = 0
    trouble: Optional[Trouble] = None
    tally: Tuple[CampaignOutcomes, ...] = ()


@dataclass(frozen=True)
class HeartbeatAnswer:
    """Attempts whose lease is no longer valid: the agent stops them. timeline: as for `Answer`.

    suspect: why this host is suspected to be bad, so that one attempt is made at a time; empty if
    it is not.
    """

    stop: Tuple[Held, ...] = ()
    orders: Orders = NO_ORDERS
    timeline: int = field(default=0, compare=False)
    suspect: str = ""


@dataclass(frozen=True)
class SessionEnd:
    """End of an agent, for people: the reason, and the exit code of its process."""

    reason: str = ""
    exit_code: int = 0


def new_lease(now_ms: Optional[int] = None) -> str:
    """Draw a lease id: a version 7 UUID (RFC 9562), 74 random bits after a timestamp.

    The leading time keeps the ids of one period together in the index; the random part makes it
    unique.
    """
    millis = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    value = (millis & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(0x3 << 62) | 2 << 62
    digits = f"{value:032x}"  # as uuid.UUID writes it, which takes four times as long
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


class LeaseIds:
    """Draws increasing lease ids, which heartbeats need, whatever the clock does."""

    def __init__(self, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._clock_ns = clock_ns
        self._last_ms = 0

    def __call__(self) -> str:
        """Draw the next id."""
        self._last_ms = max(self._last_ms + 1, self._clock_ns() // 1_000_000)
        return new_lease(self._last_ms)


def dumps(message: Any) -> str:
    """Return a message as compact JSON.

    ValueError or TypeError if it holds values that JSON cannot represent: NaN, infinity, other
    objects.
    """
    return _encode(message)


def _members(message: Any) -> Any:
    if not is_dataclass(message):
        raise TypeError(f"a {type(message).__name__} cannot be written as JSON")
    return vars(message)


_encode = json_encoder(default=_members, separators=(",", ":"), ensure_ascii=False)
