"""The messages between agent and queue: plain values, the same in process and over HTTP.

One exchange is one round trip: it reports ended attempts and claims new tasks. A beat,
sent from a thread of its own, keeps the session alive and names what the agent holds.
Every request may be repeated as it is and then changes nothing more: a session is
identified by a key that the agent draws, a claim by its lease id, a report by
(task, lease id).

Nobody changes a message. Those of which a gateway makes many thousands a second are not frozen all
the same: to make a frozen one takes three times as long.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field, is_dataclass
from typing import Any, Callable, Mapping, Optional, Tuple

PROTOCOL = 1

DONE = "done"
FAILED = "failed"
RELEASED = "released"
OUTCOMES = (DONE, FAILED, RELEASED)

ACCEPTED = "accepted"
DUPLICATE = "duplicate"
SUPERSEDED = "superseded"
UNKNOWN = "unknown"

CONTINUE = "continue"
STOP = "stop"

MAX_RESULT_BYTES = 262_144
MAX_TAIL_BYTES = 8_192
MAX_ERROR_CHARS = 2_000
MAX_CLAIM = 1_000
MAX_WITHOUT = 16


@dataclass(frozen=True)
class Hello:
    """An agent presents itself; `key` makes the call repeatable.

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
    """The session that was opened, and its rhythm.

    The session expires `lease_s` seconds after the last beat that arrived. token: the credential of
    the session, where there is a gateway; a secret.
    """

    session: int
    heartbeat_s: float
    lease_s: float
    token: str = field(default="", repr=False)


@dataclass(frozen=True)
class Input:
    """A file that all tasks of a campaign share. digest: its SHA-256, in hex; size: in bytes."""

    digest: str
    size: int


@dataclass(frozen=True)
class CampaignTerms:
    """What the tasks of one campaign share. A change raises `revision`.

    inputs: shared files by name. on_disconnect: what an agent does with running tasks when its
    session must have expired unheard: `continue` (the fence decides) or `stop`.
    """

    campaign: int
    revision: int
    path: str
    handler: Mapping[str, Any]
    params: Mapping[str, Any]
    time_limit_s: Optional[float]
    inputs: Mapping[str, Input] = field(default_factory=dict)
    on_disconnect: str = CONTINUE


@dataclass
class Task:
    """One attempt to work on; (task, lease) is its fence."""

    campaign: int
    revision: int
    task: int
    key: str
    attempt: int
    lease: str
    payload: Mapping[str, Any]


@dataclass(frozen=True)
class Held:
    """The fence of an attempt that the agent has in hand."""

    campaign: int
    task: int
    lease: str


@dataclass(frozen=True)
class Report:
    """How an attempt ended.

    outcome: `done`, `failed` or `released` (handed back: counts neither as failure nor as loss).
    retry: for `failed`: whether a further attempt may help.
    started: for `released`: whether the handler had begun.
    refused: for `released`: the campaign cannot be run where this agent is; `error` says why.
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

    lifetime_s: seconds that this agent will still live; no task is given whose time limit
    is longer. None: no limit. wait_s: for how long the answer may be kept back while there is
    nothing to claim, for a session that holds nothing else; a gateway does that, and takes it for
    a beat that says so; a database does not.
    until_empty: not if nothing is left unfinished either. ahead: whether tasks may be given that
    were leased ahead, under leases of their own; and tasks without a verdict on the reports, where
    the database is away: the reports are sent again later.
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
    """What the queue wants of an agent, beside the answer.

    drain: claim no more, and leave when what is in hand has ended. elsewhere: this gateway is
    going away, use another. gateways: the addresses of all gateways; empty: no news.
    claim_after_s: claim no more for so many seconds.
    """

    drain: bool = False
    elsewhere: bool = False
    gateways: Tuple[str, ...] = ()
    claim_after_s: Optional[float] = None


NO_ORDERS = Orders()


@dataclass(frozen=True)
class Unservable:
    """Unfinished tasks that the agent cannot be given as things are; in words, why not."""

    tasks: int
    reasons: Tuple[str, ...] = ()


@dataclass
class Answer:
    """The answer to an exchange: a verdict per report, in order, and the claimed tasks.

    campaigns: one entry for each campaign that `tasks` mentions.
    unfinished: when nothing was claimed, the tasks still waiting, delayed or working in
    what the agent serves; zero means that it can go home. unservable: those of them for which it
    would wait in vain.
    timeline: of the server that has given the verdicts; it rises when a standby takes over, which
    may not know the last of what the server before it had acknowledged. 0: not known. Answers that
    say the same are equal, whoever gives them.
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
        """The unfinished tasks that the agent may be given one day."""
        if self.unfinished is None or self.unservable is None:
            return self.unfinished
        return self.unfinished - self.unservable.tasks


@dataclass(frozen=True)
class Trouble:
    """Why an agent makes one attempt at a time only: so many in a row have failed fast.

    On a host that is suspicious (see `HeartbeatAnswer`) it may be any number, and they may have
    taken their time. error_class: of the last one. try_in_s: seconds until it makes the next.
    """

    failures: int
    error_class: str
    try_in_s: float


@dataclass(frozen=True)
class CampaignOutcomes:
    """How the last first attempts of a session ended in one campaign: done, or failed.

    Failures are those that may pass: what the handler has found bad says nothing about the host.
    """

    campaign: int
    done: int
    failed: int


@dataclass(frozen=True)
class Heartbeat:
    """The session lives and holds exactly these attempts.

    pending: lease ids of claims that wait for their answer.
    drawn: the newest lease id that had been drawn when this was written down. An attempt that
    belongs to the session, whose lease is not younger than this one and that is named by
    neither `held` nor `pending`, is handed to somebody else. Of younger leases a beat says
    nothing: their claims may have overtaken it on the way.
    timeline: the newest that the agent has heard of; 0: none. A server of another one hands nothing
    on: it may not know what the agent is done with.
    trouble: for those who look after agents; None: all is well.
    tally: of which the queue learns whether more fails on this host than on others; empty: as it
    was told before.
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
    """Attempts whose lease is void: the agent stops working on them. timeline: as for `Answer`.

    suspect: why this host is taken for a bad one, so that one attempt is made at a time; empty: it
    is not.
    """

    stop: Tuple[Held, ...] = ()
    orders: Orders = NO_ORDERS
    timeline: int = field(default=0, compare=False)
    suspect: str = ""


@dataclass(frozen=True)
class SessionEnd:
    """An agent goes: why, and with which exit code of its process. For people."""

    reason: str = ""
    exit_code: int = 0


def new_lease(now_ns: Optional[int] = None) -> str:
    """Draw a lease id: a version 7 UUID (RFC 9562), 74 random bits after a time stamp.

    The leading time keeps the ids of one period together in the index; the random part makes
    it unique.
    """
    millis = (time.time_ns() if now_ns is None else now_ns) // 1_000_000
    value = (millis & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(0x3 << 62) | 2 << 62
    digits = f"{value:032x}"  # as uuid.UUID writes it, which takes four times as long
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


class LeaseIds:
    """Draws lease ids that rise, as the session's beats need them, whatever the clock does."""

    def __init__(self, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._clock_ns = clock_ns
        self._last_ms = 0

    def __call__(self) -> str:
        """Draw the next one."""
        self._last_ms = max(self._last_ms + 1, self._clock_ns() // 1_000_000)
        return new_lease(self._last_ms * 1_000_000)


def dumps(message: Any) -> str:
    """Return a message as compact JSON.

    ValueError or TypeError if it holds what JSON cannot say: NaN, infinity, other objects.
    """
    return json.dumps(
        message, default=_members, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def _members(message: Any) -> Any:
    if not is_dataclass(message):
        raise TypeError(f"a {type(message).__name__} cannot be written as JSON")
    return vars(message)
